"""Tables of counted Two-Radius (tab:counted, the diagnostics of app:protocol) and of the original task."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from mooring.suite.records import Record, Records
from mooring.suite.report.cells import best, fill, seeds
from mooring.suite.report.exhibits import Body, table
from mooring.suite.report.groups import (
    Group,
    estimate,
    group,
    others,
    paired_difference,
    plain,
    rank,
    shares,
    show,
    title,
)
from mooring.table import ABSENT, Column

COUNTED, ORIGINAL = "two-radius", "two-radius-original"
METRICS = ("label", "count", "both")
ACCURACY = ("metrics", "final", "test/label")
SIZE = "num_identifiers"
# The preset with the paper's schedule, the only one whose rows stand beside the paper's numbers.
PAPER = "paper"
# A headline names this many models.
MOST_NAMED = 4
# Products of scales and base counts; the published task has twelve.
MOST_COUNTS = 1000

# tab:counted, accuracy in %, seed 0: label, count, both.
PUBLISHED: Mapping[str, tuple[float, float, float]] = {
    "mpnn": (7.8, 17.1, 1.3),
    "vn": (8.9, 18.3, 1.4),
    "cross-attn": (100.0, 28.3, 28.3),
    "anchored": (100.0, 100.0, 100.0),
}
# Mishayev et al., arXiv 2511.20406: accuracy in % by number of identifiers, at width 256 and 1024.
PUBLISHED_SIZES = (10, 50, 100, 150, 200)
PUBLISHED_ORIGINAL: Mapping[str, Mapping[int, tuple[int, ...]]] = {
    "gcn": {256: (94, 78, 44, 32, 24), 1024: (100, 90, 63, 46, 36)},
    "gin": {256: (100, 93, 53, 31, 24), 1024: (100, 94, 50, 12, 13)},
    "sage": {256: (100, 92, 13, 36, 26), 1024: (100, 95, 80, 13, 18)},
    "gat": {256: (98, 96, 92, 86, 68), 1024: (100, 97, 96, 94, 93)},
    "gcn+vn": {1024: (100, 94, 96, 80, 37)},
    "transformer": {1024: (100, 100, 100, 100, 100)},
}


@dataclass(frozen=True)
class Reference:
    """Accuracies on counted Two-Radius that need no memory at all, as fractions.

    `label` is a guess among n labels; `count` the best constant count; `both` the two guesses together; `blind` the
    most that a model can reach if it knows every base count but not the scale (prop:replication).

    >>> chance = Reference.of(identifiers=12, max_base=4, scales=(1, 2, 3))
    >>> [round(100 * value, 1) for value in (chance.label, chance.count, chance.both, chance.blind)]
    [8.3, 16.7, 1.4, 33.3]
    """

    label: float
    count: float
    both: float
    blind: float

    @classmethod
    def of(cls, identifiers: int, max_base: int, scales: Sequence[int]) -> Reference:
        """Return the reference accuracies of one setting of the task."""
        products = [scale * base for scale in scales for base in range(1, max_base + 1)]
        count = max(products.count(value) for value in products) / len(products)
        return cls(1 / identifiers, count, count / identifiers, 1 / len(scales))

    @classmethod
    def of_run(cls, run: Record) -> Reference:
        """Return those of a run's settings, or of the paper's settings if the record lacks them."""
        identifiers = run.count("num_labels", run.count(SIZE, 12))
        base, scales = run.count("max_base_count", 4), run.setting("scales", (1, 2, 3))
        if not isinstance(scales, list | tuple) or not 1 <= len(scales) * base <= MOST_COUNTS:
            got = f"{scales!r:.40} with max_base_count {base}"
            raise run.error(f"field 'config.scales' is {got}, expected a list that gives 1 to {MOST_COUNTS} counts.")
        return cls.of(identifiers, base, [run.counted("scales", scale) for scale in scales])


@table(
    "two-radius",
    task=COUNTED,
    title="Counted Two-Radius, preset {preset}",
    notes="""
    Accuracy in %{interval}{listed}, at the epoch with the best Both. A run stops at its first validation without a
    mistake, so 100.0 says that every seed had one, and nothing of later epochs.

    Guessing gives {guesses}; a model that knows every base count but not the scale reaches at most {blind} on Count on
    average. Settings: the preset's, or those in the name of a row.
    """,
)
def accuracy(records: Records, preset: str, models: str = "all") -> Body:
    """Return label, count and both of every model beside the paper's numbers, or of the paper's models alone."""
    runs = records.runs(COUNTED, preset)
    groups = every = group(runs)
    if models == "paper":
        groups = [item for item in every if item.model in PUBLISHED and not item.variant]
    elif models != "all":
        raise ValueError(f"table 'two-radius': models is '{models}', expected 'all' or 'paper'.")
    # The paper's numbers belong to the paper's configuration only, and to a task of its size.
    usual = Reference.of(12, 4, (1, 2, 3))
    comparable = [item for item in groups if preset == PAPER and not item.variant and item.model in PUBLISHED]
    published = {item.model: PUBLISHED[item.model] for item in comparable if Reference.of_run(item.first) == usual}

    def beside(item: Group, place: int) -> str:
        return ABSENT if item.variant or item.model not in published else plain(published[item.model][place], 1)

    columns, rows = fill(
        groups,
        (Column("Model", left=True), lambda item: item.title),
        *((Column(name.capitalize()), partial(best, metric=name)) for name in METRICS),
        *(
            (Column(name.capitalize(), group="paper"), partial(beside, place=place))
            for place, name in enumerate(METRICS)
            if published
        ),
        (Column("Seeds"), seeds),
    )
    # The first run stands for all, but any run whose settings make no sense is refused.
    chance, *_ = [Reference.of_run(run) for run in runs]
    *guesses, blind = (f"{100 * value:.1f}" for value in (chance.label, chance.count, chance.both, chance.blind))
    notes = [*_differences(groups), *others(groups, every)]
    headline = _headline(groups, preset)
    return Body(columns, rows, notes, groups=groups, guesses=" / ".join(guesses), blind=blind, headline=headline)


def _headline(groups: Sequence[Group], preset: str) -> str:
    """Return Both of each model in the preset's settings as a sentence, the best first."""
    scores = {item.title: item.estimate("metrics", "best", "both").mean for item in groups if not item.variant}
    seeds = min((len(item.runs) for item in groups if not item.variant), default=0)
    ranked = sorted(scores.items(), key=lambda pair: -pair[1])[:MOST_NAMED]
    named = ", ".join(f"{name} {100 * score:.1f} %" for name, score in ranked)
    many = f"{seeds} seed{'s' * (seeds != 1)}"
    return f"Label and count right (counted Two-Radius, preset {preset}, {many}): {named}." if named else ""


@table(
    "two-radius-diagnostics",
    task=COUNTED,
    title="Diagnostics, preset {preset}",
    notes="""
    Means over seeds, accuracies in %. Fresh graphs were not used to select the epoch. Graphs: share of graphs with
    every target right.

    State change: largest difference of the global state from its {reference} state, over scales and seeds.
    """,
)
def diagnostics(records: Records, preset: str) -> Body:
    """Return accuracy on fresh graphs, graph recovery, state change, count accuracy by scale, size and time."""
    groups = group(records.runs(COUNTED, preset))
    scales = sorted({scale for item in groups for scale in scales_of(item.first)}, key=int)
    counted = ("diagnostics", "count_accuracy_by_scale")

    def graphs(item: Group) -> str:
        # Of fresh graphs if the record has it.
        return _mean(item, "metrics", "final" if item.has("metrics", "final", "graph") else "best", "graph")

    columns, rows = fill(
        groups,
        (Column("Model", left=True), lambda item: item.title),
        *(
            (
                Column(name.capitalize(), group="fresh graphs"),
                lambda item, name=name: _mean(item, "metrics", "final", name),
            )
            for name in METRICS
        ),
        *(
            (Column(f"r = {scale}", group="count at scale"), lambda item, scale=scale: _mean(item, *counted, scale))
            for scale in scales
        ),
        (Column("Graphs"), graphs),
        (Column("State change"), _distance),
        (Column("Epoch"), lambda item: f"{item.estimate('selected_epoch').mean + 1:.0f}"),
        (Column("Parameters"), lambda item: f"{item.first.whole('parameters', 'total'):,}"),
        (Column("Seconds"), lambda item: f"{item.estimate('wall_seconds').mean:.0f}"),
    )
    runs = [item.first for item in groups if item.first.find("diagnostics", "state_distance") is not None]
    references = sorted({scale for run in runs for scale in compared(run)[:1]}) or [1]
    return Body(columns, rows, groups=groups, reference=" or ".join(f"r = {scale}" for scale in references))


def scales_of(run: Record) -> list[str]:
    """Return the replication scales at which a run was counted, in their order; none if it was not."""
    if run.find("diagnostics", "count_accuracy_by_scale") is None:
        return []
    accuracies = run.mapping("diagnostics", "count_accuracy_by_scale")
    for scale in accuracies:
        if not re.fullmatch(r"[1-9]\d{0,8}", scale):
            raise run.error(
                f"field 'diagnostics.count_accuracy_by_scale' has the scale {scale!r:.40}, expected a whole number."
            )
    return sorted(accuracies, key=int)


def compared(run: Record) -> list[int]:
    """Return the scales at which a run's global states were compared, with the state at the first of them."""
    return [int(scale) for scale in run.numbers("diagnostics", "state_distance", "scales")]


@dataclass(frozen=True)
class Line:
    """One model at one width on the original task: its seeds, by number of identifiers."""

    model: str
    width: str
    variant: str
    by_size: dict[int, Group] = field(default_factory=dict)

    @property
    def named(self) -> Group:
        """One of its groups under the variant of the line, for the title."""
        return replace(next(iter(self.by_size.values())), variant=self.variant)

    @property
    def has_slots(self) -> bool:
        """Whether its memory has slots; a convolution or a plain virtual node has the setting but ignores it."""
        memory = self.model.partition("+")[2]
        return bool(memory) and not memory.startswith("vn")

    def accuracy(self, size: int) -> str:
        """Return the accuracy on test graphs at one size as text."""
        return shares(self.by_size[size], *ACCURACY) if size in self.by_size else ABSENT

    def percentages(self) -> dict[int, float]:
        """Return the mean accuracy in % at every size that was run."""
        return {size: 100 * item.estimate(*ACCURACY).mean for size, item in sorted(self.by_size.items())}

    def values(self, name: str) -> str:
        """Return the values of a setting in the line, e.g. the slots if they grow with n."""
        values = [item.first.setting(name, ABSENT) for _, item in sorted(self.by_size.items())]
        return ", ".join(dict.fromkeys(str(value) for value in values))


def measured(runs: Sequence[Record]) -> list[Line]:
    """Return lines in the paper's order; settings may change with n, but configurations at one n are separate lines."""
    lines: dict[tuple[str, str, str], Line] = {}
    for size in sorted({run.count(SIZE) for run in runs}):
        here = [run for run in runs if run.count(SIZE) == size]
        for item in group(here, apart=("channels", "slots", SIZE)):
            width = str(item.first.setting("channels", ABSENT))
            key = (item.model, width, item.variant)
            if key in lines and size in lines[key].by_size:
                extra = f"slots {item.first.setting('slots', ABSENT)}"
                key = (item.model, width, ", ".join(filter(None, (item.variant, extra))))
            lines.setdefault(key, Line(*key)).by_size[size] = item
    return sorted(lines.values(), key=lambda line: (rank(line.model), line.width, line.variant))


@table(
    "two-radius-original",
    task=ORIGINAL,
    title="Original Two-Radius",
    notes="""
    Accuracy in %{interval}{listed}. Published: Mishayev et al., arXiv 2511.20406, who stop training at 92 % validation
    accuracy.
    """,
)
def original(records: Records, preset: str | None = None) -> Body:
    """Return measured and published accuracy by n, one row per model and width."""
    runs = records.runs(ORIGINAL, preset)
    sizes = sorted({*PUBLISHED_SIZES, *(run.count(SIZE) for run in runs)})
    rows = []
    lines = measured(runs)
    for line in lines:
        seconds = estimate([run.number("wall_seconds") for item in line.by_size.values() for run in item.runs])
        cells = [line.accuracy(n) for n in sizes]
        slots = line.values("slots") if line.has_slots else ABSENT
        rows.append((line.named.title, "measured", line.width, slots, *cells, f"{seconds.mean:.0f}"))
    for model, by_width in PUBLISHED_ORIGINAL.items():
        for width, values in by_width.items():
            by_n = dict(zip(PUBLISHED_SIZES, values, strict=True))
            cells = [f"{by_n[n]}" if n in by_n else ABSENT for n in sizes]
            rows.append((title(model), "published", str(width), ABSENT, *cells, ABSENT))
    columns = (
        Column("Model", left=True), Column("Source", left=True), Column("Width"), Column("Slots"),
        *(Column(f"n = {n}") for n in sizes), Column("Seconds per run"),
    )  # fmt: skip
    return Body(columns, rows, groups=[item for line in lines for item in line.by_size.values()])


def _differences(groups: Sequence[Group]) -> list[str]:
    """Return Anchored minus Cross-Attn on Both, paired over seeds, as a sentence."""
    by_model = {item.model: item for item in groups if not item.variant}
    if not {"anchored", "cross-attn"} <= by_model.keys():
        return []
    first, second = (by_model[name].by_seed("metrics", "best", "both") for name in ("anchored", "cross-attn"))
    if len(first.keys() & second.keys()) < 2:
        return []
    gap = paired_difference(first, second)
    return [f"Anchored minus Cross-Attn on Both, paired over {gap.count} seeds: {show(gap, 100, 1, sign=True)}."]


def _distance(item: Group) -> str:
    distances = [
        run.numbers("diagnostics", "state_distance", "max")
        for run in item.runs
        if run.find("diagnostics", "state_distance")
    ]
    largest = max((max(values) for values in distances), default=None)
    return ABSENT if largest is None else f"{largest:.1e}" if largest < 0.01 else f"{largest:.2f}"


def _mean(item: Group, *keys: str) -> str:
    return f"{100 * item.estimate(*keys).mean:.1f}" if item.has(*keys) else ABSENT
