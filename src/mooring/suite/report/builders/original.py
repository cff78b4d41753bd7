"""Table of the original Two-Radius task beside the numbers of Mishayev et al."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mooring.suite.report import paper
from mooring.suite.report.groups import Group, group
from mooring.suite.report.records import Record, Records
from mooring.suite.report.settings import setting, whole_setting
from mooring.suite.report.stats import Estimate, estimate
from mooring.suite.report.tables import ABSENT, Column, Table, percent

TASK = "two-radius-original"
SIZE = "num_identifiers"


@dataclass(frozen=True)
class Row:
    """One model at one width: its runs by number of identifiers, each entry the seeds of one configuration."""

    model: str
    width: str
    variant: str
    by_size: dict[int, Group] = field(default_factory=dict)

    @property
    def short(self) -> str:
        return paper.short(self.model) + (f" ({self.variant})" if self.variant else "")

    @property
    def has_slots(self) -> bool:
        """Whether its memory has slots; a convolution or a plain virtual node has the setting but ignores it."""
        memory = self.model.partition("+")[2]
        return bool(memory) and not memory.startswith("vn")

    def accuracy(self, size: int) -> Estimate | None:
        """Mean and interval of the held-out accuracy at one size, None where it was not run."""
        runs = self.by_size[size].runs if size in self.by_size else ()
        return estimate([held_out_accuracy(run) for run in runs]) if runs else None

    def percentages(self) -> dict[int, float]:
        """Mean accuracy in % at every size that was run."""
        found = {size: self.accuracy(size) for size in sorted(self.by_size)}
        return {size: 100 * value.mean for size, value in found.items() if value is not None}

    def values(self, name: str) -> str:
        """The values a setting takes in the row, e.g. the slots where they grow with n."""
        found = [setting(group.first, name, ABSENT) for _, group in sorted(self.by_size.items())]
        return ", ".join(dict.fromkeys(str(value) for value in found))


def measured(runs: Sequence[Record]) -> list[Row]:
    """Rows in the paper's order; settings may change with n, but several configurations at one n get separate rows."""
    rows: dict[tuple[str, str, str], Row] = {}
    for size in sorted({whole_setting(run, SIZE) for run in runs}):
        here = [run for run in runs if whole_setting(run, SIZE) == size]
        for item in group(here, apart=("channels", "slots")):
            width = str(setting(item.first, "channels", ABSENT))
            key = (item.model, width, item.variant)
            if key in rows and size in rows[key].by_size:
                extra = f"slots {setting(item.first, 'slots', ABSENT)}"
                key = (item.model, width, ", ".join(filter(None, (item.variant, extra))))
            rows.setdefault(key, Row(*key)).by_size[size] = item
    return sorted(rows.values(), key=lambda row: (paper.rank(row.model), row.width, row.variant))


def held_out_accuracy(run: Record) -> float:
    """Label accuracy on the test graphs."""
    return run.number("metrics", "final", "test/label")


def accuracy(records: Records, preset: str | None = None) -> Table:
    """Measured and published accuracy by n, one row per model and width."""
    runs = records.runs(TASK, preset)
    sizes = sorted({*paper.ORIGINAL_SIZES, *(whole_setting(run, SIZE) for run in runs)})
    rows = []
    for row in measured(runs):
        seconds = estimate([run.number("wall_seconds") for group in row.by_size.values() for run in group.runs])
        cells = [percent(row.accuracy(n)) for n in sizes]
        name = paper.title(row.model) + (f" ({row.variant})" if row.variant else "")
        slots = row.values("slots") if row.has_slots else ABSENT
        rows.append((name, "measured", row.width, slots, *cells, f"{seconds.mean:.0f}"))
    for model, by_width in paper.ORIGINAL.items():
        for width, values in by_width.items():
            by_n = dict(zip(paper.ORIGINAL_SIZES, values, strict=True))
            cells = [f"{by_n[n]}" if n in by_n else ABSENT for n in sizes]
            rows.append((paper.title(model), "published", str(width), ABSENT, *cells, ABSENT))
    columns = (
        Column("Model", left=True), Column("Source", left=True), Column("Width"), Column("Slots"),
        *(Column(f"n = {n}") for n in sizes), Column("Seconds per run"),
    )  # fmt: skip
    notes = (
        "Accuracy in %. Published: Mishayev et al., arXiv 2511.20406, who stop training at 92 % validation accuracy.",
    )
    return Table("two-radius-original", "Original Two-Radius", columns, tuple(rows), notes)
