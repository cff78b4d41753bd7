"""When a projection is folded into the slots instead of applied to every node. All orders give the same numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


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


def is_plain(*projections: nn.Module, bias: bool = False) -> bool:
    """Whether these are linear maps and nothing else: only their weights matter, and they need not be called.

    An adapter, a hook of its own, a parametrisation, a quantised layer or weight, or a ``forward`` of an instance does
    something when it is called, so it must be. (Hooks on all modules at once see only what is called.) A bias cannot be
    folded either; ``bias`` says that the caller knows what to do with it.
    """
    return all(_is_plain(one) and (bias or one.bias is None) for one in projections)


def _is_plain(one: nn.Module) -> bool:
    hooked = any(getattr(one, name) for name in _HOOKS)
    if type(one) is not nn.Linear or hooked or "forward" in one.__dict__:
        return False
    # Quantisers keep the layer and put a tensor with arithmetic of its own in the place of its weight.
    return type(one.weight) in (Tensor, nn.Parameter)
