"""How many updates training needs on Two-Radius, one size changed at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import log
from statistics import fmean, linear_regression

from mooring.suite.records import Record, Records
from mooring.suite.report.cells import fill, seeds
from mooring.suite.report.exhibits import Body, table
from mooring.suite.report.groups import Group, estimate, group, shares, show, title
from mooring.table import ABSENT, Column

LEADERBOARD, LEARNED = "two-radius-leaderboard", "learnability"
BOTH = ("metrics", "best", "both")
# What is changed, one at a time; identifiers together with the slots.
SIZES = {"num_identifiers": "Identifiers", "slots": "Slots", "channels": "Width", "temperature": "Temperature"}
# The ways to slots: given addresses, each node's own state as its address, and content.
ROUTED_BY = ("address", "own state", "own state, batch norm", "content")
# A share of right answers that counts as learned.
ENOUGH = 0.99


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
    """Return the updates until the labels and until all is learned, one size changed at a time, and how both grow."""
    apart = (*SIZES, "addressed", "routing", "address_norm")
    groups = group(records.runs(LEADERBOARD, LEARNED), apart=apart) if preset == LEARNED else []
    if not groups:
        return None
    order = [item.model for item in groups]

    def place(item: Group) -> tuple[object, ...]:
        sizes = [float(item.first.number("config", name)) for name in SIZES]
        return order.index(item.model), ROUTED_BY.index(_routed_by(item)), sizes

    columns, rows = fill(
        groups := sorted(groups, key=place),
        (Column("Memory", left=True), lambda item: item.title),
        (Column("Routed by", left=True), _routed_by),
        *((Column(heading), partial(_size, name=name)) for name, heading in SIZES.items()),
        (Column("Label", group="updates to 99 %"), partial(_reached, metric="label")),
        (Column("Both", group="updates to 99 %"), partial(_reached, metric="both")),
        (Column("Both"), lambda item: shares(item, *BOTH)),
        (Column("Seeds"), seeds),
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
    """Return the updates after which a run first had enough right answers; None if it never did."""
    for number, row in enumerate(run.parts("metrics", "epochs"), 1):
        if row.number(metric) >= ENOUGH:
            return number * run.count("steps_per_epoch")
    return None


def _size(item: Group, name: str) -> str:
    return f"{item.first.number('config', name):g}"


def _reached(item: Group, metric: str) -> str:
    """Return mean and interval over the seeds that learned, or the seeds if they lie apart, and how many if not all."""
    solved = [updates for run in item.runs if (updates := updates_to(run, metric)) is not None]
    if not solved:
        return ABSENT
    value = estimate([float(updates) for updates in solved])
    apart = value.half_width is not None and value.half_width > value.mean / 2
    text = f"{value.mean:.0f} ({', '.join(map(str, solved))})" if apart else show(value, 1.0, 0)
    return text if len(solved) == len(item.runs) else f"{text} ({len(solved)} of {len(item.runs)})"


def _growth(model: str, way: str, of_model: Sequence[Group]) -> list[str]:
    """Return how the updates grow with identifiers and with width, by least squares over logarithms."""
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
