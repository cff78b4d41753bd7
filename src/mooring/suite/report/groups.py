"""Runs that differ only in their seed, gathered into one row of a table or one line of a figure, and their names."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.suite.records import Record, Records
from mooring.suite.report.stats import Estimate, estimate

# A setting that is a whole object would fill the row it is to name.
LONGEST = 80
LARGEST_COUNT = 10**9
_NEEDED = object()

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
class Group:
    """The seeds of one model under one configuration; `variant` says how it differs from the usual one, if it does."""

    model: str
    variant: str
    runs: tuple[Record, ...]

    @property
    def title(self) -> str:
        return self._with_variant(title(self.model, self.first))

    @property
    def short(self) -> str:
        return self._with_variant(short(self.model, self.first))

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    @property
    def first(self) -> Record:
        return self.runs[0]

    def by_seed(self, *keys: str) -> dict[int, float]:
        return {run.seed: run.number(*keys) for run in self.runs}

    def estimate(self, *keys: str) -> Estimate:
        """Mean and interval of one field over the seeds."""
        return estimate([run.number(*keys) for run in self.runs])

    def has(self, *keys: str) -> bool:
        """Whether every run of the group carries the field."""
        return all(run.find(*keys) is not None for run in self.runs)

    def _with_variant(self, name: str) -> str:
        return f"{name} ({self.variant})" if self.variant else name


def group(runs: Iterable[Record], apart: Sequence[str] = ()) -> list[Group]:
    """Groups in the order their runs carry, or the paper's; the configuration most runs share has no variant.

    Args:
        runs: run records of one task and preset.
        apart: configuration fields that a figure puts on an axis: they part groups but are not named in the variant.
    """
    runs = list(runs)
    usual = {name: _most_common([run.mapping("config") for run in runs], name) for name in _names(runs)}
    parts: dict[tuple[str, str], list[Record]] = {}
    for run in runs:
        parts.setdefault((run.model, json.dumps(run.mapping("config"), sort_keys=True)), []).append(run)
    found = []
    for (model, _), members in parts.items():
        config = members[0].mapping("config")
        changed = [name for name in usual if name not in apart and config.get(name) != usual[name]]
        variant = ", ".join(f"{name.replace('_', ' ')} {_short(config.get(name))}" for name in changed)
        found.append(Group(model, variant, tuple(sorted(members, key=lambda run: run.seed))))
    if all(item.first.find("order") is not None for item in found):
        return sorted(found, key=lambda item: (item.first.whole("order"), item.model, item.variant))
    return sorted(found, key=lambda item: (rank(item.model), item.variant))


def usual_groups(records: Records, task: str, preset: str) -> list[Group]:
    """What a figure draws: one group per model, the usual configuration, or the first where it was never run."""
    chosen: dict[str, Group] = {}
    for item in group(records.runs(task, preset)):
        chosen.setdefault(item.model, item)
    return list(chosen.values())


def interval(groups: Sequence[Group]) -> str:
    """What the ± of a table means, where some row has more than one seed."""
    return ", mean ± 95 % interval over seeds" if any(len(item.runs) > 1 for item in groups) else ""


def title(model: str, run: Record | None = None) -> str:
    """A model's name in a table: the one its run carries, or a known one; A+B is a backbone and a memory.

    >>> title("mpnn"), title("gcn+vn"), title("my-own")
    ('MPNN', 'GCN+VN', 'my-own')
    """
    if run is not None and run.find("title") is not None:
        return run.name("title")
    local, plus, memory = model.partition("+")
    return f"{title(local)}+{short(memory)}" if plus else KNOWN.get(model, model)


def short(model: str, run: Record | None = None) -> str:
    """A model's name, short enough to stand beside a line.

    >>> short("anchored"), short("cross-attn"), short("gcn+anchored")
    ('Anchored', 'Cross-Attn', 'GCN+Anchored')
    """
    full = title(model, run)
    return full.replace(" Cross-Attn VN", "").replace("Cross-Attn VN", "Cross-Attn").removesuffix(" pool")


def rank(model: str) -> tuple[int, int, int, str]:
    """A sort key that puts models in the order of the paper's tables, and A+B behind B alone."""
    known = list(KNOWN)
    places = [known.index(part) if part in known else len(known) for part in model.split("+")]
    return (places[-1], len(places), places[0], model)


def setting(run: Record, name: str, default: Any = _NEEDED) -> Any:
    """A field of the run's configuration, at its top or in one of its parts (`config.task.num_identifiers`)."""
    config = run.mapping("config")
    for part in (config, *(value for value in config.values() if isinstance(value, Mapping))):
        if part.get(name) is not None:
            return part[name]
    if default is _NEEDED:
        raise run.error(f"field 'config.{name}' is missing.")
    return default


def whole_setting(run: Record, name: str, default: Any = _NEEDED) -> int:
    """A setting that is a number of things: whole, at least one and not beyond what fits on an axis."""
    return whole(run, name, setting(run, name, default))


def whole(run: Record, name: str, value: Any) -> int:
    """The value of a setting if it is a number of things; RecordError if not."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST_COUNT:
        raise run.error(f"field 'config.{name}' is {value!r:.80}, expected a whole number from 1 to {LARGEST_COUNT:,}.")
    return value


def _names(runs: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in run.mapping("config")))


def _most_common(configs: Sequence[Mapping[str, Any]], name: str) -> Any:
    counts = Counter(json.dumps(config.get(name), sort_keys=True) for config in configs)
    return json.loads(counts.most_common(1)[0][0])


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
