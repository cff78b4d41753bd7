"""Tables of the motif census (tab:motifs, and every split the paper describes in app:motifs)."""

from __future__ import annotations

from mooring.suite.report import paper
from mooring.suite.report.builders.two_radius import interval
from mooring.suite.report.groups import group
from mooring.suite.report.records import Records
from mooring.suite.report.tables import ABSENT, Column, Table, plain, show

TASK = "motifs"
NAMES = {"log_mae": "log-MAE", "log_r2": "log-R²"}


def beside_paper(records: Records, preset: str) -> Table:
    """Error on the IID and jittered splits beside tab:motifs."""
    groups = group(records.runs(TASK, preset))
    fields = [f"{split}/{name}" for split in ("iid", "jittered") for name in NAMES]
    rows = []
    for item in groups:
        published = {} if item.variant else paper.MOTIFS.get(item.model, {})
        measured = [show(item.estimate("metrics", "final", name), digits=4) for name in fields]
        rows.append((item.title, *measured, *(plain(published.get(name)) for name in fields), str(len(item.runs))))
    columns = (
        Column("Readout", left=True),
        *(Column(NAMES[name.split("/")[1]], group=paper.SPLITS[name.split("/")[0]]) for name in fields),
        *(Column(NAMES[name.split("/")[1]], group=f"{paper.SPLITS[name.split('/')[0]]}, paper") for name in fields),
        Column("Seeds"),
    )
    notes = (
        f"Macro average over six motifs of log(1 + count){interval(groups)}, at the epoch with the best validation "
        f"log-MAE.",
    )
    return Table("motifs", f"Motif census, preset {preset}", columns, tuple(rows), notes)


def all_splits(records: Records, preset: str) -> Table:
    """log-MAE and exact-count accuracy on every split."""
    groups = group(records.runs(TASK, preset))
    rows = []
    for item in groups:
        errors, exact = [], []
        for split in paper.SPLITS:
            found = item.has("metrics", "final", f"{split}/log_mae")
            errors.append(show(item.estimate("metrics", "final", f"{split}/log_mae"), digits=3) if found else ABSENT)
            found = item.has("metrics", "final", f"{split}/exact")
            exact.append(show(item.estimate("metrics", "final", f"{split}/exact"), 100, 1) if found else ABSENT)
        change = ABSENT
        if item.has("diagnostics", "replication_change"):
            change = f"{max(run.number('diagnostics', 'replication_change') for run in item.runs):.1e}"
        rows += [(item.title, "log-MAE", *errors, change), (item.title, "exact (%)", *exact, "")]
    columns = (
        Column("Readout", left=True),
        Column("Measure", left=True),
        *(Column(name) for name in paper.SPLITS.values()),
        Column("Change"),
    )
    notes = (
        "Exact: share of counts that are right after rounding. Change: largest change of the prediction when the graph "
        "is replaced by disjoint copies of itself, which a normalised readout cannot notice.",
    )
    return Table("motifs-splits", f"Every split, preset {preset}", columns, tuple(rows), notes)


def per_motif(records: Records, preset: str, split: str = "iid") -> Table | None:
    """log-MAE of each motif on one split."""
    groups = [item for item in group(records.runs(TASK, preset)) if item.has("diagnostics", "per_motif", split)]
    if not groups:
        return None
    names = list(groups[0].first.mapping("diagnostics", "per_motif", split))
    rows = [
        (item.title, *(show(item.estimate("diagnostics", "per_motif", split, name, "log_mae")) for name in names))
        for item in groups
    ]
    columns = (Column("Readout", left=True), *(Column(name.capitalize()) for name in names))
    notes = (f"log-MAE{interval(groups)}.",)
    return Table(
        f"motifs-each-{split}",
        f"Each motif, {paper.SPLITS.get(split, split)}, preset {preset}",
        columns,
        tuple(rows),
        notes,
    )
