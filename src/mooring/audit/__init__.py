"""Measurements of any module: counting, addressing, invariances, limits."""

from mooring.audit.adapters import ADAPTERS, Adapter, adapt, detect_kind
from mooring.audit.card import BrokenInvariantError, Card, Finding
from mooring.audit.catalogue import cards_markdown
from mooring.audit.runner import MEASUREMENTS, audit, measure, parse_arguments, resolve

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
