"""When a projection is folded into the slots instead of applied to every node. All orders give the same numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def folds_keys(slots: int, heads: int, channels: int) -> bool:
    """Whether folding the keys' projection into the slots' queries saves arithmetic.

    Folded, a node costs ``slots * heads * channels``; projected, ``channels * channels`` and then ``slots * channels``.
    """
    return slots * (heads - 1) <= channels


def folds_values(slots: int, heads: int, channels: int, num_nodes: int, num_graphs: int) -> bool:
    """Whether to fold projections into what each graph's slots hold.

    That saves each node what :func:`folds_keys` counts, but makes ``slots * heads`` full-width rows per graph, each
    through a head's matrix. Inside a compiled graph the number of graphs is not known, and the nodes alone decide.
    """
    if not folds_keys(slots, heads, channels):
        return False
    saved_per_node, spent_per_graph = channels - slots * (heads - 1), slots * channels
    return torch.compiler.is_compiling() or num_nodes * saved_per_node >= num_graphs * spent_per_graph


def is_plain(linear: nn.Module, *, bias: bool = False) -> bool:
    """Return whether a projection is a linear map and nothing else, so that its weight can be used without a call.

    An adapter, a hook, a parametrisation, a quantised layer or weight, or a ``forward`` of an instance does something
    when it is called. (Hooks on all modules at once see only what is called.) A bias cannot be folded; ``bias=True``
    accepts one that the caller adds itself.
    """
    if type(linear) is not nn.Linear or "forward" in linear.__dict__ or (linear.bias is not None and not bias):
        return False
    if linear._forward_hooks or linear._forward_pre_hooks or linear._backward_hooks or linear._backward_pre_hooks:
        return False
    # Quantisers keep the layer and replace its weight by a tensor with custom arithmetic.
    return type(linear.weight) in (Tensor, nn.Parameter)
