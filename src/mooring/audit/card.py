"""Results of an audit of one module: findings, and the card that contains them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch_geometric

from mooring.table import Column, Table


@dataclass(frozen=True)
class Finding:
    """One measured property of a module.

    Args:
        name: the measurement, e.g. ``"replication"``.
        verdict: the answer in a few words, e.g. ``"blind: f(rX) = f(X)"``.
        value: the number behind the verdict, defined by ``explanation``.
        worst_case: description of the instance with the worst value.
        trials: number of instances.
        explanation: the measured quantity and its tolerance.
        broken: whether the module breaks an invariant that every module should keep; a limit is not broken.
        details: further JSON-serialisable numbers: singular values, errors by dtype, operation counts.
    """

    name: str
    verdict: str
    value: float | None
    worst_case: str
    trials: int
    explanation: str
    broken: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ")

    def to_record(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict; non-finite numbers become null."""
        return {name: _plain(value) for name, value in vars(self).items()}


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, or its type if the message is empty."""
    return (str(error) or type(error).__name__).splitlines()[0]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


class BrokenInvariantError(AssertionError):
    """Error of a module that breaks an invariant that every module should keep."""


@dataclass(frozen=True)
class Card:
    """All measurements of one module, called as ``kind``, on inputs of ``channels`` features drawn with ``seed``.

    ``versions`` are of the libraries that the module ran on; later versions may fix a fault.
    """

    module: str
    kind: str
    channels: int
    findings: tuple[Finding, ...]
    seed: int = 0
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(
        default_factory=lambda: {"torch": str(torch.__version__), "torch_geometric": str(torch_geometric.__version__)}
    )

    def __getitem__(self, name: str) -> Finding:
        findings = {finding.name: finding for finding in self.findings}
        if name not in findings:
            raise KeyError(f"card of {self.module}: no finding {name!r}; it has {', '.join(findings)}.")
        return findings[name]

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings that break an invariant."""
        return tuple(finding for finding in self.findings if finding.broken)

    @property
    def counts(self) -> bool:
        """Whether the number of nodes can be recovered from the output."""
        return bool(self["replication"].details.get("counts", False))

    @property
    def messages(self) -> int:
        """Number of different messages that different nodes can receive; 0 if not measured."""
        return int(self["addressability"].value or 0)

    def raise_for_broken(self) -> None:
        """Raise :class:`BrokenInvariantError` if any invariant is broken, naming all of them."""
        if self.broken:
            lines = "".join(f"\n  {f.name}: {f.verdict} (worst: {f.worst_case}; {f.explanation})" for f in self.broken)
            raise BrokenInvariantError(
                f"{self.module} breaks {len(self.broken)} of {len(self.findings)} invariants:{lines}"
            )

    def to_record(self) -> dict[str, Any]:
        """Return the card as a JSON-serialisable dict."""
        return {
            "schema": 1,
            "kind": "audit",
            "module": self.module,
            "called_as": self.kind,
            "channels": self.channels,
            "seed": self.seed,
            "notes": list(self.notes),
            "versions": dict(self.versions),
            "broken": [finding.name for finding in self.broken],
            "findings": [finding.to_record() for finding in self.findings],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Card:
        """Rebuild a card from :meth:`to_record`."""
        if record.get("kind") != "audit" or record.get("schema") != 1:
            raise ValueError(
                f"audit: expected a record of kind 'audit', schema 1; got kind {record.get('kind')!r}, schema "
                f"{record.get('schema')!r}. Write it again with this version."
            )
        return cls(
            module=record["module"],
            kind=record["called_as"],
            channels=record["channels"],
            findings=tuple(Finding(**finding) for finding in record["findings"]),
            seed=record["seed"],
            notes=tuple(record["notes"]),
            versions=record["versions"],
        )

    def to_table(self) -> Table:
        """Return the findings as a table, with broken invariants marked."""
        rows = tuple(
            (finding.title, finding.verdict, "" if finding.value is None else f"{finding.value:.3g}")
            for finding in self.findings
        )
        broken = ", ".join(finding.name for finding in self.broken)
        return Table(
            name=self.module,
            title=f"{self.module} · {self.kind.replace('_', ' ')} · {self.channels} channels",
            columns=(Column("finding", left=True), Column("verdict", left=True, wide=True), Column("value")),
            rows=rows,
            notes=(*self.notes, f"broken: {broken}" if broken else "no broken invariant"),
            alarms=frozenset((place, 1) for place, finding in enumerate(self.findings) if finding.broken),
        )

    def render(self, width: int = 110) -> str:
        """Return the card as plain text for a terminal of ``width`` columns."""
        return self.to_table().to_text(width)
