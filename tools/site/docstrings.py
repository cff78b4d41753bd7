"""Our docstrings as mkdocstrings wants them: maths, roles and examples in Markdown, links where a page has the name."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import griffe

# The packages whose public names the reference documents.
ROOT = Path(__file__).parents[2]
LABEL = re.compile(r"(?P<tick>`+)(?P<label>(?:thm|prop|cor|def|rem|eq|tab|sec|app):[\w-]+)(?P<part>\.[\w.]+)?(?P=tick)")
PACKAGES = ("ops", "nn", "models", "zoo", "audit", "theory", "look")
ROLE = re.compile(r":(?P<role>math|class|func|mod|meth|attr|data|exc):`(?P<text>[^`]+)`")
MATHS = re.compile(r"^(?P<margin> *)\.\. math::\n(?P<body>(?:(?P=margin) +\S.*\n|\s*\n)+)", flags=re.M)
EXAMPLE = re.compile(r"^(?P<margin> *)>>> .*\n(?:(?P=margin) *\S.*\n?)*", flags=re.M)


class Markdown(griffe.Extension):
    """Translates every docstring before it is read for its sections."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = translated(obj.docstring.value)


def translated(text: str) -> str:
    """The docstring in Markdown.

    >>> print(translated("Mean of :math:`x_i`; see :class:`~mooring.nn.SlotWrite` and :meth:`spread`."))
    Mean of \\(x_i\\); see [`SlotWrite`][mooring.nn.SlotWrite] and `spread`.
    """
    text = MATHS.sub(_display, f"{text}\n")
    # The pages of the reference are in a folder beside the page with the labels.
    text = printed(EXAMPLE.sub(_fenced, text), '<a href="../theorems.html#the-papers-labels">{}</a>')
    return ROLE.sub(_role, text).rstrip("\n")


def printed(text: str, link: str) -> str:
    r"""The text with the paper's labels as the paper prints them, each put into ``link``.

    >>> printed("by `prop:mass.float32`", "[{}](theorems.md)")
    'by [Prop.\xa04.3](theorems.md) (float32)'
    """

    def number(found: re.Match[str]) -> str:
        name = numbers().get(found["label"])
        part = f" ({found['part'][1:]})" if found["part"] else ""
        return found[0] if name is None else link.format(name) + part

    return LABEL.sub(number, text)


@cache
def numbers() -> dict[str, str]:
    """What the paper prints for each of its labels, from the table in docs/theorems.md."""
    page = (ROOT / "docs" / "theorems.md").read_text(encoding="utf-8")
    return {
        label: number.replace(" ", "\N{NO-BREAK SPACE}")
        for number, label in re.findall(r"^\| ([^|]+?) +\| `([\w:-]+)` +\|", page, flags=re.M)
    }


@cache
def documented() -> dict[str, str]:
    """Where the reference has each public name."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        for name in importlib.import_module(f"mooring.{package}").__all__:
            # A name that is handed on belongs to the lower package, which comes first.
            found.setdefault(name, f"mooring.{package}.{name}")
    return found


def _role(found: re.Match[str]) -> str:
    if found["role"] == "math":
        return f"\\({found['text'].strip()}\\)"
    path = " ".join(found["text"].split())
    name = path.lstrip("~").rpartition(".")[2]
    shown = name if path.startswith("~") else path.lstrip("~")
    home = documented().get(name) if found["role"] in ("class", "func") else None
    return f"[`{shown}`][{home}]" if home is not None else f"`{shown}`"


def _display(found: re.Match[str]) -> str:
    body = dedent(found["body"]).strip("\n")
    return indent(f"\\[\n{body}\n\\]\n\n", found["margin"])


def _fenced(found: re.Match[str]) -> str:
    block = dedent(found[0]).rstrip("\n")
    return indent(f"```pycon\n{block}\n```\n", found["margin"])
