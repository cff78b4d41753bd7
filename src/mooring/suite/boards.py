"""Modules against each other: their ranks on every board, and the board of all of the zoo with what they cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import fmean

from mooring.suite.linksets import tables as links
from mooring.suite.motifs import tables as motifs
from mooring.suite.real import tables as real
from mooring.suite.records import Record, Records
from mooring.suite.report.cells import best, fill, score, seeds
from mooring.suite.report.exhibits import Body, table
from mooring.suite.report.groups import Group, group, paired_difference, title
from mooring.suite.report.tables import ZOO, cards, verdict
from mooring.table import ABSENT, Column

# The module that others are compared with, and the bench record of what they cost.
REFERENCE, COSTS = "anchored", "zoo"
VERDICTS = {"replication": "Counts", "addressability": "Addressable", "batch_mates": "Batch mates"}
LEADERBOARD, CENSUS = "two-radius-leaderboard", "motifs-leaderboard"
METRICS, BOTH = ("label", "count", "both"), ("metrics", "best", "both")
# The field that the search of the boards varies; the costs show it.
RATE = ("learning_rate",)
# Presets with sizes of their own, which are shown but not ranked.
UNRANKED = ("width", "wide", "learnability")
# The tasks whose boards are ranked; of a model that several of them have, the last one's name is shown.
RANKED = ("nodes", "peptides", "molecules", "linksets", CENSUS, LEADERBOARD)
# Where the sets of real graphs are ranked; of a set with several presets, the one with most modules, or the last.
REAL = (
    ("molecules", "quick"),
    ("molecules", "full"),
    ("molecules", "hiv"),
    ("peptides", "quick"),
    ("peptides", "full"),
    ("nodes", "quick"),
    ("nodes", "full"),
)


def at_best_rates(groups: list[Group], metric: tuple[str, ...], sign: int) -> dict[str, Group]:
    """Return for each model the configuration with the most seeds; of several, the best one."""
    chosen: dict[str, Group] = {}
    for item in sorted(groups, key=lambda item: (len(item.runs), sign * item.estimate(*metric).mean)):
        chosen[item.model] = item
    return chosen


@dataclass(frozen=True)
class Board:
    """One column of the ranks: a score by seed of every module that was run there.

    Args:
        task, name: the board, and the column within it.
        scores: by module, then by seed; a variant of a module is not its row.
        more_is_better: whether the highest mean is first.
    """

    task: str
    name: str
    scores: dict[str, dict[int, float]]
    more_is_better: bool = True

    def places(self, models: Sequence[str]) -> dict[str, tuple[int, bool | None]]:
        """Return the rank of each of these modules by its mean, and whether it is within the noise of the first.

        None if that is unknown, since the two share fewer than two seeds.
        """
        sign = -1 if self.more_is_better else 1
        means = {name: sign * fmean(self.scores[name].values()) for name in models if name in self.scores}
        first = min(means, key=lambda name: means[name], default="")
        return {
            name: (1 + sum(other < mean for other in means.values()), _level(self.scores[name], self.scores[first]))
            for name, mean in means.items()
        }


def _level(scores: dict[int, float], others: dict[int, float]) -> bool | None:
    """Return whether the paired interval of two modules includes zero; None with fewer than two shared seeds."""
    return None if len(scores.keys() & others.keys()) < 2 else not paired_difference(scores, others).excludes_zero()


def boards(records: Records) -> list[Board]:
    """Return every board of the zoo's modules, at the setting with the most seeds."""
    columns = []
    counted = at_best_rates(group(records.runs(LEADERBOARD, "screen")), BOTH, 1)
    # On fresh graphs: those that chose the epoch flatter whatever is at chance.
    fresh = ("metrics", "final", "both")
    columns.append(Board("Two-Radius", "Both", {name: item.by_seed(*fresh) for name, item in counted.items()}))
    census = at_best_rates(group(records.runs(CENSUS, motifs.TUNED)), ("metrics", "best", "log_mae"), -1)
    for split, name in motifs.SPLITS.items():
        field = ("metrics", "final", f"{split}/log_mae")
        columns.append(
            Board("census", name, {model: item.by_seed(*field) for model, item in census.items()}, more_is_better=False)
        )
    for part, name in (("test/f1", "F1"), ("larger/decoded_f1", "Larger, decoded")):
        items = [item for item in links.chosen(records, "full") if links.has_score(item, part)]
        columns.append(Board("link sets", name, {item.model: item.by_seed("metrics", "final", part) for item in items}))
    sets: dict[str, Board] = {}
    for task, preset in REAL:
        chosen = [item for item in real.choose(records.runs(task, preset)) if not item.group.variant]
        for dataset in dict.fromkeys(item.dataset for item in chosen):
            shown = [item for item in chosen if item.dataset == dataset]
            scores = {item.group.model: item.group.by_seed("metrics", "final", f"test/{item.metric}") for item in shown}
            board = Board("real", dataset, scores, more_is_better=shown[0].shown.rises)
            if dataset not in sets or len(scores) >= len(sets[dataset].scores):
                sets[dataset] = board
    return [board for board in (*columns, *sets.values()) if board.scores]


@table(
    "ranks",
    task=LEADERBOARD,
    title="Every module on every board",
    notes="""
    Rank by the mean over seeds, among the modules with more than one column; = means that the 95 % interval of the
    difference to the first, paired over seeds, includes zero, and ? that they share fewer than two seeds. Mean place:
    from 0, always first, to 1, always last; unlike the mean rank it does not favour modules whose columns have few
    rows. By board: every board (Two-Radius, census, link sets, real graphs) has the same weight, however many columns
    it has. By column: every column has the same weight, and the census has six. Both means and the mean rank are over
    all columns that a module has, made and real. Modules that were run on more kinds of task stand first.
    """,
)
def ranks(records: Records, graphs: str = "all") -> Body | None:
    """Return the rank of each module in each column of each board, and its mean rank; modules of more than one column.

    Columns are of generated graphs, of real ones, or both; the mean is always over all of them.
    """
    if graphs not in ("all", "made", "real"):
        raise ValueError(f"table 'ranks': graphs is '{graphs}', expected 'all', 'made' or 'real'.")
    columns = boards(records)
    tasks: dict[str, list[str]] = {}
    for board in columns:
        for model in board.scores:
            tasks.setdefault(model, []).append(board.task)
    models = [model for model, boards_of in tasks.items() if len(boards_of) > 1]
    if not models:
        return None
    places = [board.places(models) for board in columns]
    named = {run.model: title(run.model, run) for task in RANKED for run in records.runs(task)}
    ranked = {model: [ranking[model][0] for ranking in places if model in ranking] for model in models}
    # The last of four is no better than the last of twelve, though its rank is.
    relative: dict[str, dict[str, list[float]]] = {model: {} for model in models}
    for board, ranking in zip(columns, places, strict=True):
        for model in ranking.keys() if len(ranking) > 1 else ():
            relative[model].setdefault(board.task, []).append((ranking[model][0] - 1) / (len(ranking) - 1))
    # All boards have the same weight, however many columns one has.
    by_board = {model: fmean(map(fmean, by_task.values())) if by_task else 1.0 for model, by_task in relative.items()}
    by_column = {model: fmean(chain(*by_task.values())) if by_task else 1.0 for model, by_task in relative.items()}
    order = sorted(models, key=lambda model: (-len(set(tasks[model])), by_board[model]))
    shown = [
        (board, ranking)
        for board, ranking in zip(columns, places, strict=True)
        if graphs == "all" or (board.task == "real") == (graphs == "real")
    ]
    rows = [
        (
            named[model],
            *((f"{by_board[model]:.2f}", f"{by_column[model]:.2f}") if relative[model] else (ABSENT, ABSENT)),
            f"{fmean(ranked[model]):.1f}",
            *(_place(*ranking[model]) if model in ranking else ABSENT for _, ranking in shown),
        )
        for model in order
        if any(model in ranking for _, ranking in shown)
    ]
    heads = (
        Column("Module", left=True),
        Column("Mean place", group="by board"),
        Column("Mean place", group="by column"),
        Column("Mean rank"),
        *(Column(board.name, group=board.task) for board, _ in shown),
    )
    return Body(heads, rows, [_duel(columns, order[0], order[1], named)] if len(order) > 1 else [])


def _duel(columns: Sequence[Board], first: str, second: str, named: Mapping[str, str]) -> str:
    """Return in how many columns one of two modules is ahead by more than the interval of their difference."""
    ahead = {first: 0, second: 0}
    shared = [board for board in columns if {first, second} <= board.scores.keys()]
    for board in shared:
        if len(board.scores[first].keys() & board.scores[second].keys()) < 2:
            continue
        gap = paired_difference(board.scores[first], board.scores[second])
        if gap.excludes_zero():
            ahead[first if (gap.mean > 0) == board.more_is_better else second] += 1
    return (
        f"{named[first]} against {named[second]}, paired over seeds: ahead by more than the interval in "
        f"{ahead[first]} of {len(shared)} columns, behind in {ahead[second]}."
    )


def _place(rank: int, level: bool | None) -> str:
    if rank == 1:
        return "1"
    return f"{rank}?" if level is None else f"{rank}=" if level else str(rank)


@table(
    "leaderboard",
    task=LEADERBOARD,
    title="Every module, preset {preset}",
    notes="""
    Sorted by Both. Accuracies in %{interval}{listed}; the last column counts the seeds of Two-Radius. A run stops at
    its first validation without a mistake, so 100.0 says that every seed had one, and nothing of later epochs. Each
    module has, for each task, the learning rate that did better on validation graphs at the first seed.
    """,
)
def leaderboard(records: Records, preset: str) -> Body | None:
    """Return modules by Both, best first, with motif errors and audit verdicts if those records exist."""
    if preset in UNRANKED:
        return None
    counted = at_best_rates(group(records.runs(LEADERBOARD, preset), apart=RATE), BOTH, 1)
    census = at_best_rates(group(records.runs(CENSUS, preset), apart=RATE), ("metrics", "best", "log_mae"), -1)
    audited = cards(records, zoo=True)
    verdicts = [name for name in VERDICTS if any(name in card for card in audited.values())]

    def error(item: Group, split: str) -> str:
        other = census.get(item.model)
        return ABSENT if other is None else score(other, "metrics", "final", f"{split}/log_mae")

    def audit(item: Group, name: str) -> str:
        card = audited.get(item.model, {})
        return verdict(card[name]) if name in card else ABSENT

    columns, rows = fill(
        sorted(counted.values(), key=lambda item: -item.estimate(*BOTH).mean),
        (Column("Module", left=True), lambda item: item.title),
        *((Column(name.capitalize(), group="two-radius"), partial(best, metric=name)) for name in METRICS),
        *(
            (Column(name, group="motif log-MAE"), partial(error, split=split))
            for split, name in (("iid", "IID"), ("jittered", "Jittered"))
            if census
        ),
        *((Column(VERDICTS[name], group="audit", left=True), partial(audit, name=name)) for name in verdicts),
        (Column("Seeds"), seeds),
    )
    return Body(columns, rows, groups=counted.values())


@table(
    "leaderboard-costs",
    task=LEADERBOARD,
    title="What every module costs",
    notes="""
    Time of a forward and backward pass over one graph as a multiple of the anchored module's in the same run, and its
    extra memory over the size of input, output and input gradient. Both are of modules as built by default; parameters
    and learning rate are those of the leaderboard, where budgets are matched.

    Measured on {machine}.
    """,
)
def costs(records: Records, preset: str) -> Body | None:
    """Return parameters, and time and memory of a training pass over one graph, against anchored."""
    bench = next((record for record in records.kind("bench") if record.find("name") == COSTS), None)
    if bench is None or preset in UNRANKED:
        return None
    measured = {(row.text("shape"), row.text("contestant")): row for row in bench.parts("rows")}
    shapes = list(dict.fromkeys(shape for shape, _ in measured))
    if not all(re.fullmatch(r"\d{1,9}x\d{1,9}", shape) for shape in shapes):
        raise bench.error(f"field 'rows.shape' is one of {shapes!r:.80}, expected graphs x nodes as in 1x1000.")
    runs = at_best_rates(group(records.runs(LEADERBOARD, preset), apart=RATE), BOTH, 1)
    rows = []
    for name in dict.fromkeys(name for _, name in measured if name.startswith(ZOO)):
        model = name.removeprefix(ZOO)
        item = runs.get(model)
        times = [_ratio(measured, shape, name) for shape in shapes]
        extra = [_number(measured.get((shape, name)), "extra_memory") for shape in shapes]
        rows.append(
            (
                item.title if item else title(model),
                *(ABSENT if time is None else f"{time:.2f}" for time in times),
                *(ABSENT if memory is None else f"{memory:.2f}" for memory in extra),
                ABSENT if item is None else f"{item.first.whole('parameters', 'memory'):,}",
                ABSENT if item is None else f"{item.first.number('config', 'learning_rate'):g}",
            )
        )
    sizes = [f"{int(shape.partition('x')[2]):,}" for shape in shapes]
    columns = (
        Column("Module", left=True),
        *(Column(size, group="time at n") for size in sizes),
        *(Column(size, group="memory at n") for size in sizes),
        Column("Parameters"),
        Column("Rate"),
    )
    return Body(columns, rows, machine=bench.find("machine"))


def _ratio(measured: dict[tuple[str, str], Record], shape: str, name: str) -> float | None:
    ours, theirs = (_number(measured.get((shape, who)), "training_over_floor") for who in (name, ZOO + REFERENCE))
    return None if ours is None or not theirs else ours / theirs


def _number(row: Record | None, field: str) -> float | None:
    return None if row is None or row.find(field) is None else row.number(field)
