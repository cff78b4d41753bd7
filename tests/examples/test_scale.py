"""The snippets of docs/scale.md do what the page says."""

import doctest

from support import ROOT


def test_snippets() -> None:
    found = doctest.testfile(str(ROOT / "docs" / "scale.md"), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert found.attempted > 15
    assert found.failed == 0
