"""A claim of the paper in executable form: a check, and controls on which the same check must fail."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from torch import Generator, Tensor

S = TypeVar("S")


@dataclass(frozen=True)
class Series:
    """Lines over one shared axis, the form of every figure of the project.

    Each line is a label and one value per position of ``x``; None leaves a gap. ``log`` names the logarithmic axes.
    """

    title: str
    x: Sequence[float]
    lines: Sequence[tuple[str, Sequence[float | None]]]
    xlabel: str
    ylabel: str
    log: Literal["", "x", "y", "xy"] = ""

    def __post_init__(self) -> None:
        for label, y in self.lines:
            if len(y) != len(self.x):
                raise ValueError(
                    f"Series {self.title!r}: line {label!r} has {len(y)} values but x has {len(self.x)}. "
                    "Pass one value per position, None for a gap."
                )

    def to_record(self) -> dict[str, Any]:
        """Return JSON-serialisable fields; non-finite values become gaps (None)."""
        return {
            "title": self.title,
            "x": [float(value) for value in self.x],
            "lines": [{"label": label, "y": [_finite(value) for value in y]} for label, y in self.lines],
            "xlabel": self.xlabel,
            "ylabel": self.ylabel,
            "log": self.log,
        }


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Evidence:
    """The measurement of one run of a check: the verdict, the distance to the bound, and the worst case in one line."""

    passed: bool
    margin: float
    instances: int
    note: str = ""
    series: tuple[Series, ...] = ()


def judge_integers(cases: Iterable[tuple[int, Tensor, str]], note: str) -> Evidence:
    """Return the evidence of all cases, or of those up to the first with a fault.

    A case is a number of graphs, the numbers decoded from them, which should be integers, and a fault or "". ``note``
    may have a place for the largest distance from an integer.
    """
    examined, furthest = 0, 0.0
    for num_graphs, numbers, fault in cases:
        examined += num_graphs
        furthest = max(furthest, float((numbers - numbers.round()).abs().max()))
        if fault:
            return Evidence(False, 0.5 - furthest, examined, fault)
    return Evidence(True, 0.5 - furthest, examined, note.format(furthest))


@dataclass(frozen=True)
class Claim(Generic[S]):
    """A labelled statement of the paper, its check, a subject that must pass and controls that must fail.

    The same check runs on the subject, which satisfies the premises, and on each control, which does not (a premise
    removed or a wrong implementation). This exposes a check that cannot fail. A check of several conditions has one
    control per condition; each control satisfies all other conditions.

    Args:
        label: the paper's label, with a dotted suffix if one statement needs several checks.
        statement: the claim in one line.
        check: ``(subject, instances, generator) -> Evidence``; all randomness comes from the generator.
        subject: an object that satisfies the premises.
        controls: objects that the check must reject, keyed by their fault.
        margin_means: the quantity that the margin measures.
        instances: the number of random instances, or the size of the enumeration.
        least: minimum number of instances for the check to be meaningful.
    """

    label: str
    statement: str
    check: Callable[[S, int, Generator], Evidence]
    subject: S
    controls: Mapping[str, S]
    margin_means: str
    instances: int
    least: int = 1

    def run(self, seed: int = 0, instances: int | None = None) -> ClaimResult:
        """Check the subject, then every control, each from the same fresh generator."""
        count = self.instances if instances is None else instances
        if count < self.least:
            raise ValueError(
                f"{self.label}: instances must be at least {self.least}, got {count}. Pass more instances."
            )
        start = time.perf_counter()
        evidence = self.check(self.subject, count, self.generator(seed))
        refuted = [self.check(control, count, self.generator(seed)) for control in self.controls.values()]
        return ClaimResult(
            label=self.label,
            statement=self.statement,
            instances=evidence.instances,
            margin=evidence.margin,
            margin_means=self.margin_means,
            passed=evidence.passed,
            note=evidence.note,
            control="; ".join(self.controls),
            control_failed=not any(evidence.passed for evidence in refuted),
            control_note="; ".join(evidence.note for evidence in refuted),
            control_margin=refuted[0].margin,
            seconds=time.perf_counter() - start,
            series=evidence.series,
        )

    def generator(self, seed: int) -> Generator:
        """Return a generator seeded by ``seed`` and the label alone, so that claims may run in any order."""
        return Generator().manual_seed(zlib.crc32(f"{seed}/{self.label}".encode()))


def claim(
    label: str,
    statement: str,
    *,
    subject: S,
    controls: Mapping[str, S],
    margin_means: str,
    instances: int,
    least: int = 1,
) -> Callable[[Callable[[S, int, Generator], Evidence]], Claim[S]]:
    """Return a decorator that turns a check into a :class:`Claim`."""
    return lambda check: Claim(label, statement, check, subject, controls, margin_means, instances, least)


@dataclass(frozen=True)
class ClaimResult:
    """The outcome of one claim: the measurement on the subject, and whether every control was rejected."""

    label: str
    statement: str
    instances: int
    margin: float
    margin_means: str
    passed: bool
    note: str
    control: str
    control_failed: bool
    control_note: str
    control_margin: float
    seconds: float
    series: tuple[Series, ...] = field(default=(), repr=False)

    @property
    def ok(self) -> bool:
        """Whether the claim held and every control was rejected."""
        return self.passed and self.control_failed

    def to_record(self) -> dict[str, Any]:
        """Return JSON-serialisable fields; a non-finite margin becomes None."""
        margins = {"margin": _finite(self.margin), "control_margin": _finite(self.control_margin)}
        return {**vars(self), **margins, "series": [series.to_record() for series in self.series]}
