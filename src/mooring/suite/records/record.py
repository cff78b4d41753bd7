"""One record as a report reads it: a file, or a line of `results/BOARD.jsonl`, whose curves are read when needed.

The kinds are `run` (one training), `verify` (the theorems), `audit` (one module measured), `bench` (speed), `soak`
(long runs of random inputs and kills) and `mutation` (faults planted to test the tests).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

SCHEMA = 1
# The suffix of published records, one per line.
LINES = ".jsonl"
LONGEST_NAME = 200
# Measurements are float32 and end below this; sums and squares of such numbers are still finite.
LARGEST = 1e39
LARGEST_COUNT = 10**9
_MISSING = object()
# The commands that write records of each kind to folders that `mooring report` reads.
COMMANDS = {
    "run": "mooring run {task} --preset {preset}",
    "verify": "mooring verify",
    "audit": "mooring audit catalogue --json runs/audit",
    "bench": "mooring bench --json runs/bench/peers.json",
    "soak": "make soak",
    "mutation": "make mutation",
}
KINDS = tuple(COMMANDS)


class RecordError(ValueError):
    """A record file that cannot be used; the message names the file and the field, `path` is the file."""

    def __init__(self, message: str, path: Path | None = None) -> None:
        super().__init__(printable(message))
        self.path = path


def printable(text: str) -> str:
    """Return the text on one line, with an escape for every character that a terminal could not show.

    >>> printable("a\\nb"), printable("caf\\u00e9"), printable("\\udcff")
    ('a\\\\nb', 'café', '\\\\udcff')
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text
    )


@dataclass(frozen=True, eq=False)
class Record:
    """One record: where it is, its kind and its JSON content.

    Args:
        path: the file, or file and line (`results/two-radius.jsonl:17`), for messages.
        data: the fields; all of them for a file, all but curves and diagnostics for a line.
        remedy: the advice at the end of a message.
        file: the file that the run wrote, if that is not `path`; the names of its folders list what was changed.
        bulk: reads the curves and diagnostics of a line, as `{"epochs": [...], "diagnostics": {...}}`.

    >>> record = Record(Path("vn-seed0.json"), "run", {"task": "two-radius", "metrics": {"best": {"label": 0.5}}})
    >>> record.number("metrics", "best", "label")
    0.5
    """

    path: Path
    kind: str
    data: Mapping[str, Any] = field(repr=False)
    remedy: str = field(default="", repr=False)
    file: Path | None = None
    bulk: Callable[[], Mapping[str, Any]] | None = field(default=None, repr=False)

    @property
    def origin(self) -> Path:
        """The file that the run wrote."""
        return self.file or self.path

    @cached_property
    def content(self) -> Mapping[str, Any]:
        """All fields, with curves and diagnostics."""
        if self.bulk is None:
            return self.data
        bulk = dict(self.bulk())
        data = dict(self.data)
        if "epochs" in bulk:
            data["metrics"] = {**data["metrics"], "epochs": bulk.pop("epochs")}
        return {**data, **bulk}

    def _fields(self, keys: Sequence[str]) -> Mapping[str, Any]:
        light = keys and keys[0] != "diagnostics" and (keys[0] != "metrics" or keys[1:2] not in ((), ("epochs",)))
        return self.data if light else self.content

    def _at(self, keys: Sequence[str]) -> Any:
        value: Any = self._fields(keys)
        for key in keys:
            value = value.get(key, _MISSING) if isinstance(value, Mapping) else _MISSING
        return value

    def find(self, *keys: str) -> Any:
        """Return the value at a path of keys, or None if the path ends early or holds null."""
        value = self._at(keys)
        return None if value is _MISSING else value

    def need(self, *keys: str, kind: type | tuple[type, ...] = object, called: str = "a value") -> Any:
        """Return the value at a path of keys; RecordError if it is missing or of another type."""
        value = self._at(keys)
        if value is _MISSING:
            raise self.error(f"field '{'.'.join(keys)}' is missing.")
        # To Python a bool is an int, but a flag in place of a number is a mistake in the record.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool and kind is not object):
            got = f"{type(value).__name__} {value!r}"
            raise self.error(f"field '{'.'.join(keys)}' is {got:.80}, expected {called}.")
        return value

    def number(self, *keys: str) -> float:
        return self._finite(self.need(*keys, kind=(int, float), called="a number"), keys)

    def numbers(self, *keys: str, gaps: bool = False) -> list[Any]:
        """Return a list of numbers; with `gaps`, null is a missing number and is returned as None."""
        values = self.items(*keys)
        for value in values if not gaps else [value for value in values if value is not None]:
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise self.error(f"field '{'.'.join(keys)}' holds {value!r:.80}, expected numbers.")
            self._finite(value, keys)
        return values

    def whole(self, *keys: str) -> int:
        return int(self.need(*keys, kind=int, called="a whole number"))

    def name(self, *keys: str) -> str:
        """Return a text that names something: one line, neither empty nor too long."""
        value = self.text(*keys)
        if not value.strip() or not value.isprintable() or len(value) > LONGEST_NAME:
            raise self.error(
                f"field '{'.'.join(keys)}' is {value[:80]!r}, expected a name of 1 to {LONGEST_NAME} printable letters."
            )
        return value

    def text(self, *keys: str) -> str:
        return str(self.need(*keys, kind=str, called="a text"))

    def flag(self, *keys: str) -> bool:
        return bool(self.need(*keys, kind=bool, called="true or false"))

    def items(self, *keys: str) -> list[Any]:
        return list(self.need(*keys, kind=list, called="a list"))

    def mapping(self, *keys: str) -> Mapping[str, Any]:
        value: Mapping[str, Any] = self.need(*keys, kind=dict, called="an object")
        return value

    def parts(self, *keys: str) -> list[Record]:
        """Return a list of objects as records, whose errors name this file; empty if the field is missing or null."""
        values = [] if self.find(*keys) is None else self.items(*keys)
        for value in values:
            if not isinstance(value, Mapping):
                raise self.error(f"field '{'.'.join(keys)}' holds {value!r:.80}, expected objects.")
        return [Record(self.path, self.kind, value, self._remedy()) for value in values]

    def setting(self, name: str, default: Any = _MISSING) -> Any:
        """Return a field of a run's configuration, at its top or in a section (`config.task.num_identifiers`)."""
        config = self.mapping("config")
        for section in (config, *(value for value in config.values() if isinstance(value, Mapping))):
            if section.get(name) is not None:
                return section[name]
        if default is _MISSING:
            raise self.error(f"field 'config.{name}' is missing.")
        return default

    def count(self, name: str, default: Any = _MISSING) -> int:
        """Return a setting that is a number of things."""
        return self.counted(name, self.setting(name, default))

    def counted(self, name: str, value: Any) -> int:
        """Return the value of a setting; RecordError unless it is whole, at least 1 and small enough for an axis."""
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST_COUNT:
            got = f"field 'config.{name}' is {value!r:.80}"
            raise self.error(f"{got}, expected a whole number from 1 to {LARGEST_COUNT:,}.")
        return value

    def error(self, problem: str) -> RecordError:
        """Return the error for a problem with this record, with the file and the command that writes it again."""
        return RecordError(f"{self.path}: {problem} {self._remedy()}", self.path)

    @property
    def task(self) -> str:
        return self.text("task")

    @property
    def model(self) -> str:
        return self.text("model")

    @property
    def preset(self) -> str:
        return self.text("preset")

    @property
    def seed(self) -> int:
        return self.whole("seed")

    def _finite(self, value: float, keys: Sequence[str]) -> float:
        if abs(value) <= LARGEST:
            return float(value)
        problem = f"field '{'.'.join(keys)}' is {value!s:.40}, expected a number."
        if keys[0] != "metrics":
            raise self.error(problem)
        raise RecordError(
            f"{self.path}: {problem} The run diverged, or its data leave the score undefined, and would do so again. "
            "Delete the record and train with other settings.",
            self.path,
        )

    def _remedy(self) -> str:
        if self.remedy:
            return self.remedy
        task, preset = (self.find(key) for key in ("task", "preset"))
        known = [word for word in (task, preset) if isinstance(word, str) and word and len(word) <= LONGEST_NAME]
        task, preset = map(shlex.quote, known) if len(known) == 2 else ("TASK", "PRESET")
        command = COMMANDS[self.kind].format(task=task, preset=preset)
        return f"Write the record again with `{command}`."
