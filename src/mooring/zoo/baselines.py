"""Variants of the paper's first table, further pools, and the anchored module with one option changed."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from mooring.nn import MemorySpec, SlotVirtualNode, VirtualNode
from mooring.zoo.registry import register

PAPER, GILMER, OURS = "Marcoccia 2026", "Gilmer et al. 2017", "Mooring 2026"


@register("none", title="no global module", paper=GILMER, label="No memory")
def none(spec: MemorySpec) -> None:
    return None


@register("vn", title="virtual node, mean pool, one broadcast for all nodes", paper=GILMER, label="VN")
def mean(spec: MemorySpec) -> nn.Module:
    return VirtualNode(spec.channels, "mean", joint=False)


@register("vn-joint", title="virtual node, mean pool, joint MLP of node and state", paper=GILMER, label="VN, joint MLP")
def joint(spec: MemorySpec) -> nn.Module:
    return VirtualNode(spec.channels, "mean")


@register("vn-sum", title="virtual node, sum pool as in OGB, joint MLP", paper="Hu et al. 2020", label="VN, sum")
def total(spec: MemorySpec) -> nn.Module:
    return VirtualNode(spec.channels, "sum")


@register("vn-log-sum", title="virtual node, logarithm of a sum, joint MLP", paper=OURS, label="VN, log of a sum")
def log_total(spec: MemorySpec) -> nn.Module:
    return VirtualNode(spec.channels, "log_sum")


@register("vn-max", title="virtual node, max pool, joint MLP", paper=GILMER, label="VN, max")
def maximum(spec: MemorySpec) -> nn.Module:
    return VirtualNode(spec.channels, "max")


@register("vn-clones", title="as many equal virtual nodes as slots", paper=PAPER)
def clones(spec: MemorySpec) -> nn.Module:
    return VirtualNode(spec.channels, "mean", copies=spec.slots)


@register("cross-attn", title="Cross-Attn VN", paper=PAPER, label="Cross-Attn VN")
def cross_attn(spec: MemorySpec) -> nn.Module:
    return SlotVirtualNode.from_spec(spec, anchored=False)


@register("anchored", title="Anchored Cross-Attn VN", paper=PAPER, label="Anchored Cross-Attn VN")
def anchored(spec: MemorySpec) -> nn.Module:
    return SlotVirtualNode.from_spec(spec)


@register("cross-attn-global-film", title="Cross-Attn VN, one modulation for all nodes", paper=PAPER)
def cross_attn_global_film(spec: MemorySpec) -> nn.Module:
    return SlotVirtualNode.from_spec(spec, anchored=False, integrate="global_film")


@register("anchored-global-film", title="Anchored VN, one modulation for all nodes", paper=PAPER)
def anchored_global_film(spec: MemorySpec) -> nn.Module:
    return SlotVirtualNode.from_spec(spec, integrate="global_film")


@register("anchored-raw", title="Anchored VN, mass left in the content", paper=PAPER)
def anchored_raw(spec: MemorySpec) -> nn.Module:
    return SlotVirtualNode.from_spec(spec, split=False)


@register(
    "moored",
    title="Anchored VN whose slots compete, with a linear path for counts",
    paper=OURS,
    label="Moored VN",
)
def moored(spec: MemorySpec) -> nn.Module:
    # Masses are soft counts here: with a linear map, log(1 + mass) extrapolates beyond the counts seen in training.
    integrate = "linear_film" if spec.integrate == "film" else spec.integrate
    # The unit of a soft count is one node, whose logarithm is zero for any number of nodes.
    spec = replace(spec, mass="softplus", mass_map="linear", anchor_init=0.0)
    return SlotVirtualNode.from_spec(spec, competition=True, integrate=integrate)
