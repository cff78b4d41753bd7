"""Tables and learning curves of real graphs: one setting per set and memory, beside no memory and published scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mooring.suite.records import Record, Records
from mooring.suite.report.cells import ahead, fill, named, seeds, thousands
from mooring.suite.report.claims import one_budget, updates_of
from mooring.suite.report.drawing import PALETTE, colours, curve, end_labels, panel
from mooring.suite.report.exhibits import Body, Exhibit, figure, table
from mooring.suite.report.groups import Estimate, Group, group, interval, listed, plain, shares, show
from mooring.table import ABSENT, Column

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Shown(NamedTuple):
    """Name, scale and digits of a metric in tables, and whether more is better."""

    name: str
    scale: float
    digits: int
    rises: bool


METRICS = {
    "roc_auc": Shown("ROC-AUC, %", 100.0, 1, True),
    "average_precision": Shown("AP, %", 100.0, 1, True),
    "rmse": Shown("RMSE", 1.0, 3, False),
    "mae": Shown("MAE", 1.0, 3, False),
}
# What a search varies; a configuration that differs in anything else is a row of its own.
SEARCHED = ("learning_rate", "readout", "layer_dropout", "weight_decay")
# What a row shows in columns and not in its name.
SHOWN = (*SEARCHED, "dataset", "epochs", "steps_per_epoch")
OGB = "5 layers, 300 wide (arXiv 2005.00687)"
LRGB = "about 500k parameters (arXiv 2206.08164)"
#: Percent for areas, the target's units for errors. Only what was read in the text of a source is here.
PUBLISHED: Mapping[tuple[str, str], tuple[float, str]] = {
    ("esol", "none"): (1.173, f"GIN, {OGB}"),
    ("hiv", "none"): (75.6, f"GIN, {OGB}"),
    ("hiv", "ogb-vn"): (77.1, f"GIN+VN, {OGB}"),
    ("func", "none"): (55.0, f"GINE, {LRGB}"),
    ("func", "transformer"): (65.4, "GPS, about 500k parameters (arXiv 2205.12454)"),
}
REFERENCE = "none"
# The bench record of times, see benchmarks/updates.py.
UPDATES = "updates"
# In a learning curve an error starts far above where it ends; what is above this many times the least is cut off.
HIGHEST = 1.5
# Number of curves, those that end best, that are named: more names would not stand where their curves end.
NAMED = 5


@dataclass(frozen=True)
class Chosen:
    """The configuration of one model on one set that a table shows, and how many settings of it were tried."""

    dataset: str
    metric: str
    group: Group
    searched: int

    @property
    def shown(self) -> Shown:
        return METRICS[self.metric]

    @property
    def field(self) -> tuple[str, str, str]:
        """The test score in a record."""
        return "metrics", "final", f"test/{self.metric}"

    @property
    def test(self) -> Estimate:
        return self.group.estimate(*self.field)

    @property
    def cell(self) -> str:
        """The test score as text."""
        return shares(self.group, *self.field) if self.shown.scale == 100 else show(self.test)

    @property
    def setting(self) -> str:
        """Rate, readout and dropout that the search chose."""
        values = [self.group.first.find("config", name) for name in SEARCHED[:3]]
        return ", ".join(
            f"{value:g}" if isinstance(value, float) else str(value) for value in values if value is not None
        )

    @property
    def published(self) -> tuple[float | None, str]:
        """The score that others published, and with which model."""
        scores = {} if self.group.variant else PUBLISHED
        return scores.get((self.dataset, self.group.model), (None, ABSENT))

    def gain(self, reference: Chosen | None) -> str:
        """Return how much better the test score is than another one, paired over seeds."""
        _, scale, digits, rises = self.shown
        other = None if reference is None else reference.group
        return ahead(self.group, other, *self.field, scale=scale, digits=digits, falls=not rises)


def choose(runs: Sequence[Record]) -> list[Chosen]:
    """Return for each set and model the setting that was run at most seeds; of several, the best on validation.

    A search runs many settings at one seed and the best of them at more, so what is shown is what it found. Controls
    and other options of a memory are models of their own here, called a variant.
    """
    chosen: list[Chosen] = []
    for dataset in dict.fromkeys(map(dataset_of, runs)):
        there = [run for run in runs if dataset_of(run) == dataset]
        metric = there[0].name("diagnostics", "metric")
        sign = 1 if METRICS[metric].rises else -1
        by_model: dict[tuple[str, ...], list[Group]] = {}
        for item in group(there, apart=SHOWN):
            schedule = [str(item.first.find("config", name)) for name in ("epochs", "steps_per_epoch")]
            by_model.setdefault((item.model, item.variant, *schedule), []).append(item)
        for items in by_model.values():
            best = max(items, key=lambda item: (len(item.runs), sign * item.estimate("metrics", "best", metric).mean))
            chosen.append(Chosen(dataset, metric, best, len(items)))
    return chosen


def dataset_of(run: Record) -> str:
    """Return the set that a run was trained on."""
    return str(run.mapping("config").get("dataset", ""))


def _scores(task: str, over: str, about: str, records: Records, preset: str, sets: str = "all") -> Body:
    """Return one row per set and model; of all sets, or of those named."""
    chosen, times = choose(_runs(records, task, preset, sets)), _times(records)

    def validation(item: Chosen) -> str:
        return show(item.group.estimate("metrics", "best", item.metric), item.shown.scale, item.shown.digits)

    def updates(item: Chosen) -> str:
        return f"{updates_of(item.group):,}" if updates_of(item.group) else ABSENT

    def time(item: Chosen) -> str:
        return times.get((item.dataset, item.group.title), ABSENT)

    columns, rows = fill(
        chosen,
        (Column("Set", left=True), lambda item: f"{item.dataset}, {item.shown.name}"),
        (Column("Memory", left=True), lambda item: item.group.title),
        (Column("Test"), lambda item: item.cell),
        (Column("Gain"), lambda item: item.gain(_without_memory(item, chosen))),
        (Column("Validation"), validation),
        (Column("Updates"), updates),
        (Column("Parameters, k"), lambda item: thousands(item.group)),
        *([(Column("Time"), time)] if times else []),
        (Column("Settings"), lambda item: str(item.searched)),
        (Column("Chosen", left=True), lambda item: item.setting),
        (Column(over.capitalize()), lambda item: seeds(item.group)),
        (Column("Score", group="published"), lambda item: plain(item.published[0], item.shown.digits)),
        (Column("Model and budget", group="published", left=True, wide=True), lambda item: item.published[1]),
    )
    groups = [item.group for item in chosen]
    return Body(
        columns,
        rows,
        groups=groups,
        interval=interval(groups, over),
        listed=listed(groups, over),
        over=over,
        about=about,
        varied="learning rate, dropout" if task == "nodes" else "learning rate, readout, dropout",
    )


def _by_routing(task: str, records: Records, preset: str) -> Body | None:
    """Return one row per set and memory that was trained self-addressed, beside the same memory routed by content."""
    runs = records.runs(task, preset)
    free = {
        (item.dataset, item.group.model): item
        for item in choose([run for run in runs if not self_addressed(run)])
        if not item.group.variant
    }
    pairs = [
        (free[item.dataset, item.group.model], item)
        for item in choose([run for run in runs if self_addressed(run)])
        if (item.dataset, item.group.model) in free
    ]
    columns, rows = fill(
        pairs,
        (Column("Set", left=True), lambda pair: f"{pair[0].dataset}, {pair[0].shown.name}"),
        (Column("Memory", left=True), lambda pair: pair[1].group.title),
        (Column("Test", group="by content"), lambda pair: pair[0].cell),
        (Column("Test", group="by own state"), lambda pair: pair[1].cell),
        (Column("Gain"), lambda pair: pair[1].gain(pair[0])),
        (Column("Parameters, k"), lambda pair: f"{thousands(pair[0].group)}, {thousands(pair[1].group)}"),
        (Column("Settings"), lambda pair: f"{pair[0].searched}, {pair[1].searched}"),
        (Column("Seeds"), lambda pair: f"{seeds(pair[0].group)}, {seeds(pair[1].group)}"),
    )
    groups = [item.group for pair in pairs for item in pair]
    return Body(columns, rows, groups=groups, interval=interval(groups), listed=listed(groups)) if rows else None


def _by_readout(task: str, records: Records, preset: str, sets: str = "all") -> Body | None:
    """Return one row per set and model, one column per readout: what a memory adds where the readout counts already."""
    by_readout: dict[str, list[Record]] = {}
    for run in _runs(records, task, preset, sets):
        by_readout.setdefault(str(run.find("config", "readout")), []).append(run)
    if len(by_readout) < 2:
        return None
    names = sorted(by_readout)
    places: dict[tuple[str, str], dict[str, Chosen]] = {}
    for name in names:
        for item in choose(by_readout[name]):
            # The first of several settings that have the same title.
            places.setdefault((item.dataset, item.group.title), {}).setdefault(name, item)
    rows, groups = [], []
    for (dataset, title), items in places.items():
        metric = METRICS[next(iter(items.values())).metric].name
        cells = (items[name].cell if name in items else ABSENT for name in names)
        rows.append((f"{dataset}, {metric}", title, *cells))
        groups += [item.group for item in items.values()]
    columns = (
        Column("Set", left=True),
        Column("Memory", left=True),
        *(Column(name, group="readout") for name in names),
    )
    return Body(columns, rows, groups=groups)


def _curves(task: str, records: Records, preset: str) -> list[Figure]:
    """Draw the validation score over epochs, one panel per set; a variant of a memory is dashed.

    The few curves that end best and that of no memory are named; the others are thin.
    """
    chosen = choose(_runs(records, task, preset, "all"))
    inks = colours(item.group.model for item in chosen)
    # Dotted lines repeat a colour.
    again = list(inks)[len(PALETTE) :]
    panels = []
    for dataset in dict.fromkeys(item.dataset for item in chosen):
        items = [item for item in chosen if item.dataset == dataset]
        name, scale, _, rises = items[0].shown
        drawn, axes = panel(dataset, "epoch", f"validation {name}")
        lines = []
        for item in items:
            epochs, rows = item.group.curves(item.metric)
            lines.append((item.group, epochs, [scale * sum(row) / len(row) for row in rows]))
        best = [member for member, _, _ in sorted(lines, key=lambda line: line[2][-1], reverse=rises)[:NAMED]]
        labels = []
        for member, epochs, means in lines:
            named = member in best or (member.model == REFERENCE and not member.variant)
            ink = inks[member.model]
            style = "--" if member.variant else ":" if member.model in again else "-"
            emphasis = {"lw": 1.5} if named else {"lw": 0.8, "alpha": 0.5}
            curve(axes, epochs, means, member.short, ink, style, **emphasis)
            labels += [(means[-1], member.short, ink)] if named else []
        axes.margins(x=0.01)
        least = min(min(means) for _, _, means in lines)
        if not rises and least > 0:
            axes.set_ylim(0.95 * least, HIGHEST * least)
        end_labels(axes, labels)
        panels.append(drawn)
    return panels


def _score_table(task: str, title: str, over: str = "seeds", about: str = "") -> Exhibit:
    notes = """
    Test score at the epoch with the best validation score{interval}{listed}. Gain: how much better than no memory,
    paired over {over}.{about} No memory: the parameters of a memory are spent in an MLP that sees one node at a time.
    All but the plain network have one budget of parameters, and all the same updates. Time, if it was measured: an
    update as a multiple of one of the plain network, which has neither a memory nor that MLP, in turns of one run.
    Settings: how many of this memory on this set were tried; the chosen one ({varied}) was best on validation.

    Published scores are others', at larger budgets, and are not comparable.
    """
    make: Callable[..., Body] = partial(_scores, task, over, about)
    return table(task, task=task, title=f"{title}, preset {{preset}}", notes=notes, claims=(one_budget,))(make)


def _readout_table(task: str, title: str) -> Exhibit:
    notes = """
    Test score of the setting with this readout that was best on validation{interval}. What a memory gains with a mean
    and not with a sum is the size of the graph, or what goes with it.
    """
    heading = f"{title} by readout, preset {{preset}}"
    return table(f"{task}-readouts", task=task, title=heading, notes=notes)(partial(_by_readout, task))


def _routing_table(task: str, title: str) -> Exhibit:
    notes = """
    Test score at the epoch with the best validation score{interval}{listed}. By content: slots are found by content; by
    own state: each node's own state is its address, as named in the row. Gain: how much better, paired over seeds.
    Parameters, settings tried and seeds of both. Without keys for the reads the second has fewer parameters.
    """
    heading = f"{title}: self-addressed memories, preset {{preset}}"
    return table(f"{task}-routing", task=task, title=heading, notes=notes)(partial(_by_routing, task))


def _curve_figure(task: str, title: str) -> Exhibit:
    caption = """
    Validation score after each epoch, mean over seeds, of the configuration that the table shows. A line that still
    moves at its end says that more updates would change the table. The lines that end best and that of
    no memory are named; the others are thin.
    """
    heading = f"{title}: learning curves (preset {{preset}})"
    return figure(f"{task}-curves", task=task, title=heading, caption=caption)(partial(_curves, task))


ONE_GRAPH = (
    " All splits are of one graph: an interval is about the choice of the training nodes, and not about other graphs."
)
molecules = _score_table("molecules", "Molecules")
peptides = _score_table("peptides", "Peptides")
nodes = _score_table("nodes", "Large graphs", over="splits", about=ONE_GRAPH)
molecules_by_readout = _readout_table("molecules", "Molecules")
peptides_by_readout = _readout_table("peptides", "Peptides")
molecules_by_routing = _routing_table("molecules", "Molecules")
peptides_by_routing = _routing_table("peptides", "Peptides")
molecules_curves = _curve_figure("molecules", "Molecules")
peptides_curves = _curve_figure("peptides", "Peptides")
nodes_curves = _curve_figure("nodes", "Large graphs")


@table(
    "choosing",
    task="molecules",
    title="One change at a time",
    notes="""
    Test score at the epoch with the best validation score{interval}. Better: how much lower the error is than that of
    the usual memory, and than that without one, paired over seeds; less than zero is worse.
    """,
)
def choosing(records: Records, preset: str, usual: str = "anchored") -> Body | None:
    """Return what one change of a memory does, paired over seeds with the same memory as the preset has it."""
    chosen = choose(records.runs("molecules", preset))
    bases = {item.dataset: item for item in chosen if item.group.model == usual and not item.group.variant}

    def change(item: Chosen) -> str:
        name = item.group.variant if item.group.model == usual else item.group.title
        return name or f"{item.group.title}, as it is"

    columns, rows = fill(
        [item for item in chosen if item.dataset in bases],
        (Column("Set", left=True), lambda item: item.dataset),
        (Column("Change", left=True), change),
        (Column("Test"), lambda item: show(item.test, item.shown.scale, item.shown.digits)),
        (Column("Better than the usual"), lambda item: item.gain(bases[item.dataset])),
        (Column("Better than no memory"), lambda item: item.gain(_without_memory(item, chosen))),
        (Column("Parameters, k"), lambda item: thousands(item.group)),
        (Column("Seeds"), lambda item: seeds(item.group)),
    )
    changed = any(item.group.variant for item in chosen)
    return Body(columns, rows, groups=[item.group for item in chosen]) if rows and changed else None


def _without_memory(item: Chosen, chosen: Sequence[Chosen]) -> Chosen | None:
    """Return the run without a memory on the same set, with the same options if there is one."""
    without = [other for other in chosen if other.dataset == item.dataset and other.group.model == REFERENCE]
    alike = [other for other in without if other.group.variant == item.group.variant]
    usual = [other for other in without if not other.group.variant]
    return next(iter(alike + usual), None)


def _times(records: Records) -> dict[tuple[str, str], str]:
    """Return the time of an update over that of the plain network, by set and title, if it was measured.

    Run records cannot tell: the machine may have been busy with one run and idle with another.
    """
    measured = [record for record in records.kind("bench") if record.find("name") == UPDATES]
    return {
        (row.text("set"), row.text("memory")): f"{row.number('over_plain_network'):.1f}"
        for record in measured
        for row in record.parts("rows")
    }


def self_addressed(run: Record) -> bool:
    """Return whether each node's own state is its address: such memories have fewer parameters and another table."""
    return run.mapping("config").get("routing") == "self"


def _runs(records: Records, task: str, preset: str, sets: str) -> list[Record]:
    """Return the runs on all sets, or on those named, without self-addressed memories."""
    runs = [run for run in records.runs(task, preset) if not self_addressed(run)]
    wanted = named(sets, map(dataset_of, runs), f"table '{task}': no run on {{!r}}")
    return [run for run in runs if dataset_of(run) in wanted]
