"""Our docstrings as mkdocstrings wants them: maths, roles and examples in Markdown, links where a page has the name."""

from __future__ import annotations

import importlib
import re
from functools import cache
from textwrap import dedent, indent
from typing import Any

import griffe

# The packages whose public names the reference documents.
PACKAGES = ("ops", "nn", "models", "zoo", "audit", "theory", "look")
ROLE = re.compile(r":(?P<role>math|class|func|mod|meth|attr|data|exc):`(?P<text>[^`]+)`")
MATHS = re.compile(r"^(?P<margin> *)\.\. math::\n(?P<body>(?:(?P=margin) +\S.*\n|\s*\n)+)", flags=re.M)
EXAMPLE = re.compile(r"^(?P<margin> *)>>> .*\n(?:(?P=margin)\S.*\n?)*", flags=re.M)


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
    text = EXAMPLE.sub(_fenced, text)
    return ROLE.sub(_role, text).rstrip("\n")


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
