"""What training reaches on Two-Radius: one wide state or many slots, and updates by size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, log2
from statistics import fmean, linear_regression

from mooring.suite.records import Record, Records
from mooring.suite.report.exhibits import Body, table
from mooring.suite.report.groups import Group, estimate, group, shares, show, title
from mooring.table import ABSENT, Column

LEADERBOARD = "two-radius-leaderboard"
# Presets: one wide state against many slots, with equal parameters or without, and how fast training is.
WIDTH, WIDE, LEARNED = "width", "wide", "learnability"
# What is changed there, one at a time; identifiers together with the slots.
SIZES = {"num_identifiers": "Identifiers", "slots": "Slots", "channels": "Width", "temperature": "Temperature"}
# The ways to slots: given addresses, each node's own state as its address, and content.
ROUTED_BY = ("address", "own state", "content")
# A share of right answers that counts as learned.
ENOUGH = 0.99
# Seeds from here on choose settings and are in no table.
DEVELOPMENT = 100


@table(
    "wide-states",
    task=LEADERBOARD,
    title="One wide state or many slots, without a cap on parameters",
    notes="""
    n identifiers; n slots of width 64, or one state of width 64 n. Accuracies in %{interval}{listed}, at the epoch with
    the best Both. Parameters are those of the memory. Bound: the bits that thm:lower asks of each number of the memory
    for the labels alone, n log2 n in all; a row above 32, the bits of a float, would be ruled out. A run ends when a
    validation has no mistake; the updates are the mean over the solved ones. Settings: learning rates tried at a
    development seed, which is not among the seeds.
    """,
)
def wide_states(records: Records, preset: str, sizes: str = "all", updates: str = "all") -> Body | None:
    """One wide state, read in several ways, against slots: by number of identifiers and updates, best first.

    Args:
        records, preset: as in every table.
        sizes, updates: the numbers of identifiers and of updates to show, comma-separated, or ``all``.
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
    return Body(columns, rows, groups=[point.group for point in points])


def _with(name: str, points: list[WidePoint], number: Callable[[WidePoint], int], wanted: str) -> list[WidePoint]:
    """The points with one of the wanted numbers, or all."""
    there = sorted({number(point) for point in points})
    unknown = (
        [] if wanted == "all" or not points else [text for text in wanted.split(",") if text not in map(str, there)]
    )
    if unknown:
        raise ValueError(
            f"table 'wide-states': no run with {name}={unknown[0]}, expected some of {', '.join(map(str, there))}, or "
            "'all'."
        )
    return [point for point in points if wanted == "all" or str(number(point)) in wanted.split(",")]


def label_bits(run: Record) -> float:
    """Bits that each number of the memory must hold, at least, so that independent labels can be told apart.

    Paper: ``app:capacity``, ``thm:lower`` for labels that are drawn with repetition: ``n log2 n`` bits in all.
    """
    identifiers = run.count("num_identifiers")
    return identifiers * log2(identifiers) / (run.count("slots") * run.count("channels"))


@dataclass(frozen=True)
class WidePoint:
    """One memory at one number of identifiers and updates, at the rate that was chosen at a development seed."""

    identifiers: int
    updates: int
    group: Group
    tried: int


def wide_points(records: Records) -> list[WidePoint]:
    """Points in the order of the table; a setting that was only tried at a development seed is counted, not shown."""
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
            # The rate of a longer training is the one that the short ones chose.
            tried = {
                item.first.number("config", "learning_rate")
                for (size, _, name), others in settings.items()
                for item in others
                if (size, name) == (identifiers, model)
            }
            points.append(WidePoint(identifiers, updates, Group(chosen.model, chosen.variant, runs), len(tried)))
    order = {id(point): -point.group.estimate("metrics", "best", "both").mean for point in points}
    return sorted(points, key=lambda point: (point.identifiers, point.updates, order[id(point)]))


@table(
    "learnability",
    task=LEADERBOARD,
    title="How many updates training needs",
    notes="""
    Counted Two-Radius, no cap on parameters, one size changed at a time; a run stops at its first validation without a
    mistake, or after 2,000 updates. Updates until a validation has 99 % of the labels, or of labels with their counts,
    right{interval}, or all seeds if they lie far apart. There is a validation every 50 updates, so 50 is the smallest
    number that can be measured.
    """,
)
def learnability(records: Records, preset: str) -> Body | None:
    """Updates until the labels and until all is learned, one size changed at a time; how both grow with each size."""
    apart = (*SIZES, "addressed", "routing", "address_norm")
    groups = group(records.runs(LEADERBOARD, LEARNED), apart=apart) if preset == LEARNED else []
    if not groups:
        return None
    order = [item.model for item in groups]
    groups.sort(
        key=lambda item: (
            order.index(item.model),
            ROUTED_BY.index(_routed_by(item)),
            [float(item.first.number("config", name)) for name in SIZES],
        )
    )
    rows = [
        (
            item.title,
            _routed_by(item),
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
    notes = []
    for model, way in dict.fromkeys((item.model, _routed_by(item)) for item in groups):
        if way == "content":  # which nothing learns in this time
            continue
        notes += _growth(model, way, [item for item in groups if (item.model, _routed_by(item)) == (model, way)])
    return Body(columns, rows, notes, groups=groups)


def _routed_by(item: Group) -> str:
    if item.first.find("config", "addressed") is not False:
        return "address"
    if item.first.find("config", "routing") != "self":
        return "content"
    return "own state" if item.first.find("config", "address_norm") != "batch" else "own state, batch norm"


def updates_to(run: Record, metric: str) -> int | None:
    """Updates after which a run had enough right answers for the first time; None if it never did."""
    for number, row in enumerate(run.parts("metrics", "epochs"), 1):
        if row.number(metric) >= ENOUGH:
            return number * run.count("steps_per_epoch")
    return None


def _reached(item: Group, metric: str) -> str:
    """Mean and interval over the seeds that got there, or the seeds if they lie apart, and how many if not all did."""
    solved = [updates for run in item.runs if (updates := updates_to(run, metric)) is not None]
    if not solved:
        return ABSENT
    value = estimate([float(updates) for updates in solved])
    apart = value.half_width is not None and value.half_width > value.mean / 2
    text = f"{value.mean:.0f} ({', '.join(map(str, solved))})" if apart else show(value, 1.0, 0)
    return text if len(solved) == len(item.runs) else f"{text} ({len(solved)} of {len(item.runs)})"


def _growth(model: str, way: str, of_model: Sequence[Group]) -> list[str]:
    """How the updates grow with identifiers and with width, by least squares over logarithms."""
    values = {name: [item.first.number("config", name) for item in of_model] for name in SIZES}
    usual = {name: max(set(sizes), key=sizes.count) for name, sizes in values.items()}
    sentences = []
    for name, follows in (("num_identifiers", "slots"), ("channels", None)):
        free = {name, follows}
        line = [
            item
            for item in of_model
            if all(item.first.number("config", other) == usual[other] for other in SIZES if other not in free)
            and (follows is None or item.first.number("config", name) == item.first.number("config", follows))
        ]
        for metric in ("label", "both"):
            points = [
                (log(item.first.number("config", name)), log(fmean(needed)))
                for item in line
                if all(needed := [updates_to(run, metric) or 0 for run in item.runs])
            ]
            if len(points) > 2:
                slope = linear_regression(*zip(*points, strict=True)).slope
                what = f"{SIZES[name].lower()}{' and slots together' if follows else ''} to the power {slope:.2f}"
                sentences.append(
                    f"{title(model, line[0].first)}, routed by {way}: updates to 99 % of {metric.capitalize()} grow "
                    f"with {what} ({len(points)} sizes)."
                )
    return sentences
