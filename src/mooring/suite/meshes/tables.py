"""Tables and figures of the mesh task: every memory, and its error by number of slots and nodes."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from mooring.suite.records import Records
from mooring.suite.report.cells import ahead, fill, score, seeds, thousands
from mooring.suite.report.claims import one_budget, updates_of
from mooring.suite.report.drawing import PALETTE, colours, curve, end_labels, log_ticks, panel
from mooring.suite.report.exhibits import Body, figure, table
from mooring.suite.report.groups import Group, group
from mooring.table import ABSENT, Column

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASK = "meshes"
# The presets that change one size at a time.
SIZES = ("slots", "nodes")
ROUTING = ("routing", "temperature")
# Those of mooring.nn.addresses: a report reads records only.
TEMPERATURES = {"self": 0.25, "free": 1.0}
TEST_ERROR = ("metrics", "final", "test/error")
SPLITS = {"test": "Test", "finer": "Finer", "holes": "More holes", "larger": "Larger"}


@table(
    "meshes",
    task=TASK,
    title="Learned solvers on meshes, preset {preset}",
    notes="""
    Relative L2 error in % on plates that were not trained on{interval}, at the epoch with the best validation, best
    first. Finer: half the spacing; more holes: more of them than in training; larger: twice the area. Behind: the test
    error minus that of the first row, paired over seeds. All but the plain network have one budget of parameters, and
    all the same updates; no memory: its parameters are spent in an MLP that sees one node at a time. Seconds: of a
    whole run, several of which shared a machine. Tries: settings that were run for this row; none was chosen by a
    search unless there are several.

    Self-addressed: nodes find slots by their own state, the default of SlotVirtualNode; the slots of other rows are
    found by content.
    """,
    claims=(one_budget,),
)
def memories(records: Records, preset: str) -> Body | None:
    """Return the error of every memory on the test plates and beyond them, best first."""
    groups = [] if preset in SIZES else _groups(records, preset)
    if not groups:
        return None
    groups.sort(key=lambda item: item.estimate(*TEST_ERROR).mean)
    tries = Counter(map(_name, groups))
    columns, rows = fill(
        groups,
        (Column("Memory", left=True), _title),
        *((Column(name), partial(_error, split=split)) for split, name in SPLITS.items()),
        (Column("Behind"), lambda item: ahead(item, groups[0], *TEST_ERROR, scale=100, digits=1)),
        (Column("Parameters, k"), thousands),
        (Column("Seconds"), lambda item: f"{item.estimate('wall_seconds').mean:,.0f}"),
        (Column("Updates"), lambda item: f"{updates_of(item):,}"),
        (Column("Tries"), lambda item: str(tries[_name(item)])),
        (Column("Seeds"), seeds),
    )
    return Body(columns, rows, groups=groups)


@table(
    "meshes-sizes",
    task=TASK,
    title="Error by number of slots, preset {preset}",
    notes="""
    Relative L2 error in % on test plates{interval}. Nodes: fewest and most of a plate without holes, in training and
    test. Every row has its own training at its size, with one budget of updates.
    """,
)
def sizes(records: Records, preset: str) -> Body | None:
    """Return the error of memories by number of slots, for each number of nodes."""
    groups = _groups(records, preset, "slots", "nodes") if preset in SIZES else []
    if not groups:
        return None
    numbers = sorted({item.first.count("slots") for item in groups})
    errors: dict[tuple[tuple[float, ...], str], dict[int, Group]] = {}
    for item in groups:
        place = tuple(item.first.numbers("config", "nodes")), _title(item)
        errors.setdefault(place, {})[item.first.count("slots")] = item
    rows = [
        (
            title,
            " to ".join(f"{number:,}" for number in nodes),
            *(_error(items[number], "test") if number in items else ABSENT for number in numbers),
            f"{updates_of(next(iter(items.values()))):,}",
            ", ".join(sorted({str(len(item.runs)) for item in items.values()})),
        )
        for (nodes, title), items in sorted(errors.items(), key=lambda pair: pair[0])
    ]
    columns = (
        Column("Memory", left=True),
        Column("Nodes"),
        *(Column(str(number), group="slots") for number in numbers),
        Column("Updates"),
        Column("Seeds"),
    )
    return Body(columns, rows, groups=groups)


@figure(
    "meshes-curves",
    task=TASK,
    title="Learned solvers: error against updates (preset {preset})",
    caption="""
    Relative error on validation plates, in %, mean over seeds; dashed: anchored slots found by
    content. A line that
    still falls at its end says that more updates would change the table.
    """,
)
def curves(records: Records, preset: str) -> list[Figure]:
    """Draw the validation error over updates."""
    groups = [] if preset in SIZES else _groups(records, preset)
    if not groups:
        return []
    drawn, axes = panel(preset, "updates", "validation error, %", size=(5.0, 3.6))
    axes.set_yscale("log")
    inks, labels = colours(item.model for item in groups), []
    again, heights = list(inks)[len(PALETTE) :], list[float]()
    for item in groups:
        epochs, errors = item.curves("error")
        means = [100 * sum(row) / len(row) for row in errors]
        updates = [(epoch + 1) * item.first.count("steps_per_epoch") for epoch in epochs]
        name, ink = _title(item), inks[item.model]
        style = ":" if item.model in again else "-" if _self_addressed(item) or item.model != "anchored" else "--"
        curve(axes, updates, means, name, ink, style, lw=1.3)
        labels.append((means[-1], name, ink))
        heights += means
    log_ticks(axes.yaxis, min(heights), max(heights))
    axes.margins(x=0.01)
    end_labels(axes, labels)
    return [drawn]


def _groups(records: Records, preset: str, *apart: str) -> list[Group]:
    return group(records.runs(TASK, preset), apart=(*ROUTING, *apart))


def _error(item: Group, split: str) -> str:
    return score(item, "metrics", "final", f"{split}/error", scale=100, digits=1)


def _self_addressed(item: Group) -> bool:
    return item.first.find("config", "routing") == "self"


def _name(item: Group) -> str:
    """Return the title without what differs from the preset."""
    title = Group(item.model, "", item.runs).title
    return f"{title}, self-addressed" if _self_addressed(item) else title


def _title(item: Group) -> str:
    """Return the title with what differs from the preset, and a temperature that is not the default of its routing."""
    run, changes = item.first, [item.variant] if item.variant else []
    usual = TEMPERATURES["self" if _self_addressed(item) else "free"]
    if run.find("config", "temperature") is not None and run.number("config", "temperature") != usual:
        changes.append(f"temperature {run.number('config', 'temperature'):g}")
    return f"{_name(item)} ({', '.join(changes)})" if changes else _name(item)
