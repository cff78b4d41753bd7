"""What one measurement found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One measured property of a module.

    Args:
        name: The measurement, e.g. ``"replication"``.
        verdict: The answer in a few words, e.g. ``"blind: f(rX) = f(X)"``.
        value: The number behind the verdict; its meaning is the measurement's own and is said in ``explanation``.
        worst_case: The instance on which the worst value was found, in words.
        trials: How many instances were tried.
        explanation: What was measured and against which tolerance.
        broken: Whether an invariant that every module should keep does not hold. A limit, such as being blind to
            copies, is not broken.
        details: Further numbers, JSON-able: singular values, errors by dtype, operation counts.
    """

    name: str
    verdict: str
    value: float | None
    worst_case: str
    trials: int
    explanation: str
    broken: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        """Return the finding as JSON-able values; numbers that JSON has no name for become null."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "value": _plain(self.value),
            "worst_case": self.worst_case,
            "trials": self.trials,
            "explanation": self.explanation,
            "broken": self.broken,
            "details": _plain(dict(self.details)),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Finding:
        """Rebuild a finding from :meth:`to_record`."""
        return cls(**record)


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, or its type where it has none."""
    return (str(error) or type(error).__name__).splitlines()[0]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
