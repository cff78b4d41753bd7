"""Rival global modules behind one interface: the ``forward`` of :class:`mooring.nn.SlotVirtualNode`."""

# Importing a file registers its modules; the order here is the order of ``names()``.
# isort: off
from mooring.zoo import baselines as _baselines  # noqa: F401
from mooring.zoo import independent as _independent  # noqa: F401
from mooring.zoo import wide as _wide  # noqa: F401
from mooring.zoo import lse as _lse  # noqa: F401
from mooring.zoo import shared_anchor as _shared_anchor  # noqa: F401
from mooring.zoo import registers as _registers  # noqa: F401
from mooring.zoo import sum_attention as _sum_attention  # noqa: F401
from mooring.zoo import slot_softmax as _slot_softmax  # noqa: F401
from mooring.zoo import slot_attention as _slot_attention  # noqa: F401
from mooring.zoo import isab as _isab  # noqa: F401
from mooring.zoo import perceiver as _perceiver  # noqa: F401
from mooring.zoo import relay as _relay  # noqa: F401
from mooring.zoo import dense_attention as _dense_attention  # noqa: F401
from mooring.zoo import exphormer as _exphormer  # noqa: F401
from mooring.zoo import readouts as _readouts  # noqa: F401
from mooring.zoo import gin as _gin  # noqa: F401

# isort: on
from mooring.nn import MemoryOptions, MemorySpec
from mooring.zoo.base import GlobalModule, Rows, SlotRival
from mooring.zoo.matched import count, filled, matched, size
from mooring.zoo.registry import Entry, build, entry, names, register, takes_spec

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
    "matched",
    "names",
    "register",
    "size",
    "takes_spec",
]
