"""The progress of runs on the terminal.

A run reports to a monitor. In a worker the monitor is a small file, written atomically, which the parent reads and
shows: one live line per run on a terminal, plain lines elsewhere.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from mooring.suite.files import write_atomic
from mooring.suite.records import RunRecord
from mooring.suite.train.experiment import Experiment

PROGRESS_FILE = "progress.json"
PLAIN_SECONDS = 15.0
SHOWN_METRICS = 4
# Narrower terminals have a short bar and one metric per line.
BAR, SHORT_BAR, WIDE = 20, 8, 140
# Shown before the first epoch is under way.
STARTING = "starting: imports, data, checkpoint"


@dataclass(frozen=True)
class Progress:
    """The progress of a run: epochs (0 while it starts), the last epoch's row, an estimate, and notes for the user."""

    epochs_done: int
    epochs: int
    metrics: dict[str, float] = field(default_factory=dict)
    seconds_left: float = 0.0
    notes: tuple[str, ...] = ()


class Monitor:
    """The receiver of a run's reports; this one turns notes into warnings and ignores the rest."""

    def note(self, text: str) -> None:
        """Receive a message for the user."""
        warnings.warn(text, UserWarning, stacklevel=2)

    def epoch(self, progress: Progress) -> None:
        """Receive the progress after an epoch."""


class ProgressFile(Monitor):
    """A monitor that writes progress to a file every `interval` seconds, and notes at once, also to stderr."""

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
        write_atomic(self.path, json.dumps({**dataclasses.asdict(self.latest), "notes": self.notes}))


def read_progress(path: Path) -> Progress | None:
    """Return the progress in the file; None while it does not exist."""
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return Progress(**{**content, "notes": tuple(content["notes"])})


class PlainView:
    """Plain lines: one when a run ends and, every 15 seconds, one for each run under way."""

    def __init__(self, names: Sequence[str], experiments: Sequence[Experiment], console: Console) -> None:
        self.names = names
        self.experiments = experiments
        self.console = console
        self.waiting = set(range(len(names)))
        self.running: dict[int, Progress] = {}
        self.noted: set[tuple[int, str]] = set()
        self.printed = time.monotonic()

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def started(self, index: int) -> None:
        """Mark a run as started; its first epoch may take seconds."""
        self.waiting.discard(index)
        self.running[index] = Progress(0, 0)

    def progress(self, index: int, progress: Progress) -> None:
        """Update the progress of a run and print new notes."""
        for note in progress.notes:
            if (index, note) not in self.noted:
                self.noted.add((index, note))
                self.say(index, note)
        self.running[index] = progress

    def finished(self, index: int, record: RunRecord, again: bool = False) -> None:
        """Mark a run as finished (``again``: it already was)."""
        how = "was finished before" if again else f"finished in {_time(record.wall_seconds)}"
        metrics = self.metrics(index, record.metrics["best"])
        self.ended(index, f"{how}; epoch {record.selected_epoch + 1} selected: {metrics}")

    def ended(self, index: int, text: str) -> None:
        """Mark a run as no longer under way and print why."""
        self.waiting.discard(index)
        self.running.pop(index, None)
        self.say(index, text)

    def tick(self) -> None:
        """Refresh the view; called a few times a second."""
        if time.monotonic() - self.printed < PLAIN_SECONDS:
            return
        self.printed = time.monotonic()
        for index, progress in sorted(self.running.items()):
            metrics, left = self.metrics(index, progress.metrics), _time(progress.seconds_left)
            text = f"epoch {progress.epochs_done}/{progress.epochs}  {metrics}  {left} left"
            self.say(index, text if progress.epochs else STARTING)

    def say(self, index: int, text: str) -> None:
        """Print a line on a run without markup or cuts, because it may hold paths and tracebacks."""
        self.console.print(f"{self.names[index]}: {text}", markup=False, highlight=False, soft_wrap=True)

    def metrics(self, index: int, row: Mapping[str, float]) -> str:
        """Return the metric of selection and the first of the others, without losses."""
        first = self.experiments[index].select[0]
        others = [name for name in row if "/" not in name and name not in (first, "epoch", "learning_rate")]
        shown = [name for name in [first, *others][:SHOWN_METRICS] if name in row]
        return "  ".join(f"{name} {row[name]:.4g}" for name in shown)


class LiveView(PlainView):
    """A view with a table of the runs under way, redrawn in place below the lines of ended runs."""

    def __enter__(self) -> LiveView:
        self.live = Live(console=self.console, refresh_per_second=4, get_renderable=self.table, transient=True)
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def tick(self) -> None:
        """Do nothing: the table is redrawn by itself."""

    def table(self) -> Table:
        """Return the table of the moment."""
        table = Table(box=None, padding=(0, 2, 0, 0))
        wide = self.console.width >= WIDE
        for column in ("run", "", "epoch", "metrics", "left"):
            # Only the words of a name wrap.
            table.add_column(column, no_wrap=column not in ("run", ""), overflow="fold")
        for index, progress in sorted(self.running.items()):
            if not progress.epochs:
                table.add_row(self.names[index], "", "", STARTING if wide else STARTING.replace(": ", ":\n"))
                continue
            metrics = self.metrics(index, progress.metrics)
            table.add_row(
                self.names[index],
                ProgressBar(progress.epochs, progress.epochs_done, width=BAR if wide else SHORT_BAR),
                f"{progress.epochs_done}/{progress.epochs}",
                metrics if wide else metrics.replace("  ", "\n"),
                _time(progress.seconds_left),
            )
        if self.waiting:
            table.add_row(f"{len(self.waiting)} waiting")
        return table


def make_view(names: Sequence[str], experiments: Sequence[Experiment], console: Console | None = None) -> PlainView:
    """Return the live view on a terminal and the plain one elsewhere, e.g. in a log file or CI."""
    console = console or Console(stderr=True)
    return (LiveView if console.is_terminal else PlainView)(names, experiments, console)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
