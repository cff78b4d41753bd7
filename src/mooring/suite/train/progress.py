"""How a run tells the world where it is: a small file, written atomically, that the parent process reads."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from mooring.suite.files import write_atomic

PROGRESS_FILE = "progress.json"


@dataclass(frozen=True)
class Progress:
    """Where a run is.

    Args:
        epochs_done, epochs: Finished epochs, and how many there are at most.
        metrics: The last epoch's row.
        seconds_left: Estimate until the last epoch; None before the first is finished.
        notes: What the user should know, e.g. a corrupt checkpoint.
    """

    epochs_done: int
    epochs: int
    metrics: dict[str, float] = field(default_factory=dict)
    seconds_left: float | None = None
    notes: tuple[str, ...] = ()


class Monitor:
    """Hears what a run reports; this one turns notes into warnings and ignores the rest."""

    def note(self, text: str) -> None:
        """Something the user should know."""
        warnings.warn(text, UserWarning, stacklevel=2)

    def epoch(self, progress: Progress) -> None:
        """An epoch is finished."""


class ProgressFile(Monitor):
    """Writes progress to a file, at most every `interval` seconds; notes at once, and to stderr for the log."""

    def __init__(self, path: Path, interval: float = 0.5) -> None:
        self.path = path
        self.interval = interval
        self.latest = Progress(0, 0)
        self.notes: tuple[str, ...] = ()
        self.written = -interval

    def note(self, text: str) -> None:
        self.notes = (*self.notes, text)
        print(text, file=sys.stderr, flush=True)
        self._write()

    def epoch(self, progress: Progress) -> None:
        self.latest = progress
        if time.monotonic() - self.written >= self.interval or progress.epochs_done == progress.epochs:
            self._write()

    def _write(self) -> None:
        self.written = time.monotonic()
        latest = dataclasses.replace(self.latest, notes=self.notes)
        write_atomic(self.path, json.dumps(dataclasses.asdict(latest)))


def read_progress(path: Path) -> Progress | None:
    """Return what the file says; None while there is none."""
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return Progress(**{**content, "notes": tuple(content["notes"])})
