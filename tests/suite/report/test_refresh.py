"""Generated blocks follow the records, and the check notices when they do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.suite.report import RecordError, StaleError, refresh

TEXT = """# Title

before
<!-- mooring:table two-radius preset=paper -->
old numbers
<!-- mooring:end -->
after
"""


@pytest.fixture
def setting(save: Callable[..., Path], make_run: Callable[..., Any], tmp_path: Path) -> tuple[Path, Path, Path]:
    """A document, a record and the folder of records."""
    record = save(make_run("vn", 0, 0.0833, 0.1667, 0.0139), "vn.json")
    document = tmp_path / "README.md"
    document.write_text(TEXT, encoding="utf-8")
    return document, record, tmp_path / "records"


def test_the_block_is_replaced_and_the_rest_kept(setting: tuple[Path, Path, Path]) -> None:
    document, _, records = setting
    assert refresh([document], [records]) == [document]
    text = document.read_text(encoding="utf-8")
    assert "old numbers" not in text
    assert "|   8.3 |  16.7 |  1.4 |" in text
    assert text.startswith("# Title\n\nbefore\n<!-- mooring:table two-radius preset=paper -->\n| Model")
    assert text.endswith("\n<!-- mooring:end -->\nafter\n")
    assert refresh([document], [records]) == []


def test_check_fails_when_stale_and_writes_nothing(setting: tuple[Path, Path, Path]) -> None:
    document, record, records = setting
    message = f"{document}: tables differ from the records. Run `mooring report --refresh`."
    with pytest.raises(StaleError) as caught:
        refresh([document], [records], check=True)
    assert str(caught.value) == message
    assert document.read_text(encoding="utf-8") == TEXT

    refresh([document], [records])
    assert refresh([document], [records], check=True) == []

    data = json.loads(record.read_text(encoding="utf-8"))
    data["metrics"]["best"]["label"] = 0.0901
    record.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(StaleError):
        refresh([document], [records], check=True)


def test_an_edited_number_is_noticed(setting: tuple[Path, Path, Path]) -> None:
    document, _, records = setting
    refresh([document], [records])
    document.write_text(document.read_text(encoding="utf-8").replace("16.7 ", "99.9 ", 1), encoding="utf-8")
    with pytest.raises(StaleError):
        refresh([document], [records], check=True)


def test_two_blocks_and_text_between(setting: tuple[Path, Path, Path]) -> None:
    document, _, records = setting
    document.write_text(TEXT + "between\n" + TEXT.replace("two-radius p", "two-radius-diagnostics p"), encoding="utf-8")
    refresh([document], [records])
    text = document.read_text(encoding="utf-8")
    assert text.count("| Model") == 2
    assert "after\nbetween\n# Title" in text


def test_a_file_without_blocks_needs_no_records(tmp_path: Path) -> None:
    document = tmp_path / "plain.md"
    document.write_text("plain", encoding="utf-8")
    assert refresh([document], [tmp_path / "nowhere"], check=True) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "<!-- mooring:end -->",
            "",
            "block '<!-- mooring:table two-radius preset=paper -->' is never closed. Add '<!-- mooring:end -->' "
            "after it.",
        ),
        ("two-radius", "two-radios", "no table 'two-radios'; did you mean 'two-radius'?"),
        ("preset=paper", "preset", "'preset' is no option. Write it as name=value."),
        (
            "preset=paper",
            "preset=full",
            "table 'two-radius': no run of two-radius with preset 'full'. Write one with `mooring run two-radius "
            "--preset full`.",
        ),
        (
            "old numbers",
            "<!-- mooring:table audit -->",
            "block '<!-- mooring:table audit -->' begins inside another. Close the first with '<!-- mooring:end -->'.",
        ),
    ],
)
def test_mistakes_are_named_with_their_file(setting: tuple[Path, Path, Path], old: str, new: str, message: str) -> None:
    document, _, records = setting
    document.write_text(TEXT.replace(old, new), encoding="utf-8")
    with pytest.raises(RecordError) as caught:
        refresh([document], [records])
    assert str(caught.value) == f"{document}: {message}"
