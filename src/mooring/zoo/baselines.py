"""The variants of the paper's first table, the other pools, and our own module with one option changed."""

from __future__ import annotations

from torch import nn

from mooring.nn import SlotVirtualNode, VirtualNode
from mooring.zoo.registry import MemorySpec, register
from mooring.zoo.slots import SlotRival

PAPER = "Marcoccia 2026"


@register("none", title="no global module", paper="Gilmer et al. 2017")
def none(spec: MemorySpec) -> None:
    return None


@register("vn", title="virtual node, mean pool, one broadcast for all nodes", paper="Gilmer et al. 2017")
def mean(spec: MemorySpec) -> nn.Module:
    return VirtualNode(spec.channels, "mean", joint=False)


@register("vn-joint", title="virtual node, mean pool, joint MLP of node and state", paper="Gilmer et al. 2017")
def joint(spec: MemorySpec) -> nn.Module:
    return VirtualNode(spec.channels, "mean")


@register("vn-sum", title="virtual node, sum pool as in OGB, joint MLP", paper="Hu et al. 2020")
def total(spec: MemorySpec) -> nn.Module:
    return VirtualNode(spec.channels, "sum")


@register("vn-max", title="virtual node, max pool, joint MLP", paper="Gilmer et al. 2017")
def maximum(spec: MemorySpec) -> nn.Module:
    return VirtualNode(spec.channels, "max")


@register("vn-clones", title="as many equal virtual nodes as slots", paper=PAPER)
def clones(spec: MemorySpec) -> nn.Module:
    return VirtualNode(spec.channels, "mean", copies=spec.slots)


def slots(spec: MemorySpec, *, anchored: bool) -> SlotVirtualNode:
    """Our module built from a specification, anchored or not."""
    return SlotVirtualNode(
        spec.channels,
        spec.slots,
        spec.heads,
        anchored=anchored,
        temperature=spec.temperature,
        address_channels=spec.address_channels,
        mass=spec.mass,
        anchor_init=spec.anchor_init,
        hidden_channels=spec.hidden_channels or spec.channels,
        init_std=spec.init_std,
    )


@register("cross-attn", title="Cross-Attn VN", paper=PAPER)
def cross_attn(spec: MemorySpec) -> nn.Module:
    return slots(spec, anchored=False)


@register("anchored", title="Anchored Cross-Attn VN", paper=PAPER)
def anchored(spec: MemorySpec) -> nn.Module:
    return slots(spec, anchored=True)


@register("cross-attn-global-film", title="Cross-Attn VN, one modulation for all nodes", paper=PAPER)
def cross_attn_global_film(spec: MemorySpec) -> nn.Module:
    return SlotRival(spec, integrate="global_film")


@register("anchored-global-film", title="Anchored VN, one modulation for all nodes", paper=PAPER)
def anchored_global_film(spec: MemorySpec) -> nn.Module:
    return SlotRival(spec, anchored=True, integrate="global_film")


@register("anchored-raw", title="Anchored VN, mass left in the content", paper=PAPER)
def anchored_raw(spec: MemorySpec) -> nn.Module:
    return SlotRival(spec, anchored=True, split=False)
