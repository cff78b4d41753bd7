"""Global memory for graph neural networks: virtual nodes that can be addressed and that can count.

>>> import mooring
>>> mooring.SlotVirtualNode(64, slots=8)
SlotVirtualNode(64, slots=8, heads=4, anchored=True)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mooring.resolver import register as _register

if TYPE_CHECKING:
    from mooring import audit, models, nn, ops, theory, zoo
    from mooring.look import look
    from mooring.nn import HeteroSlotVirtualNode, SlotAggregation, SlotConv, SlotVirtualNode, VirtualNode
    from mooring.ops.checks import checks

__version__ = "0.1.0"

__all__ = [
    "HeteroSlotVirtualNode",
    "SlotAggregation",
    "SlotConv",
    "SlotVirtualNode",
    "VirtualNode",
    "audit",
    "checks",
    "look",
    "models",
    "nn",
    "ops",
    "theory",
    "zoo",
]

_HOMES = {
    "HeteroSlotVirtualNode": "mooring.nn",
    "SlotAggregation": "mooring.nn",
    "SlotConv": "mooring.nn",
    "SlotVirtualNode": "mooring.nn",
    "VirtualNode": "mooring.nn",
    "checks": "mooring.ops.checks",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, and nothing before: torch_geometric takes seconds to load."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in __all__:
        return importlib.import_module(f"mooring.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


_register()
