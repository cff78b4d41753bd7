"""The base of every rival made of slots: our virtual node, with one of its four steps replaced."""

from __future__ import annotations

from typing import Any

from mooring.nn import SlotVirtualNode
from mooring.zoo.registry import MemorySpec


class SlotRival(SlotVirtualNode):
    """A :class:`~mooring.nn.SlotVirtualNode` built from a specification, without an anchor by default.

    A rival sets ``self.write``, ``self.update`` or ``self.read`` to its own module after this constructor; its own
    write takes over ``self.write.addresses``, which the read shares.

    Args:
        spec: see :class:`~mooring.zoo.MemorySpec`.
        options: further arguments of :class:`~mooring.nn.SlotVirtualNode`.

    >>> SlotRival(MemorySpec(channels=16, slots=4))
    SlotRival(16, slots=4, heads=4, anchored=False)
    """

    def __init__(self, spec: MemorySpec, **options: Any) -> None:
        options = {"anchored": False, "mass": spec.mass, "anchor_init": spec.anchor_init, **options}
        super().__init__(
            spec.channels,
            spec.slots,
            spec.heads,
            temperature=spec.temperature,
            address_channels=spec.address_channels,
            hidden_channels=spec.hidden_channels or spec.channels,
            init_std=spec.init_std,
            **options,
        )
