"""The example of the page on adding a module is run as it stands."""

import re

import pytest

from mooring import zoo
from mooring.zoo import registry
from support import ROOT

PAGE = ROOT / "docs" / "add-a-module.md"


def example() -> str:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 1
    return str(blocks[0])


def test_the_example_runs_and_prints_what_the_page_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A registry of its own: other tests go through all names.
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    exec(compile(example(), str(PAGE), "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out.strip()
    promised = re.search(r"It prints `(.*?)`", PAGE.read_text())
    assert promised is not None
    assert printed.startswith(promised.group(1))
    assert "counted-mean" in zoo.names()


def test_the_example_stays_short() -> None:
    code = [line for line in example().splitlines() if line.strip()]
    assert len(code) <= 30
