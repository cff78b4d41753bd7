"""The record of one part of a soak: whole or absent on disk, and taken up again where it stopped."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mooring.suite.files import write_atomic
from mooring.suite.records import git_commit

ROOT = Path(__file__).parent.parent.parent
# Of no interest to `mooring report`, which leaves folders with an underscore out.
PARTS = ROOT / "runs" / "_soak"


@dataclass(frozen=True)
class Part:
    """A file and what it is of; a file of something else, or of other code, is not taken up."""

    path: Path
    what: dict[str, Any]

    def load(self) -> dict[str, Any] | None:
        """The state that was saved last, or None."""
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        same = content.get("what") == self.what and content.get("git_commit") == commit()
        return content["state"] if same else None

    def save(self, state: dict[str, Any]) -> None:
        write_json(self.path, {"what": self.what, "git_commit": commit(), "state": state})


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all."""
    write_atomic(path, json.dumps(content, indent=1) + "\n")


@lru_cache(maxsize=1)
def commit() -> str:
    """The commit this process started from."""
    return git_commit()


def shard(text: str) -> tuple[int, int]:
    """``"i/k"`` -> which of how many, counted from zero.

    >>> shard("0/4")
    (0, 4)
    """
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and int(index) < int(count)):
        raise ValueError(f"--shard is {text!r} but i/k with i < k was expected, as in 0/4.")
    return int(index), int(count)
