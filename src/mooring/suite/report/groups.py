"""Groups of runs that differ only in their seed: one row of a table or one line of a figure.

Runs are few (three to five seeds), so the interval is Student's: mean ± t(0.975, n - 1) * s / sqrt(n).
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import stdtrit

from mooring.suite.records import (
    DEFAULT_HARDWARE,
    DEFAULTS_FOR_OLD_RECORDS,
    Record,
    Records,
    changed_fields,
    hardware_of,
)
from mooring.table import ABSENT

# A setting that is a whole object would be longer than the row that it names.
LONGEST = 80

# Half of the widest interval, in points of per cent, that is shown instead of the seeds.
WIDEST = 5.0

# Names and order, weakest first as in the paper, of models whose records carry no title and no place of their own.
KNOWN: Mapping[str, str] = {
    "none": "No memory",
    "mpnn-additive": "MPNN, messages added",
    "mpnn-summed": "MPNN, embeddings added",
    "mpnn": "MPNN",
    "gcn": "GCN",
    "gin": "GIN",
    "sage": "SAGE",
    "gat": "GAT",
    "transformer": "Transformer",
    "mean": "Mean pool",
    "max": "Max pool",
    "pna": "PNA",
    "sum-raw": "Sum pool, raw",
    "sum-log": "Sum pool, log head",
    "sum": "Sum pool",
    "vn": "VN",
    "vn-joint": "VN, joint MLP",
    "vn-max": "VN, max",
    "vn-sum": "VN, sum",
    "cross-attn": "Cross-Attn VN",
    "anchored": "Anchored Cross-Attn VN",
}


@dataclass(frozen=True)
class Estimate:
    """A mean over `count` seeds; `half_width` is half the 95 % interval, None where one seed gives no spread."""

    mean: float
    half_width: float | None
    count: int

    @property
    def low(self) -> float:
        return self.mean - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.half_width or 0.0)

    def excludes_zero(self) -> bool:
        """Return whether an interval exists and lies on one side of zero."""
        return self.half_width is not None and (self.low > 0 or self.high < 0)


def estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Return mean and t-interval of independent values.

    >>> estimate([1.0, 2.0, 3.0])
    Estimate(mean=2.0, half_width=2.484137..., count=3)
    >>> estimate([4.0]).half_width is None
    True
    """
    if not values:
        raise ValueError("estimate: no values. Give at least one seed.")
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Estimate(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    # scipy.stats.t.ppf computes the same, but takes three times as long to import.
    quantile = float(stdtrit(len(values) - 1, 0.5 + confidence / 2))
    return Estimate(mean, quantile * math.sqrt(variance / len(values)), len(values))


def paired_difference(first: Mapping[int, float], second: Mapping[int, float]) -> Estimate:
    """Return the interval of first - second over the shared seeds; pairing removes the effect of the seed on both.

    >>> paired_difference({0: 3.0, 1: 5.0}, {0: 1.0, 1: 3.0, 2: 9.0})
    Estimate(mean=2.0, half_width=0.0, count=2)
    """
    shared = sorted(first.keys() & second.keys())
    if not shared:
        raise ValueError("paired_difference: the two models share no seed. Run both with the same seeds.")
    return estimate([first[seed] - second[seed] for seed in shared])


@dataclass(frozen=True)
class Group:
    """The seeds of one model under one configuration; `variant` names what differs from the preset, if anything."""

    model: str
    variant: str
    runs: tuple[Record, ...]

    @property
    def title(self) -> str:
        return title(self.model, self.first) + (f" ({self.variant})" if self.variant else "")

    @property
    def short(self) -> str:
        return short(self.model, self.first) + (f" ({self.variant})" if self.variant else "")

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    @property
    def first(self) -> Record:
        return self.runs[0]

    def by_seed(self, *keys: str) -> dict[int, float]:
        return {run.seed: run.number(*keys) for run in self.runs}

    def estimate(self, *keys: str) -> Estimate:
        """Return mean and interval of one field over the seeds."""
        return estimate([run.number(*keys) for run in self.runs])

    def curves(self, metric: str) -> tuple[list[int], list[list[float]]]:
        """Return the epochs that some seed reached, and the values of all seeds; a stopped run keeps its last value."""
        runs = []
        for run in self.runs:
            runs.append({row.whole("epoch"): row.number(metric) for row in run.parts("metrics", "epochs")})
            if not runs[-1]:
                raise run.error("field 'metrics.epochs' is empty.")
        begun = max(map(min, runs))
        epochs = [epoch for epoch in sorted(set.union(*map(set, runs))) if epoch >= begun]
        columns = []
        for rows in runs:
            last = rows[max(epoch for epoch in rows if epoch <= begun)]
            columns.append([last := rows.get(epoch, last) for epoch in epochs])
        return epochs, [list(values) for values in zip(*columns, strict=True)]

    def has(self, *keys: str) -> bool:
        """Return whether every run of the group has the field."""
        return all(run.find(*keys) is not None for run in self.runs)


def group(runs: Iterable[Record], apart: Sequence[str] = ()) -> list[Group]:
    """Return groups in the order that their runs record, or the paper's; the preset's configuration has no variant.

    Args:
        runs: run records of one task and preset.
        apart: fields that a table or figure shows elsewhere: they separate groups but are not in the variant.
    """
    runs = list(runs)
    names = list(dict.fromkeys(name for run in runs for name in run.mapping("config")))
    before = {name: value for name, value in DEFAULTS_FOR_OLD_RECORDS.items() if name in names}
    usual = _of_preset([({**before, **run.mapping("config")}, changed_fields(run)) for run in runs], names)
    usual |= DEFAULT_HARDWARE
    members: dict[tuple[str, str], list[Record]] = {}
    for run in runs:
        # Fill options a record predates with their default, or else with the most common value.
        config = {**usual, **before, **run.mapping("config"), **hardware_of(run)}
        members.setdefault((run.model, json.dumps(config, sort_keys=True)), []).append(run)
    groups = []
    for (model, dumped), seeds in members.items():
        config = json.loads(dumped)
        shown = [name for name in (*names, *DEFAULT_HARDWARE) if name in config and name not in apart]
        changed = [name for name in shown if name not in usual or config[name] != usual[name]]
        variant = ", ".join(_setting(name, config[name]) for name in changed)
        seeds = sorted(seeds, key=lambda run: run.seed)
        for run, other in itertools.pairwise(seeds):
            # A seed that occurs twice would make an interval too narrow.
            if run.seed == other.seed:
                raise other.error(f"seed {run.seed} of {run.model!r} is in {run.path} too. Delete one of the two.")
        groups.append(Group(model, variant, tuple(seeds)))
    if all(item.first.find("order") is not None for item in groups):
        return sorted(groups, key=lambda item: (item.first.whole("order"), item.model, item.variant))
    return sorted(groups, key=lambda item: (rank(item.model), item.variant))


def usual_groups(records: Records, task: str, preset: str) -> list[Group]:
    """Return one group per model for a figure: the usual configuration, or the first one if it was never run."""
    chosen: dict[str, Group] = {}
    for item in group(records.runs(task, preset)):
        chosen.setdefault(item.model, item)
    return list(chosen.values())


def others(shown: Sequence[Group], every: Sequence[Group]) -> list[str]:
    """Return a note that names the configurations of the shown models that were run too but are not shown."""
    models = {item.model for item in shown}
    left = [item.title for item in every if item.model in models and item not in shown]
    return [f"Run too, but not shown: {'; '.join(left)}."] if left else []


def interval(groups: Sequence[Group], over: str = "seeds") -> str:
    """Return the meaning of the ± in a table, if some row has more than one seed."""
    return f", mean ± 95 % interval over {over}" if any(len(item.runs) > 1 for item in groups) else ""


def listed(groups: Sequence[Group], over: str = "seeds") -> str:
    """Return the words after :func:`interval` in a table whose cells are :func:`shares`."""
    return interval(groups) and f" (if wider than ± {WIDEST:g} points, all {over} instead)"


def title(model: str, run: Record | None = None) -> str:
    """Return a model's name in tables: the title in its run, or a known one; A+B is a backbone and a memory.

    >>> title("mpnn"), title("gcn+vn"), title("my-own")
    ('MPNN', 'GCN+VN', 'my-own')
    """
    if run is not None and run.find("title") is not None:
        return run.name("title")
    local, plus, memory = model.partition("+")
    return f"{title(local)}+{short(memory)}" if plus else KNOWN.get(model, model)


def short(model: str, run: Record | None = None) -> str:
    """Return a model's name in a figure, short enough for a label.

    >>> short("anchored"), short("cross-attn"), short("gcn+anchored")
    ('Anchored', 'Cross-Attn', 'GCN+Anchored')
    """
    full = title(model, run)
    return full.replace(" Cross-Attn VN", "").replace("Cross-Attn VN", "Cross-Attn").removesuffix(" pool")


def rank(model: str) -> tuple[int, int, int, str]:
    """Return a sort key that orders models as the paper's tables, and A+B after B alone."""
    known = list(KNOWN)
    places = [known.index(part) if part in known else len(known) for part in model.split("+")]
    return (places[-1], len(places), places[0], model)


def _of_preset(configs: Sequence[tuple[Mapping[str, Any], frozenset[str]]], names: Sequence[str]) -> dict[str, Any]:
    """Return the preset's values: for each field the most common one of the runs that did not change it.

    A field that every run changed has no value here.

    Args:
        configs: the configuration of each run, and the fields that it changed.
        names: all fields.
    """
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for config, changed in configs:
        for name, value in config.items():
            if name not in changed:
                counts[name][json.dumps(value, sort_keys=True)] += 1
    return {name: json.loads(count.most_common(1)[0][0]) for name, count in counts.items() if count}


def _setting(name: str, value: Any) -> str:
    """Return an option as text: "slots 16", or "exact ranks" for a flag that is on."""
    words = name.replace("_", " ")
    if isinstance(value, bool):
        return words if value else f"no {words}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{words} {text if len(text) <= LONGEST else f'{text[: LONGEST - 1]}…'}"


def show(value: Estimate | None, scale: float = 1.0, digits: int = 3, sign: bool = False) -> str:
    """Return an estimate as text, without an interval for one seed.

    >>> show(Estimate(0.98765, 0.0123, 5), scale=100, digits=1)
    '98.8 ± 1.2'
    >>> show(Estimate(0.283, None, 1), scale=100, digits=1)
    '28.3'
    """
    if value is None:
        return ABSENT
    text = f"{scale * value.mean:{'+' if sign else ''}.{digits}f}"
    return text if value.half_width is None else f"{text} ± {scale * value.half_width:.{digits}f}"


def percent(value: Estimate | None) -> str:
    """Return a fraction as per cent with one decimal."""
    return show(value, scale=100, digits=1)


def shares(item: Group, *keys: str) -> str:
    """Return a fraction as per cent: mean and interval, or mean and all seeds if the interval is wider than ± 5 points.

    The scores of such seeds are rarely unimodal, and an interval then describes none of them.
    """
    value = item.estimate(*keys)
    if value.half_width is None or 100 * value.half_width <= WIDEST:
        return percent(value)
    seeds = ", ".join(f"{100 * share:.1f}" for share in item.by_seed(*keys).values())
    return f"{100 * value.mean:.1f} ({seeds})"


def plain(value: float | None, digits: int = 3) -> str:
    """Return a published number, or a dash if there is none."""
    return ABSENT if value is None else f"{value:.{digits}f}"
