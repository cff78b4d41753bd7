"""The map and the table of what to touch name files that exist."""

import re

import pytest

from support import ROOT

PATH = re.compile(r"`((?:src|tests|docs|results)/[\w./-]+)`")


def paths(document: str) -> list[str]:
    return PATH.findall((ROOT / document).read_text(encoding="utf-8"))


@pytest.mark.parametrize("document", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_path_exists(document: str) -> None:
    named = paths(document)
    assert len(named) >= 10
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_a_change_is_made_in_at_most_three_files() -> None:
    """The second column; the third has tests, older records and documents that follow the change."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| a")]
    assert len(rows) >= 12
    assert {change.strip(): files for change, files in rows if len(PATH.findall(files)) > 3} == {}


def test_every_room_of_the_map_exists_and_every_room_is_on_the_map() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for folder in (ROOT / "src/mooring", ROOT / "src/mooring/suite"):
        for room in folder.iterdir():
            if room.is_dir() and room.name != "__pycache__":
                assert f"{room.name}/" in text, room
            elif room.suffix == ".py" and not room.name.startswith("__"):
                assert room.name in text, room


# What stands in each of ten rooms, and a word of it that nobody else defines.
ANSWERS = {
    "src/mooring/ops/write.py": "def write(",
    "src/mooring/ops/reference.py": "float64",
    "src/mooring/ops/backend.py": "def choose(",
    "src/mooring/ops/tiles/layout.py": "def _buckets(",
    "src/mooring/nn/spec.py": "class MemorySpec",
    "src/mooring/nn/slot_update.py": "anchor_logit",
    "src/mooring/zoo/registry.py": "def register(",
    "src/mooring/suite/two_radius/data/tasks.py": "class CountedTask",
    "src/mooring/suite/train/checkpoint.py": "class CheckpointStore",
    "src/mooring/suite/records/run.py": "class RunRecord",
    "src/mooring/suite/two_radius/tables.py": "two-radius",
}


@pytest.mark.parametrize(("path", "word"), ANSWERS.items(), ids=list(ANSWERS))
def test_the_map_says_where_each_thing_lives(path: str, word: str) -> None:
    assert path in paths("docs/architecture.md")
    assert word in (ROOT / path).read_text(encoding="utf-8")
