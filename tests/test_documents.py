"""What README and docs say comes from the records, and what they point at exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mooring.suite.chapters import REPORT
from mooring.suite.records import refusals
from mooring.suite.report import StaleError, refresh
from mooring.suite.train.experiment import preset_configs

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What the site takes from outside of docs/, see tools/site/hooks.py.
OUTSIDE = {"benchmarks.md", "changelog.md", "contributing.md"}


def test_tables_say_what_the_records_say() -> None:
    refresh(REPORT, PAGES, [ROOT / "results"], check=True)


def test_every_record_may_be_published() -> None:
    assert refusals(ROOT / "results", preset_configs()) == []


def test_the_published_records_are_few_small_files() -> None:
    sizes = [path.stat().st_size for path in (ROOT / "results").rglob("*") if path.is_file()]
    assert len(sizes) <= 40
    assert sum(sizes) <= 6_000_000


def test_a_changed_number_is_noticed(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    page = tmp_path / "README.md"
    page.write_text(re.sub(r"(\| Anchored [^|]*\|\s*)\d", r"\g<1>9", text), encoding="utf-8")
    with pytest.raises(StaleError, match=r"README\.md"):
        refresh(REPORT, [page], [ROOT / "results"], check=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#\s]+)", prose):
        assert "://" in target or (page.parent / target).exists(), target


def test_the_site_names_every_page() -> None:
    named = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.M))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert named == pages | OUTSIDE
