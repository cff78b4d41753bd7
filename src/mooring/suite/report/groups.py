"""Runs that differ only in their seed, gathered into one row of a table or one line of a figure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.suite.report import paper
from mooring.suite.report.records import Record
from mooring.suite.report.stats import Estimate, estimate

# A setting that is a whole object would fill the row it is to name.
LONGEST = 80


@dataclass(frozen=True)
class Group:
    """The seeds of one model under one configuration; `variant` says how it differs from the usual one, if it does."""

    model: str
    variant: str
    runs: tuple[Record, ...]

    @property
    def title(self) -> str:
        return self._with_variant(paper.title(self.model))

    @property
    def short(self) -> str:
        return self._with_variant(paper.short(self.model))

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

    def _with_variant(self, name: str) -> str:
        return f"{name} ({self.variant})" if self.variant else name

    def has(self, *keys: str) -> bool:
        """Whether every run of the group carries the field."""
        return all(run.find(*keys) is not None for run in self.runs)


def group(runs: Iterable[Record], apart: Sequence[str] = ()) -> list[Group]:
    """Groups in the paper's order; within a model the configuration most runs share comes first and has no variant.

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
    return sorted(found, key=lambda item: (paper.rank(item.model), item.variant))


def usual_only(groups: Iterable[Group]) -> list[Group]:
    """The groups a figure draws: one per model, the usual configuration, or the first where it was never run."""
    chosen: dict[str, Group] = {}
    for item in groups:
        chosen.setdefault(item.model, item)
    return list(chosen.values())


def _names(runs: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in run.mapping("config")))


def _most_common(configs: Sequence[Mapping[str, Any]], name: str) -> Any:
    counts = Counter(json.dumps(config.get(name), sort_keys=True) for config in configs)
    return json.loads(counts.most_common(1)[0][0])


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
