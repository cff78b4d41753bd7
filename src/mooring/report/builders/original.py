"""Table of the original Two-Radius task beside the numbers of Mishayev et al."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.report import paper
from mooring.report.groups import group
from mooring.report.records import Record, RecordError, Records
from mooring.report.settings import setting
from mooring.report.stats import Estimate, estimate
from mooring.report.tables import ABSENT, Column, Table, percent

TASK = "two-radius-original"
SIZE = "num_identifiers"


def accuracies(runs: Sequence[Record]) -> dict[str, dict[int, Estimate]]:
    """Test accuracy by model and number of identifiers, over seeds."""
    found: dict[str, dict[int, list[float]]] = {}
    for run in sorted(runs, key=lambda run: paper.rank(run.model)):
        found.setdefault(run.model, {}).setdefault(int(setting(run, SIZE)), []).append(held_out_accuracy(run))
    return {model: {n: estimate(values) for n, values in sorted(sizes.items())} for model, sizes in found.items()}


def held_out_accuracy(run: Record) -> float:
    """Label accuracy on the test graphs; on validation graphs where the record has no test."""
    for part, name in (("final", "test/label"), ("final", "test/accuracy"), ("best", "label")):
        if run.find("metrics", part, name) is not None:
            return run.number("metrics", part, name)
    raise RecordError(
        f"{run.path}: field 'metrics.final.test/label' is missing. Write the record again with `mooring run {TASK}`."
    )


def accuracy(records: Records, preset: str | None = None) -> Table:
    """Measured and published accuracy by n, one row a model and width."""
    runs = records.runs(TASK, preset)
    sizes = sorted({*paper.ORIGINAL_SIZES, *(int(setting(run, SIZE)) for run in runs)})
    rows = []
    for model, by_size in accuracies(runs).items():
        settings = group([run for run in runs if run.model == model], apart=(SIZE,))
        widths = sorted({str(setting(item.first, "channels", ABSENT)) for item in settings})
        slots = sorted({str(setting(item.first, "slots", ABSENT)) for item in settings})
        seconds = estimate([run.number("wall_seconds") for run in runs if run.model == model])
        cells = [percent(by_size.get(n)) for n in sizes]
        label = "measured" if all(run.find("metrics", "final") for run in runs) else "measured (validation)"
        rows.append((paper.title(model), label, ", ".join(widths), ", ".join(slots), *cells, f"{seconds.mean:.0f}"))
    for model, by_width in paper.ORIGINAL.items():
        for width, values in by_width.items():
            by_n = dict(zip(paper.ORIGINAL_SIZES, values, strict=True))
            cells = [f"{by_n[n]}" if n in by_n else ABSENT for n in sizes]
            rows.append((paper.title(model), "published", str(width), ABSENT, *cells, ABSENT))
    columns = (
        Column("Model", left=True), Column("Source", left=True), Column("Width"), Column("Slots"),
        *(Column(f"n = {n}") for n in sizes), Column("Seconds a run"),
    )  # fmt: skip
    notes = (
        "Accuracy in %. Published: Mishayev et al., arXiv 2511.20406, who stop training at 92 % validation accuracy.",
    )
    return Table("two-radius-original", "Original Two-Radius", columns, tuple(rows), notes)
