"""Rival global modules behind one interface: the ``forward`` of :class:`mooring.nn.SlotVirtualNode`."""

from typing import TYPE_CHECKING

from mooring.named import late
from mooring.nn import MemoryOptions, MemorySpec
from mooring.zoo.registry import Entry, build, entry, names, register, takes_spec

if TYPE_CHECKING:
    from mooring.zoo.base import GlobalModule, Rows, SlotRival
    from mooring.zoo.budget import count, filled, fitting, matched, size

__all__ = [
    "Entry",
    "GlobalModule",
    "MemoryOptions",
    "MemorySpec",
    "Rows",
    "SlotRival",
    "build",
    "count",
    "entry",
    "filled",
    "fitting",
    "matched",
    "names",
    "register",
    "size",
    "takes_spec",
]

# Loaded on first use: most runs need one module of the zoo, not the shared base or the budgets.
__getattr__ = late(
    __name__,
    {
        **dict.fromkeys(("GlobalModule", "Rows", "SlotRival"), "base"),
        **dict.fromkeys(("count", "filled", "fitting", "matched", "size"), "budget"),
    },
)
