"""Generated blocks of documents follow the records."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mooring.suite.chapters import REPORT
from mooring.suite.report import RecordError, StaleError, documents

Save = Callable[[dict[str, Any], str], Path]
Make = Callable[..., dict[str, Any]]
refresh = partial(documents.refresh, REPORT)
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


def test_a_row_with_fewer_seeds_than_claimed_is_refused(
    setting: tuple[Path, Path, Path], save: Save, make_run: Make
) -> None:
    document, _, records = setting
    document.write_text(TEXT.replace("preset=paper", "preset=paper seeds=2"), encoding="utf-8")
    with pytest.raises(RecordError, match=r"row 'VN' has 1 seeds where seeds=2 is claimed"):
        refresh([document], [records])
    save(make_run("vn", 1, 0.0833, 0.1667, 0.0139), "vn-1.json")
    assert refresh([document], [records]) == [document]
    save(make_run("mpnn", 0, 0.0833, 0.1667, 0.0139), "mpnn.json")
    with pytest.raises(RecordError, match="row 'MPNN'"):
        refresh([document], [records], check=True)


def test_a_caption_that_the_records_contradict_is_refused(everything: Path, tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(TEXT.replace("two-radius preset=paper", "motifs preset=full"), encoding="utf-8")
    records = tmp_path / "records"
    shutil.copytree(everything / "motifs", records / "motifs")
    assert refresh([document], [records]) == [document]
    changed = records / "motifs" / "full,hidden=9"
    changed.mkdir()
    for path in sorted((records / "motifs" / "full").glob("sum-*")):
        made = json.loads(path.read_text(encoding="utf-8"))
        (changed / path.name).write_text(json.dumps(made | {"config": {"hidden": 9}}), encoding="utf-8")
    with pytest.raises(
        RecordError, match=r"page\.md: table 'motifs': the caption says .* but one is Sum pool \(hidden 9\)"
    ):
        refresh([document], [records], check=True)


@pytest.mark.parametrize(
    ("name", "claim", "message"),
    [
        ("two-radius preset=paper", "many", "seeds=many is not a number of seeds"),
        ("two-radius preset=paper", "0", "seeds=0 is not a number of seeds"),
        ("two-radius-diagnostics preset=paper", "2", "no column of seeds"),
    ],
)
def test_a_claim_that_cannot_be_checked_is_refused(
    name: str, claim: str, message: str, everything: Path, tmp_path: Path
) -> None:
    document = tmp_path / "page.md"
    document.write_text(TEXT.replace("two-radius preset=paper", f"{name} seeds={claim}"), encoding="utf-8")
    with pytest.raises(RecordError, match=message):
        refresh([document], [everything])


def test_check_fails_when_stale_and_writes_nothing(setting: tuple[Path, Path, Path]) -> None:
    document, record, records = setting
    message = f"{document}: tables or figures differ from the records. Run `mooring report --refresh`."
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
        ("preset=paper", "preset", "'preset' is not an option. Write it as name=value."),
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


PICTURE = "# Title\n\n<!-- mooring:figure capacity{} -->\n![What it shows](img/capacity.svg)\n"


def test_the_figure_a_document_names_is_drawn_and_kept_fresh(everything: Path, tmp_path: Path) -> None:
    document, drawing = tmp_path / "page.md", tmp_path / "img" / "capacity.svg"
    document.write_text(PICTURE.format(""), encoding="utf-8")
    drawing.parent.mkdir()
    with pytest.raises(StaleError, match=r"capacity\.svg: tables or figures differ"):
        refresh([document], [everything], check=True)
    assert refresh([document], [everything]) == [drawing]
    assert refresh([document], [everything], check=True) == []
    drawing.write_bytes(drawing.read_bytes()[:-9])
    with pytest.raises(StaleError):
        refresh([document], [everything], check=True)


def test_a_panel_is_found_by_its_title(save: Callable[..., Path], make_run: Callable[..., Any], tmp_path: Path) -> None:
    for dataset in ("esol", "lipo"):
        made = make_run("none", 0, 1, 1, 1, task="molecules", preset="full", config={"dataset": dataset})
        made["diagnostics"] = {"metric": "rmse"}
        made["metrics"] |= {"final": {"test/rmse": 1.0}, "best": {"rmse": 1.0}, "epochs": [{"epoch": 0, "rmse": 1.0}]}
        path = save(made, f"{dataset}.json")
    drawn = {}
    for panel in ("lipo", "esol", "1", "2"):
        document = tmp_path / f"{panel}.md"
        comment = f"<!-- mooring:figure molecules-curves preset=full panel={panel} -->\n![Curves](img/{panel}.svg)\n"
        document.write_text(comment, encoding="utf-8")
        (drawing,) = refresh([document], [path.parent])
        drawn[panel] = drawing.read_bytes()
    assert (drawn["esol"] == drawn["1"]) != (drawn["esol"] == drawn["2"])
    assert (drawn["lipo"] == drawn["1"]) != (drawn["lipo"] == drawn["2"])
    assert drawn["lipo"] != drawn["esol"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (" panel=9", "panel=9, but it has 1"),
        (" panel=0", "panel=0"),
        (" panel=x", "panel=x"),
        (" size", "not an option"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused(options: str, message: str, everything: Path, tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(PICTURE.format(options), encoding="utf-8")
    with pytest.raises(RecordError, match=message):
        refresh([document], [everything])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("capacity preset=grid", "figure 'capacity': unknown option 'preset'"),
        ("learning-curves", "figure 'learning-curves': option 'preset' is missing"),
        ("learning-curves preset=papr", "figure 'learning-curves': no run of two-radius with preset 'papr'"),
        ("claim label=thm:uper", "figure 'claim': label is 'thm:uper'"),
        ("bench name=other", "other"),
    ],
)
def test_a_wrong_option_of_a_figure_is_named(name: str, message: str, everything: Path, tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(PICTURE.format("").replace("capacity -->", f"{name} -->"), encoding="utf-8")
    with pytest.raises(RecordError, match=message):
        refresh([document], [everything])


def test_a_block_shows_the_columns_it_names(setting: tuple[Path, Path, Path]) -> None:
    document, _, records = setting
    document.write_text(TEXT.replace("preset=paper", "preset=paper seeds=1 columns=Model,Both"), encoding="utf-8")
    assert refresh([document], [records]) == [document]
    rows = [line for line in document.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert rows[0].split("|")[1:-1] == [" Model ", " Both "]
    assert rows[2:] == ["| VN    |  1.4 |"]
    document.write_text(TEXT.replace("preset=paper", "preset=paper columns=Model,Bothh"), encoding="utf-8")
    with pytest.raises(RecordError, match="no column 'Bothh'; did you mean 'Both'"):
        refresh([document], [records])
