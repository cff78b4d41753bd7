"""Tables and figure of the motif census (tab:motifs, and every split the paper describes in app:motifs)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from mooring.suite.records import Records
from mooring.suite.report.cells import ahead, fill, score, seeds
from mooring.suite.report.claims import as_preset, once_per_seed, same_seeds
from mooring.suite.report.drawing import curve, end_labels, inked, log_ticks, panel
from mooring.suite.report.exhibits import Body, figure, table
from mooring.suite.report.groups import Group, estimate, group, plain, shares, show, usual_groups
from mooring.table import ABSENT, Column

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASK, BOARD = "motifs", "motifs-leaderboard"
# The preset of the search whose settings the tuned board has, and the module others are compared with there.
SEARCH, TUNED, REFERENCE = "search", "tuned", "moored"
# The preset that changes one part at a time, and how each module shares out the nodes, by its option `competition`.
ATTRIBUTION = "attribution"
# What its rows show or its notes say.
PARTS = ("competition", "integrate", "content_dropout", "mass", "mass_map")
WRITES = {
    ("anchored", False): "softmax over nodes",
    ("anchored", True): "competition",
    ("gmt-mass", False): "softmax over slots",
    ("gmt", False): "softmax over slots, sums",
}
# The preset with the paper's protocol.
PAPER = "full"
NAMES = {"log_mae": "log-MAE", "log_r2": "log-R²"}
# The splits that the figure shows.
DRAWN = ("iid", "counts", "jittered")
# The splits of app:motifs by the name they have in a record.
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


@table(
    "motifs",
    task=TASK,
    title="Motif census, preset {preset}",
    notes="""
    Macro average over six motifs of log(1 + count){interval}, at the epoch with the best validation log-MAE. Settings:
    the preset's, and the same seeds, for every row. They were chosen with an earlier table known, for which other
    configurations of the anchored readout were run at seeds 0 to 2.
    """,
    claims=(as_preset, same_seeds),
)
def beside_paper(records: Records, preset: str) -> Body:
    """Return the error on the IID and jittered splits beside tab:motifs."""
    groups = group(records.runs(TASK, preset))
    fields = [f"{split}/{name}" for split in ("iid", "jittered") for name in NAMES]
    headings = [(NAMES[name], SPLITS[split]) for split, name in (field.split("/") for field in fields)]
    rows = []
    for item in groups:
        published = {} if item.variant else PUBLISHED.get(item.model, {})
        measured = [show(item.estimate("metrics", "final", name), digits=4) for name in fields]
        beside = [plain(published.get(name)) for name in fields if preset == PAPER]
        rows.append((item.title, *measured, *beside, seeds(item)))
    columns = (
        Column("Readout", left=True),
        *(Column(name, group=split) for name, split in headings),
        *(Column(name, group=f"{split}, paper") for name, split in headings if preset == PAPER),
        Column("Seeds"),
    )
    return Body(columns, rows, groups=groups)


@table(
    "motifs-splits",
    task=TASK,
    title="Every split, preset {preset}",
    notes="""
    Exact: share of counts that are right after rounding{interval}{listed}. Change: largest change of the prediction
    when the graph is replaced by disjoint copies of itself, which a normalised readout cannot notice.
    """,
)
def all_splits(records: Records, preset: str) -> Body:
    """Return log-MAE and exact-count accuracy on every split."""
    rows = []
    groups = group(records.runs(TASK, preset))
    for item in groups:
        errors = [score(item, "metrics", "final", f"{split}/log_mae") for split in SPLITS]
        fields = [("metrics", "final", f"{split}/exact") for split in SPLITS]
        exact = [shares(item, *field) if item.has(*field) else ABSENT for field in fields]
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
    return Body(columns, rows, groups=groups)


@table(
    "motifs-each",
    task=TASK,
    title="Each motif, {split}, preset {preset}",
    notes="log-MAE{interval}.",
)
def per_motif(records: Records, preset: str, split: str = "iid") -> Body | None:
    """Return the log-MAE of each motif on one split."""
    groups = [item for item in group(records.runs(TASK, preset)) if item.has("diagnostics", "per_motif", split)]
    if not groups:
        return None
    names = list(groups[0].first.mapping("diagnostics", "per_motif", split))
    rows = [
        (item.title, *(show(item.estimate("diagnostics", "per_motif", split, name, "log_mae")) for name in names))
        for item in groups
    ]
    columns = (Column("Readout", left=True), *(Column(name.capitalize()) for name in names))
    return Body(columns, rows, groups=groups, split=SPLITS.get(split, split))


@table(
    "motifs-tuned",
    task=BOARD,
    title="Motif census, every module at the setting one search found",
    notes="""
    log-MAE of log(1 + count) on fresh graphs{interval}, and in brackets the place in that column. Behind: how much
    larger the error on jittered copies is than that of the moored module, paired over seeds. Settings: how many were
    tried for this module at a development seed, of which the one with the lowest geometric mean of the errors on that
    seed's six splits was taken; the seeds of the table were run once.
    """,
    claims=(once_per_seed,),
)
def tuned(records: Records, preset: str) -> Body | None:
    """Return every module at the setting that one search found for it, by its mean rank over the splits."""
    groups = group(records.runs(BOARD, preset)) if preset == TUNED else []
    if not groups:
        return None
    ranks = _ranks(groups)
    tried = {item.model: 0 for item in groups}
    for item in group(records.runs(BOARD, SEARCH)):
        tried[item.model] = tried.get(item.model, 0) + 1
    reference = next((item for item in groups if item.model == REFERENCE), None)

    def error(item: Group, place: int, split: str) -> str:
        return f"{score(item, 'metrics', 'final', f'{split}/log_mae')} ({ranks[item.model][place]})"

    columns, rows = fill(
        sorted(groups, key=lambda item: sum(ranks[item.model])),
        (Column("Module", left=True), lambda item: item.title),
        (Column("Mean rank"), lambda item: f"{sum(ranks[item.model]) / len(SPLITS):.1f}"),
        *(
            (Column(name), partial(error, place=place, split=split))
            for place, (split, name) in enumerate(SPLITS.items())
        ),
        (Column("Behind, jittered"), lambda item: ahead(item, reference, "metrics", "final", "jittered/log_mae")),
        (Column("Settings"), lambda item: str(tried[item.model])),
        (Column("Seeds"), seeds),
    )
    return Body(columns, rows, groups=groups)


@table(
    "motifs-attribution",
    task=BOARD,
    title="Motif census, one part at a time",
    notes="""
    log-MAE of log(1 + count) on fresh graphs{interval}; Mean: geometric mean over the six splits. Shares: how a slot
    takes nodes in; "softmax over nodes" is the anchored module, "competition" adds a null slot and is the moored
    module, "softmax over slots" has no null slot; "sums" is gmt, which keeps no mass apart, so no content can be
    hidden from it. Hidden: the content of half of the graphs is hidden in training. All rows have one rate, a linear
    map of log(1 + mass) and one try.
    """,
    claims=(same_seeds,),
)
def attribution(records: Records, preset: str) -> Body | None:
    """Return the error by write, integration and hidden content, each changed alone."""
    groups = group(records.runs(BOARD, preset), apart=PARTS) if preset == ATTRIBUTION else []
    if not groups:
        return None
    rows = []
    for item in groups:
        config = item.first.mapping("config")
        errors = [item.by_seed("metrics", "final", f"{split}/log_mae") for split in SPLITS]
        means = [math.exp(fmean(math.log(error[seed]) for error in errors)) for seed in item.seeds]
        rows.append(
            (
                WRITES[item.model, bool(config["competition"])],
                str(config["integrate"]).replace("_", " "),
                "half" if config["content_dropout"] else "no",
                show(estimate(means)),
                *(show(estimate(list(error.values()))) for error in errors),
                seeds(item),
            )
        )
    columns = (
        Column("Shares", left=True),
        Column("Integration", left=True),
        Column("Hidden", left=True),
        Column("Mean"),
        *(Column(name) for name in SPLITS.values()),
        Column("Seeds"),
    )
    return Body(columns, sorted(rows, key=lambda row: (list(WRITES.values()).index(row[0]), row[1:3])), groups=groups)


def _ranks(groups: list[Group]) -> dict[str, list[int]]:
    """Return the place of each module in each split, by its mean error."""
    places: dict[str, list[int]] = {item.model: [] for item in groups}
    for split in SPLITS:
        errors = {item.model: item.estimate("metrics", "final", f"{split}/log_mae").mean for item in groups}
        for model, error in errors.items():
            places[model].append(1 + sum(other < error for other in errors.values()))
    return places


@figure(
    "motif-error",
    task=TASK,
    title="Error against the true count (preset {preset})",
    caption="""
    The error of log(1 + count), averaged over motifs and seeds, for graphs in which a motif occurs that often. A
    readout that sees only proportions cannot recognise larger counts, so its error rises beyond the counts it was
    trained on; one that measures mass can stay flat.
    """,
)
def error_by_count(records: Records, preset: str) -> list[Figure]:
    """Draw the mean absolute error of log(1 + count) at each true count, mean over seeds; one panel per split."""
    from matplotlib.ticker import MaxNLocator

    panels = []
    for split in DRAWN:
        members = inked(usual_groups(records, TASK, preset), "diagnostics", "error_by_count", split)
        if not members:
            continue
        drawn, axes = panel(SPLITS[split], "true count", "log-MAE")
        labels = []
        for item, ink in members:
            points = by_count(item, split)
            curve(axes, list(points), list(points.values()), item.short, ink, "-o", ms=2.5, lw=1.3)
            labels.append((list(points.values())[-1], item.short, ink))
        axes.set_yscale("log")
        log_ticks(axes.yaxis, *axes.get_ylim())
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        end_labels(axes, labels)
        panels.append(drawn)
    return panels


def by_count(item: Group, split: str) -> dict[int, float]:
    """Return the error at each true count that occurs at some seed, the mean over those seeds."""
    by_count: dict[int, list[float]] = {}
    for run in item.runs:
        counts = run.numbers("diagnostics", "error_by_count", split, "count")
        errors = run.numbers("diagnostics", "error_by_count", split, "log_mae", gaps=True)
        if len(counts) != len(errors):
            where = f"diagnostics.error_by_count.{split}"
            raise run.error(f"field '{where}' has {len(counts)} counts but {len(errors)} errors.")
        for count, error in zip(counts, errors, strict=True):
            if error is not None:
                by_count.setdefault(int(count), []).append(float(error))
    if not by_count:
        raise item.first.error(f"field 'diagnostics.error_by_count.{split}' holds no error.")
    return {count: sum(values) / len(values) for count, values in sorted(by_count.items())}
