"""One claim of the paper as something that can be run: a check, and controls on which the same check must fail."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import torch

S = TypeVar("S")


@dataclass(frozen=True)
class Series:
    """Lines over one shared axis: the form every figure of the project is drawn from.

    Args:
        title: heading of the figure.
        x: positions shared by every line.
        lines: label and values of each line; None leaves a gap.
        xlabel: name of the horizontal axis.
        ylabel: name of the vertical axis.
        log: which axes are logarithmic.

    Example:
        >>> Series("squares", (1, 2), (("y", (1.0, 4.0)),), "x", "y").to_record()["lines"]
        [{'label': 'y', 'y': [1.0, 4.0]}]
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
                    "Give one value per position, None for a gap."
                )

    def to_record(self) -> dict[str, Any]:
        """JSON-ready fields; values that are not finite become gaps."""
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
    """What one run of a check measured.

    Args:
        passed: whether the claim held on every instance.
        margin: the measured distance to the bound; the claim's ``margin_means`` says what it means.
        instances: how many instances were examined.
        note: one line: the worst case, or the pair that was found.
        series: curves worth drawing.
    """

    passed: bool
    margin: float
    instances: int
    note: str = ""
    series: tuple[Series, ...] = ()


@dataclass(frozen=True)
class Claim(Generic[S]):
    """A labelled statement, its check, and what the check is run on.

    ``check`` receives ``subject``, which satisfies the premises, and then ``control``, which does not (a premise
    removed or a wrong implementation). It is the same function both times, which exposes a check that cannot fail.
    A check of several conditions has one control per condition, which meets all the other conditions.

    Args:
        label: the paper's label, with a dotted part where one statement needs several checks.
        statement: the claim in one line.
        check: ``(subject, instances, generator) -> Evidence``; everything random comes from the generator.
        subject: what the claim is about.
        control: what the check must reject.
        control_means: what is wrong with the control.
        margin_means: what the margin measures.
        instances: the number of random instances, or the size of the enumeration.
        more_controls: further things the check must reject, by what is wrong with each.
        least: the fewest instances with which the check examines anything and the controls are told.
    """

    label: str
    statement: str
    check: Callable[[S, int, torch.Generator], Evidence]
    subject: S
    control: S
    control_means: str
    margin_means: str
    instances: int
    more_controls: Mapping[str, S] = field(default_factory=dict)
    least: int = 1

    @property
    def controls(self) -> dict[str, S]:
        """Everything the check must reject, by what is wrong with it."""
        return {self.control_means: self.control, **self.more_controls}

    def run(self, seed: int = 0, instances: int | None = None) -> ClaimResult:
        """Check the subject, then every control, each from the same fresh generator."""
        asked = self.instances if instances is None else instances
        if asked < self.least:
            raise ValueError(
                f"{self.label}: instances={asked}, but fewer than {self.least} prove nothing. Pass instances >= "
                f"{self.least}."
            )
        start = time.perf_counter()
        evidence = self.check(self.subject, asked, self.generator(seed))
        refuted = [self.check(control, asked, self.generator(seed)) for control in self.controls.values()]
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

    def generator(self, seed: int) -> torch.Generator:
        """A generator that is a pure function of the seed and the label, so claims may run alone or in any order."""
        return torch.Generator().manual_seed(zlib.crc32(f"{seed}/{self.label}".encode()))


@dataclass(frozen=True)
class ClaimResult:
    """The outcome of one claim: what was measured on the subject, and whether every control was rejected."""

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
        """JSON-ready fields; a margin that is not finite becomes null."""
        record = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "series"}
        for name in ("margin", "control_margin"):
            if not math.isfinite(record[name]):
                record[name] = None
        return {**record, "series": [series.to_record() for series in self.series]}
