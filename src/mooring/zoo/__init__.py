"""Every rival global module behind one interface: the ``forward`` of :class:`mooring.nn.SlotVirtualNode`."""

from mooring.zoo import baselines as _baselines  # noqa: F401  registers its modules
from mooring.zoo.registry import Entry, MemorySpec, build, entry, names, register

__all__ = ["Entry", "MemorySpec", "build", "entry", "names", "register"]
