"""Modules against each other: their ranks on every board, and one wide state against many slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from statistics import fmean

from mooring.suite.records import Records
from mooring.suite.report.groups import Group, group, interval, paired_difference, percent, title
from mooring.suite.report.registry import Rows, table
from mooring.table import ABSENT, Column

LEADERBOARD, CENSUS = "two-radius-leaderboard", "motifs-leaderboard"
# The presets of one wide state against many slots, with equal parameters or without: shown, but not ranked.
WIDTH, WIDE = "width", "wide"
# Seeds from here on choose settings and are in no table.
DEVELOPMENT = 100
# The tasks whose boards are ranked; of a model that several of them have, the last one's name is shown.
RANKED = ("molecules", "linksets", CENSUS, LEADERBOARD)


def at_best_rates(groups: list[Group], metric: tuple[str, ...], sign: int) -> dict[str, Group]:
    """For each model the configuration that was run at most seeds; of several, the best one."""
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

    def places(self, models: Sequence[str]) -> dict[str, tuple[int, bool]]:
        """The rank of each of these modules by its mean, and whether it cannot be told from the first of them."""
        sign = -1 if self.more_is_better else 1
        means = {name: sign * fmean(self.scores[name].values()) for name in models if name in self.scores}
        first = min(means, key=lambda name: means[name], default="")
        return {
            name: (1 + sum(other < mean for other in means.values()), _level(self.scores[name], self.scores[first]))
            for name, mean in means.items()
        }


def _level(one: dict[int, float], other: dict[int, float]) -> bool:
    """Whether the paired interval of two modules includes zero; with one shared seed nothing can be said."""
    return len(one.keys() & other.keys()) > 1 and not paired_difference(one, other).excludes_zero()


def boards(records: Records) -> list[Board]:
    """Every board of the zoo's modules, at the setting that was run at most seeds."""
    # By their folders, as the registry finds tables: the report knows no task.
    motifs, real = (import_module(f"mooring.suite.{folder}.tables") for folder in ("motifs", "real"))
    both, f1 = ("metrics", "best", "both"), ("metrics", "final", "test/f1")
    found = []
    counted = at_best_rates(group(records.runs(LEADERBOARD, "screen")), both, 1)
    found.append(Board("Two-Radius", "Both", {name: item.by_seed(*both) for name, item in counted.items()}))
    census = at_best_rates(group(records.runs(CENSUS, motifs.TUNED)), ("metrics", "best", "log_mae"), -1)
    for split, name in motifs.SPLITS.items():
        field = ("metrics", "final", f"{split}/log_mae")
        found.append(
            Board("census", name, {model: item.by_seed(*field) for model, item in census.items()}, more_is_better=False)
        )
    links = at_best_rates(group(records.runs("linksets", "full")), f1, 1)
    for part, name in (("test/f1", "F1"), ("larger/decoded_f1", "Larger, decoded")):
        scores = {model: item.by_seed("metrics", "final", part) for model, item in links.items()}
        found.append(Board("link sets", name, scores))
    chosen = [item for item in real.choose(records.runs("molecules", "full")) if not item.group.variant]
    for dataset in dict.fromkeys(item.dataset for item in chosen):
        own = [item for item in chosen if item.dataset == dataset]
        scores = {item.group.model: item.group.by_seed("metrics", "final", f"test/{item.metric}") for item in own}
        found.append(Board("molecules", dataset, scores, more_is_better=real.METRICS[own[0].metric][2]))
    return [board for board in found if board.scores]


@table("ranks", task=LEADERBOARD)
def ranks(records: Records) -> Rows | None:
    """The rank of each module in each column of each board, and its mean rank; modules of more than one board."""
    columns = boards(records)
    tasks: dict[str, set[str]] = {}
    for board in columns:
        for model in board.scores:
            tasks.setdefault(model, set()).add(board.task)
    models = [model for model, found in tasks.items() if len(found) > 1]
    if not models:
        return None
    places = [board.places(models) for board in columns]
    named = {run.model: title(run.model, run) for task in RANKED for run in records.runs(task)}
    ranked = {model: [found[model][0] for found in places if model in found] for model in models}
    rows = [
        (
            named[model],
            f"{fmean(ranked[model]):.1f}",
            *(_place(*found[model]) if model in found else ABSENT for found in places),
            f"{len(ranked[model])} of {len(columns)}",
        )
        for model in sorted(models, key=lambda model: (-len(tasks[model]), fmean(ranked[model])))
    ]
    heads = (
        Column("Module", left=True),
        Column("Mean rank"),
        *(Column(board.name, group=board.task) for board in columns),
        Column("Columns"),
    )
    return Rows(heads, rows)


def _place(rank: int, level: bool) -> str:
    return f"{rank}=" if level and rank > 1 else str(rank)


@table("wide-states", task=LEADERBOARD)
def wide_states(records: Records, preset: str) -> Rows | None:
    """One wide state, read in several ways, against slots: by number of identifiers and updates, best first."""
    points = wide_points(records) if preset == WIDE else []
    if not points:
        return None
    rows = []
    for point in points:
        run, runs = point.group.first, point.group.runs
        solved = [each for each in runs if each.number("metrics", "best", "both") == 1.0]
        first = [len(each.parts("metrics", "epochs")) * each.count("steps_per_epoch") for each in solved]
        rows.append(
            (
                str(point.identifiers),
                f"{point.updates:,}",
                title(run.model, run),
                f"{run.whole('parameters', 'memory') / 1000:.0f}",
                *(percent(point.group.estimate("metrics", "best", name)) for name in ("label", "count", "both")),
                f"{len(solved)} of {len(runs)}",
                f"{sum(first) / len(first):,.0f}" if first else ABSENT,
                f"{run.number('config', 'learning_rate'):g}",
                str(point.tried),
                str(len(runs)),
            )
        )
    columns = (
        Column("Identifiers"),
        Column("Updates, at most"),
        Column("Memory", left=True),
        Column("Parameters, k"),
        *(Column(name) for name in ("Label", "Count", "Both")),
        Column("Solved"),
        Column("after updates"),
        Column("Rate"),
        Column("Settings"),
        Column("Seeds"),
    )
    return Rows(columns, rows, interval=interval([point.group for point in points]))


@dataclass(frozen=True)
class WidePoint:
    """One memory at one number of identifiers and updates, at the rate that was chosen at a development seed."""

    identifiers: int
    updates: int
    group: Group
    tried: int


def wide_points(records: Records) -> list[WidePoint]:
    """Points in the order of the table; a setting that was only tried at a development seed is counted, not shown."""
    settings: dict[tuple[int, int, str], list[Group]] = {}
    for item in group(records.runs(LEADERBOARD, WIDE)):
        run = item.first
        updates = int(run.number("config", "epochs")) * run.count("steps_per_epoch")
        settings.setdefault((run.count("num_identifiers"), updates, item.model), []).append(item)
    points = []
    for (identifiers, updates, _), items in settings.items():
        chosen = max(items, key=lambda item: len(item.runs))
        runs = tuple(run for run in chosen.runs if run.seed < DEVELOPMENT)
        if runs:
            points.append(WidePoint(identifiers, updates, Group(chosen.model, "", runs), len(items)))
    order = {id(point): -point.group.estimate("metrics", "best", "both").mean for point in points}
    return sorted(points, key=lambda point: (point.identifiers, point.updates, order[id(point)]))
