"""Every Python block of the site runs, page by page and in order."""

from __future__ import annotations

import dataclasses
import io
import re
import runpy
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest

from mooring.suite.records import KINDS, RunRecord
from support import ROOT

# Pages whose code has a test of its own, because it is saved to a file, is a session, or trains for a minute.
ELSEWHERE = {
    "add-a-module.md": "tests/zoo/test_docs.py",
    "learned-solver.md": "tests/examples/test_meshes.py",
    "scale.md": "tests/examples/test_scale.py",
}
# A block that the reader is to save under this name, for the blocks after it to import.
SAVED = re.compile(r"# (\w+\.py)\n")
BLOCK = re.compile(r"^```(python|diff)\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", flags=re.M | re.S)


class Block(NamedTuple):
    """A Python block: the number of its first line, its code, and what the page says that it prints."""

    line: int
    code: str
    printed: str | None


def blocks(page: Path) -> list[Block]:
    """The Python blocks of a page; of a diff the new version."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        code = match[2] if match[1] == "python" else re.sub(r"^(?:[+ ]|-.*)", "", match[2], flags=re.M)
        found.append(Block(text[: match.start()].count("\n") + 2, code, match[3]))
    return found


NUMBER = re.compile(r"-?\d+\.\d+")


def check_printed(said: str, printed: str) -> None:
    """Words and whole numbers are the page's; other numbers are near the page's, as another CPU rounds differently."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", said).split()
    numbers = [float(one) for one in NUMBER.findall(printed)]
    assert [float(one) for one in NUMBER.findall(said)] == pytest.approx(numbers, rel=0.25, abs=0.02)


PAGES = {
    page.relative_to(ROOT / "docs").as_posix(): page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if blocks(page) and page.name not in ELSEWHERE
} | {"README.md": ROOT / "README.md"}


def run(page: Path, folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the blocks of a page leave behind, run one after the other in a folder of their own."""
    patch.chdir(folder)
    patch.syspath_prepend(folder)
    namespace: dict[str, Any] = {"__name__": page.stem}
    for line, code, printed in blocks(page):
        if saved := SAVED.match(code):
            (folder / saved[1]).write_text(code, encoding="utf-8")
        with redirect_stdout(io.StringIO()) as said:
            exec(compile("\n" * (line - 1) + code, str(page), "exec", dont_inherit=True), namespace)
        if printed is not None or (page.parent.name == "tutorials" and said.getvalue()):
            check_printed(said.getvalue(), printed or "")
    return namespace


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.filterwarnings("ignore")
def test_the_code_of_the_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = run(PAGES[name], tmp_path, monkeypatch)
    if name == "tutorials/first-memory.md":
        errors, changes = left["errors"], left["changes"]
        assert errors["slots"] < 0.7 * min(error for model, error in errors.items() if model != "slots")
        assert [model for model, change in changes.items() if change > 1e-4] == ["slots"]
    if name == "tutorials/molecules.md":
        assert left["errors"]["with a memory"] < 0.8 * left["errors"]["without"] < 0.8 * left["constant"]
    if name == "tutorials/one-big-graph.md":
        # The page says that the memory does not help there.
        assert abs(left["accuracy"]["with a memory"] - left["accuracy"]["without a memory"]) < 0.02
        assert min(left["accuracy"].values()) > 0.95
        assert left["page"].data["graphs"][0]["note"].startswith("2,000 of 4,900 nodes are drawn")
    if name.startswith("tutorials/") and name != "tutorials/first-memory.md":
        assert (tmp_path / "look.html").stat().st_size > 10_000


def test_pages_that_run_elsewhere_do() -> None:
    for page, test in ELSEWHERE.items():
        assert page in (ROOT / test).read_text(encoding="utf-8")


def test_a_page_that_does_not_run_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```python\nx = 1\n```\n\n```sh\nmake it so\n```\n\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError) as error:
        run(page, tmp_path, monkeypatch)
    assert error.traceback[-1].lineno + 1 == 12, "the line of the page"


def test_the_page_on_records_has_every_field_and_kind() -> None:
    text = (ROOT / "docs" / "reference" / "records.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", text)) | set(re.findall(r'`"(\w+)"`', text))
    assert {field.name for field in dataclasses.fields(RunRecord)} <= named
    assert set(KINDS) <= named


def test_the_picture_is_what_its_script_draws() -> None:
    drawn = runpy.run_path(str(ROOT / "tools" / "picture.py"))["picture"]()
    assert (ROOT / "docs" / "img" / "idea.svg").read_text(encoding="utf-8") == drawn
    ElementTree.fromstring(drawn)
