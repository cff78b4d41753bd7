"""Variants of the paper's first table, further pools, and the anchored module with one option changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from mooring.nn import MemorySpec, SlotVirtualNode, VirtualNode
from mooring.zoo.registry import register

PAPER, GILMER, OURS = "Marcoccia 2026", "Gilmer et al. 2017", "Mooring 2026"


def virtual_node(name: str, title: str, paper: str, label: str, pool: Any, **options: bool) -> None:
    """Register a homogeneous virtual node."""
    register(name, title=f"virtual node, {title}", paper=paper, label=label)(
        lambda spec: VirtualNode(spec.channels, pool, **options)
    )


def slots(name: str, title: str, label: str | None = None, **changes: Any) -> None:
    """Register the paper's module with some arguments changed."""
    register(name, title=title, paper=PAPER, label=label)(lambda spec: SlotVirtualNode.from_spec(spec, **changes))


register("none", title="no global module", paper=GILMER, label="No memory")(lambda spec: None)
virtual_node("vn", "mean pool, one broadcast for all nodes", GILMER, "VN", "mean", joint=False)
virtual_node("vn-joint", "mean pool, joint MLP of node and state", GILMER, "VN, joint MLP", "mean")
virtual_node("vn-sum", "sum pool as in OGB, joint MLP", "Hu et al. 2020", "VN, sum", "sum")
virtual_node("vn-log-sum", "logarithm of a sum, joint MLP", OURS, "VN, log of a sum", "log_sum")
virtual_node("vn-max", "max pool, joint MLP", GILMER, "VN, max", "max")
register("vn-clones", title="as many equal virtual nodes as slots", paper=PAPER)(
    lambda spec: VirtualNode(spec.channels, "mean", copies=spec.slots)
)
slots("cross-attn", "Cross-Attn VN", "Cross-Attn VN", anchored=False)
slots("anchored", "Anchored Cross-Attn VN", "Anchored Cross-Attn VN")
slots("cross-attn-global-film", "Cross-Attn VN, one modulation for all nodes", anchored=False, integrate="global_film")
slots("anchored-global-film", "Anchored VN, one modulation for all nodes", integrate="global_film")
slots("anchored-raw", "Anchored VN, mass left in the content", split=False)


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
