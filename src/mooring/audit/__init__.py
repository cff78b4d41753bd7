"""Measures any module: does it count, can it be addressed, is it invariant."""

from mooring.audit.adapters import ADAPTERS, Adapter, adapt, detect_kind
from mooring.audit.card import BrokenInvariantError, Card
from mooring.audit.finding import Finding
from mooring.audit.markdown import cards_markdown
from mooring.audit.measurements import MEASUREMENTS
from mooring.audit.resolve import parse_arguments, resolve
from mooring.audit.runner import audit, measure

__all__ = [
    "ADAPTERS",
    "MEASUREMENTS",
    "Adapter",
    "BrokenInvariantError",
    "Card",
    "Finding",
    "adapt",
    "audit",
    "cards_markdown",
    "detect_kind",
    "measure",
    "parse_arguments",
    "resolve",
]
