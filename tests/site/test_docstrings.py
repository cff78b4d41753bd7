"""Docstrings as the reference shows them."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Callable
from inspect import signature

import pytest

from mooring.nn import SlotVirtualNode
from support import ROOT

DOCSTRING = r"""Nodes -> slots, see :class:`~mooring.nn.SlotWrite`, :func:`mooring.ops.merge` and :meth:`spread`.

.. math::
    Z = \sum_i e^{s_i}, \qquad
    \mu = 1

With :math:`M` slots.

Args:
    slots: as in :class:`SlotConv`.

>>> 1 + 1
2
"""


@pytest.fixture(scope="module")
def translated() -> Callable[[str], str]:
    pytest.importorskip("griffe", reason="griffe is not installed: pip install 'mooring[docs]'")
    return runpy.run_path(str(ROOT / "tools" / "site" / "docstrings.py"))["translated"]


def test_roles_become_links_where_the_reference_has_the_name(translated: Callable[[str], str]) -> None:
    text = translated(DOCSTRING)
    assert "[`SlotWrite`][mooring.nn.SlotWrite], [`mooring.ops.merge`][mooring.ops.merge] and `spread`." in text
    assert "[`SlotConv`][mooring.nn.SlotConv]" in text


def test_formulas_and_examples_are_markdown(translated: Callable[[str], str]) -> None:
    text = translated(DOCSTRING)
    assert "\\[\nZ = \\sum_i e^{s_i}, \\qquad\n\\mu = 1\n\\]" in text
    assert "With \\(M\\) slots." in text
    assert "```pycon\n>>> 1 + 1\n2\n```" in text


def test_indented_lines_of_an_output_stay_in_its_block(translated: Callable[[str], str]) -> None:
    text = translated("Build it.\n\n    >>> print('a\\n    b')\n    a\n        b\n\nArgs:\n    x: one.")
    assert "    ```pycon\n    >>> print('a\\n    b')\n    a\n        b\n    ```\n\nArgs:" in text


def test_what_has_neither_is_left_as_it_is(translated: Callable[[str], str]) -> None:
    plain = "A line.\n\nArgs:\n    x: a ``tensor``."
    assert translated(plain) == plain


@pytest.mark.parametrize("package", ["audit", "look", "models", "nn", "ops", "theory", "zoo"])
def test_every_argument_has_an_entry_of_its_own(package: str) -> None:
    for path in sorted((ROOT / "src" / "mooring" / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                hidden = re.findall(r"^ +\w+: .*\. ([a-z_]+): ", ast.get_docstring(node) or "", flags=re.M)
                assert not hidden, f"{path.name}, {node.name}: {hidden} in the entry of another argument"


def test_a_forward_documents_its_arguments() -> None:
    described = re.findall(r"^ +(\w+): ", SlotVirtualNode.forward.__doc__ or "", flags=re.M)
    assert ["x", *described] == list(signature(SlotVirtualNode.forward).parameters)[1:]
