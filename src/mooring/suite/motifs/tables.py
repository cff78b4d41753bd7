"""Tables of the motif census (tab:motifs, and every split the paper describes in app:motifs)."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.suite.records import Records
from mooring.suite.report.groups import Group, group, paired_difference, plain, shares, show
from mooring.suite.report.registry import Rows, table
from mooring.table import ABSENT, Column

TASK, BOARD = "motifs", "motifs-leaderboard"
# The preset of the search, the preset with its best settings, and the module that others are compared with there.
SEARCH, TUNED, REFERENCE = "search", "tuned", "moored"
# The preset with the paper's protocol.
PAPER = "full"
NAMES = {"log_mae": "log-MAE", "log_r2": "log-R²"}
# Titles of the splits of app:motifs, keyed by their names in a record.
SPLITS: Mapping[str, str] = {
    "iid": "IID",
    "counts": "More motifs",
    "background": "Larger background",
    "mixture": "Other mixture",
    "replicated": "Exact copies",
    "jittered": "Jittered copies",
}
# tab:motifs: log-MAE and log-R2, IID and jittered.
PUBLISHED: Mapping[str, Mapping[str, float]] = {
    "mean": {"iid/log_mae": 0.523, "iid/log_r2": 0.526, "jittered/log_mae": 0.812, "jittered/log_r2": -0.211},
    "sum": {"iid/log_mae": 0.140, "iid/log_r2": 0.966, "jittered/log_mae": 0.237, "jittered/log_r2": 0.892},
    "cross-attn": {"iid/log_mae": 0.415, "iid/log_r2": 0.701, "jittered/log_mae": 0.365, "jittered/log_r2": 0.690},
    "anchored": {"iid/log_mae": 0.012, "iid/log_r2": 1.000, "jittered/log_mae": 0.020, "jittered/log_r2": 0.999},
}


@table("motifs", task=TASK)
def beside_paper(records: Records, preset: str) -> Rows:
    """Show the error on the IID and jittered splits beside tab:motifs."""
    groups = group(records.runs(TASK, preset))
    fields = [f"{split}/{name}" for split in ("iid", "jittered") for name in NAMES]
    headings = [(NAMES[name], SPLITS[split]) for split, name in (field.split("/") for field in fields)]
    rows = []
    for item in groups:
        published = {} if item.variant else PUBLISHED.get(item.model, {})
        measured = [show(item.estimate("metrics", "final", name), digits=4) for name in fields]
        beside = [plain(published.get(name)) for name in fields if preset == PAPER]
        rows.append((item.title, *measured, *beside, str(len(item.runs))))
    columns = (
        Column("Readout", left=True),
        *(Column(name, group=split) for name, split in headings),
        *(Column(name, group=f"{split}, paper") for name, split in headings if preset == PAPER),
        Column("Seeds"),
    )
    return Rows(columns, rows, groups=groups)


@table("motifs-splits", task=TASK)
def all_splits(records: Records, preset: str) -> Rows:
    """Show log-MAE and exact-count accuracy on every split."""
    rows = []
    groups = group(records.runs(TASK, preset))
    for item in groups:
        errors, exact = [], []
        for split in SPLITS:
            error, share = (("metrics", "final", f"{split}/{name}") for name in ("log_mae", "exact"))
            errors.append(show(item.estimate(*error), digits=3) if item.has(*error) else ABSENT)
            exact.append(shares(item, *share) if item.has(*share) else ABSENT)
        change = ABSENT
        if item.has("diagnostics", "replication_change"):
            change = f"{max(run.number('diagnostics', 'replication_change') for run in item.runs):.1e}"
        rows += [(item.title, "log-MAE", *errors, change), (item.title, "exact (%)", *exact, "")]
    columns = (
        Column("Readout", left=True),
        Column("Measure", left=True),
        *(Column(name) for name in SPLITS.values()),
        Column("Change"),
    )
    return Rows(columns, rows, groups=groups)


@table("motifs-each", task=TASK)
def per_motif(records: Records, preset: str, split: str = "iid") -> Rows | None:
    """Show the log-MAE of each motif on one split."""
    groups = [item for item in group(records.runs(TASK, preset)) if item.has("diagnostics", "per_motif", split)]
    if not groups:
        return None
    names = list(groups[0].first.mapping("diagnostics", "per_motif", split))
    rows = [
        (item.title, *(show(item.estimate("diagnostics", "per_motif", split, name, "log_mae")) for name in names))
        for item in groups
    ]
    columns = (Column("Readout", left=True), *(Column(name.capitalize()) for name in names))
    return Rows(columns, rows, groups=groups, split=SPLITS.get(split, split))


@table("motifs-tuned", task=BOARD)
def tuned(records: Records, preset: str) -> Rows | None:
    """Show every module at the setting that one search chose for it, by its mean rank over the splits."""
    groups = group(records.runs(BOARD, preset)) if preset == TUNED else []
    if not groups:
        return None
    ranks = _ranks(groups)
    tried = {item.model: 0 for item in groups}
    for item in group(records.runs(BOARD, SEARCH)):
        tried[item.model] = tried.get(item.model, 0) + 1
    reference = next((item for item in groups if item.model == REFERENCE), None)
    rows = []
    for item in sorted(groups, key=lambda item: sum(ranks[item.model])):
        errors = [item.estimate("metrics", "final", f"{split}/log_mae") for split in SPLITS]
        rows.append(
            (
                item.title,
                f"{sum(ranks[item.model]) / len(SPLITS):.1f}",
                *(f"{show(error)} ({rank})" for error, rank in zip(errors, ranks[item.model], strict=True)),
                _behind(item, reference),
                str(tried[item.model]),
                str(len(item.runs)),
            )
        )
    columns = (
        Column("Module", left=True),
        Column("Mean rank"),
        *(Column(name) for name in SPLITS.values()),
        Column("Behind, jittered"),
        Column("Settings"),
        Column("Seeds"),
    )
    return Rows(columns, rows, groups=groups)


def _ranks(groups: list[Group]) -> dict[str, list[int]]:
    """Return the rank of each module in each split, by its mean error."""
    places: dict[str, list[int]] = {item.model: [] for item in groups}
    for split in SPLITS:
        errors = {item.model: item.estimate("metrics", "final", f"{split}/log_mae").mean for item in groups}
        for model, error in errors.items():
            places[model].append(1 + sum(other < error for other in errors.values()))
    return places


def _behind(item: Group, reference: Group | None) -> str:
    """Format the difference of the error on jittered copies from the reference's, paired over seeds."""
    if reference is None or item is reference:
        return ABSENT
    name = ("metrics", "final", "jittered/log_mae")
    errors, reference_errors = item.by_seed(*name), reference.by_seed(*name)
    shared = errors.keys() & reference_errors.keys()
    return show(paired_difference(errors, reference_errors), sign=True) if shared else ABSENT
