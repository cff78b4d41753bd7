"""Modules over :mod:`mooring.ops`, in PyG's manner: virtual nodes, an aggregation, a convolution wrapper."""

from typing import TYPE_CHECKING

from mooring.named import late
from mooring.nn.addresses import Addresses
from mooring.nn.integrate import GlobalFiLM, Integration, ResidualAdd, SlotFiLM
from mooring.nn.memory import SlotMemory
from mooring.nn.slot_read import SlotRead
from mooring.nn.slot_update import SlotUpdate
from mooring.nn.slot_virtual_node import SlotVirtualNode
from mooring.nn.slot_write import SlotWrite
from mooring.nn.spec import MemoryOptions, MemorySpec
from mooring.nn.virtual_node import VirtualNode

if TYPE_CHECKING:
    from mooring.nn.hetero_slot_virtual_node import HeteroSlotVirtualNode
    from mooring.nn.slot_aggregation import SlotAggregation
    from mooring.nn.slot_conv import SlotConv

__all__ = [
    "Addresses",
    "GlobalFiLM",
    "HeteroSlotVirtualNode",
    "Integration",
    "MemoryOptions",
    "MemorySpec",
    "ResidualAdd",
    "SlotAggregation",
    "SlotConv",
    "SlotFiLM",
    "SlotMemory",
    "SlotRead",
    "SlotUpdate",
    "SlotVirtualNode",
    "SlotWrite",
    "VirtualNode",
]

# These are built from the others and imported on first use.
__getattr__ = late(
    __name__,
    {
        "HeteroSlotVirtualNode": "hetero_slot_virtual_node",
        "SlotAggregation": "slot_aggregation",
        "SlotConv": "slot_conv",
    },
)


def __dir__() -> list[str]:
    return __all__
