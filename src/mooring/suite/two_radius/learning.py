"""Tables of training results on Two-Radius: one wide state or many slots, and updates by size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, log2
from statistics import fmean, linear_regression

from mooring.suite.records import Record, Records
from mooring.suite.report.groups import Group, estimate, group, shares, show, title
from mooring.suite.report.registry import Rows, table
from mooring.table import ABSENT, Column

LEADERBOARD = "two-radius-leaderboard"
# Presets: one wide state against many slots, with equal parameters or without, and how fast training is.
WIDTH, WIDE, LEARNED = "width", "wide", "learnability"
# Sizes that change one at a time; identifiers change together with the slots.
SIZES = {"num_identifiers": "Identifiers", "slots": "Slots", "channels": "Width", "temperature": "Temperature"}
# Share of right answers that counts as learned.
ENOUGH = 0.99
# Seeds from here on choose settings and appear in no table.
DEVELOPMENT = 100


@table("wide-states", task=LEADERBOARD)
def wide_states(records: Records, preset: str, sizes: str = "all", updates: str = "all") -> Rows | None:
    """Compare one wide state, read in several ways, with slots: by identifiers and updates, best first.

    Args:
        records, preset: as in every table.
        sizes, updates: comma-separated numbers of identifiers and of updates to show, or ``all``.
    """
    points = wide_points(records) if preset == WIDE else []
    points = _with("sizes", points, lambda point: point.identifiers, sizes)
    points = _with("updates", points, lambda point: point.updates, updates)
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
                point.group.title,
                f"{run.whole('parameters', 'memory') / 1000:.0f}",
                f"{label_bits(run):.3f}",
                *(shares(point.group, "metrics", "best", name) for name in ("label", "count", "both")),
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
        Column("Bound, bits"),
        *(Column(name) for name in ("Label", "Count", "Both")),
        Column("Solved"),
        Column("after updates"),
        Column("Rate"),
        Column("Settings"),
        Column("Seeds"),
    )
    return Rows(columns, rows, groups=[point.group for point in points])


def _with(name: str, points: list[WidePoint], number: Callable[[WidePoint], int], wanted: str) -> list[WidePoint]:
    """Select the points with one of the wanted numbers, or all."""
    known = sorted({number(point) for point in points})
    unknown = (
        [] if wanted == "all" or not points else [text for text in wanted.split(",") if text not in map(str, known)]
    )
    if unknown:
        raise ValueError(
            f"table 'wide-states': no run with {name}={unknown[0]}, expected some of {', '.join(map(str, known))}, or "
            "'all'."
        )
    return [point for point in points if wanted == "all" or str(number(point)) in wanted.split(",")]


def label_bits(run: Record) -> float:
    """Return the least bits per number of the memory with which independent labels can be distinguished.

    Paper: ``app:capacity``, ``thm:lower`` for labels drawn with repetition: ``n log2 n`` bits in all.
    """
    identifiers = run.count("num_identifiers")
    return identifiers * log2(identifiers) / (run.count("slots") * run.count("channels"))


@dataclass(frozen=True)
class WidePoint:
    """One memory at one number of identifiers and updates, at the rate chosen on a development seed."""

    identifiers: int
    updates: int
    group: Group
    tried: int


def wide_points(records: Records) -> list[WidePoint]:
    """Return points in table order; settings run only at development seeds are counted but not shown."""
    settings: dict[tuple[int, int, tuple[str, str]], list[Group]] = {}
    for item in group(records.runs(LEADERBOARD, WIDE), apart=("num_identifiers", "slots", "epochs", "learning_rate")):
        run = item.first
        updates = int(run.number("config", "epochs")) * run.count("steps_per_epoch")
        settings.setdefault((run.count("num_identifiers"), updates, (item.model, item.variant)), []).append(item)
    points = []
    for (identifiers, updates, model), items in settings.items():
        chosen = max(items, key=lambda item: (len(item.runs), item.first.number("config", "learning_rate")))
        runs = tuple(run for run in chosen.runs if run.seed < DEVELOPMENT)
        if runs:
            # Longer trainings use the rate that the short ones chose.
            tried = {
                item.first.number("config", "learning_rate")
                for (size, _, name), others in settings.items()
                for item in others
                if (size, name) == (identifiers, model)
            }
            points.append(WidePoint(identifiers, updates, Group(chosen.model, chosen.variant, runs), len(tried)))
    order = {id(point): -point.group.estimate("metrics", "best", "both").mean for point in points}
    return sorted(points, key=lambda point: (point.identifiers, point.updates, order[id(point)]))


@table("learnability", task=LEADERBOARD)
def learnability(records: Records, preset: str) -> Rows | None:
    """Show updates until labels and everything are learned, one size changed at a time, and their growth."""
    apart = (*SIZES, "addressed")
    groups = group(records.runs(LEADERBOARD, LEARNED), apart=apart) if preset == LEARNED else []
    if not groups:
        return None
    order = [item.model for item in groups]
    groups.sort(
        key=lambda item: (
            order.index(item.model),
            not _addressed(item),
            [float(item.first.number("config", name)) for name in SIZES],
        )
    )
    rows = [
        (
            item.title,
            "address" if _addressed(item) else "content",
            *(f"{item.first.number('config', name):g}" for name in SIZES),
            *(_reached(item, name) for name in ("label", "both")),
            shares(item, "metrics", "best", "both"),
            str(len(item.runs)),
        )
        for item in groups
    ]
    columns = (
        Column("Memory", left=True),
        Column("Routed by", left=True),
        *(Column(name) for name in SIZES.values()),
        *(Column(name, group="updates to 99 %") for name in ("Label", "Both")),
        Column("Both"),
        Column("Seeds"),
    )
    addressed = [item for item in groups if _addressed(item)]
    models = dict.fromkeys(item.model for item in addressed)
    notes = [sentence for model in models for sentence in _growth(model, addressed)]
    return Rows(columns, rows, notes, groups=groups)


def _addressed(item: Group) -> bool:
    return item.first.find("config", "addressed") is not False


def updates_to(run: Record, metric: str) -> int | None:
    """Return the updates after which a run first had enough right answers; None if it never did."""
    for number, row in enumerate(run.parts("metrics", "epochs"), 1):
        if row.number(metric) >= ENOUGH:
            return number * run.count("steps_per_epoch")
    return None


def _reached(item: Group, metric: str) -> str:
    """Format mean and interval over the seeds that succeeded, or the seeds if they differ a lot, and their number."""
    counts = [updates for run in item.runs if (updates := updates_to(run, metric)) is not None]
    if not counts:
        return ABSENT
    value = estimate([float(updates) for updates in counts])
    apart = value.half_width is not None and value.half_width > value.mean / 2
    text = f"{value.mean:.0f} ({', '.join(map(str, counts))})" if apart else show(value, 1.0, 0)
    return text if len(counts) == len(item.runs) else f"{text} ({len(counts)} of {len(item.runs)})"


def _growth(model: str, groups: Sequence[Group]) -> list[str]:
    """Describe the growth of updates with identifiers and width, by least squares over logarithms."""
    members = [item for item in groups if item.model == model]
    values = {name: [item.first.number("config", name) for item in members] for name in SIZES}
    usual = {name: max(set(sizes), key=sizes.count) for name, sizes in values.items()}
    sentences = []
    for name, follows in (("num_identifiers", "slots"), ("channels", None)):
        free = {name, follows}
        line = [
            item
            for item in members
            if all(item.first.number("config", other) == usual[other] for other in SIZES if other not in free)
            and (follows is None or item.first.number("config", name) == item.first.number("config", follows))
        ]
        for metric in ("label", "both"):
            points = [
                (log(item.first.number("config", name)), log(fmean(counts)))
                for item in line
                if all(counts := [updates_to(run, metric) or 0 for run in item.runs])
            ]
            if len(points) > 2:
                slope = linear_regression(*zip(*points, strict=True)).slope
                what = f"{SIZES[name].lower()}{' and slots together' if follows else ''}"
                sentences.append(
                    f"{title(model, line[0].first)}: updates to 99 % of {metric.capitalize()} grow with {what} to the "
                    f"power {slope:.2f} ({len(points)} sizes)."
                )
    return sentences
