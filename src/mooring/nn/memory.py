"""The memory of one forward pass, the features of graphs added to it, and method calls under FSDP."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mooring.nn.checks import check_like_nodes, check_width_or_none
from mooring.ops import SlotState, checks


class SlotMemory(NamedTuple):
    """Memory of one forward pass; entries that a module does not have are None.

    Args:
        state: the two statistics of the write, ``[graphs, slots, heads, dim]`` and ``[graphs, slots, heads]``.
        slots: the slots as the nodes read them, ``[graphs, slots, channels]``.
        anchor_weight: the private anchors' share of the softmax, ``[graphs, slots, heads]``.
        write_weights: attention of slots to nodes, ``[nodes, slots, heads]``; zero for nodes that do not write.
        read_weights: attention of nodes to slots, ``[nodes, slots, heads]``; zero for nodes that do not read.
    """

    state: SlotState
    slots: Tensor
    anchor_weight: Tensor | None = None
    write_weights: Tensor | None = None
    read_weights: Tensor | None = None

    def __repr__(self) -> str:
        """Describe the memory by its sizes, not by its values."""
        graphs, slots, channels = self.slots.shape
        return f"{type(self).__name__}({graphs} graphs, {slots} slots, {channels} channels)"

    def of_graphs(self, spread: Callable[[Tensor], Tensor]) -> SlotMemory:
        """Apply ``spread`` to every tensor that has one row per graph."""
        anchor = None if self.anchor_weight is None else spread(self.anchor_weight)
        state = SlotState(*map(spread, self.state))
        return self._replace(state=state, slots=spread(self.slots), anchor_weight=anchor)


def carried_slots(who: str, memory: SlotMemory | None, size: tuple[int, int, int], x: Tensor) -> Tensor | None:
    """Check the memory of an earlier layer and return its slots; None without one.

    Args:
        size: graphs, slots and channels of this layer.
        x: node features of this layer.
    """
    if memory is None:
        return None
    if not isinstance(memory, SlotMemory):
        raise TypeError(
            f"{who}: memory is {checks.described(memory)} but a SlotMemory was expected. Pass the memory that "
            "return_state=True returns."
        )
    check_like_nodes(who, "memory.slots", memory.slots, x)
    # Under tracing the number of graphs is symbolic; assert equality instead of comparing.
    tracing = torch.compiler.is_compiling()
    if tracing:
        torch._check(memory.slots.size(0) == size[0])
    if tuple(memory.slots.shape)[1:] != size[1:] or (not tracing and memory.slots.size(0) != size[0]):
        raise ValueError(
            f"{who}: memory has slots of shape {tuple(memory.slots.shape)} but [graphs, slots, channels] = "
            f"{list(size)} was expected. Carry the memory of the same batch between layers of one size."
        )
    return memory.slots


def refuse_memory(who: str, memory: object) -> None:
    """Raise if ``memory`` is passed to a module that cannot continue from a previous layer."""
    if memory is not None:
        raise ValueError(
            f"{who}: got a memory but takes no memory of the layer before. Leave memory out, or use a SlotVirtualNode."
        )


# They contain tensors only, so torch.load may build them with weights_only=True.
torch.serialization.add_safe_globals([SlotMemory, SlotState])


class GraphFeatures(nn.Module):
    r"""Slots and graph features -> slots, each shifted by a separate linear map of the features.

    .. math::
        Z_m \leftarrow Z_m + W_m g

    Like the mass, the shift is added after the norms of :class:`~mooring.nn.SlotUpdate`, so that they cannot erase the
    size of a feature. The state of the write does not depend on it, so merges stay exact. Zero features change nothing.

    Args:
        graph_channels: width of the features.
        slots, channels: of the memory.

    Shapes: slots ``[graphs, slots, channels]``, graph_features ``[graphs, graph_channels]`` -> ``[graphs, slots,
    channels]``.

    >>> GraphFeatures(2, slots=4, channels=8)(torch.randn(3, 4, 8), torch.randn(3, 2)).shape
    torch.Size([3, 4, 8])
    """

    def __init__(self, graph_channels: int, slots: int, channels: int) -> None:
        super().__init__()
        self.shape = (slots, channels)
        self.lin = nn.Linear(graph_channels, slots * channels, bias=False)

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()

    def forward(
        self, slots: Float[Tensor, "graphs slots channels"], graph_features: Float[Tensor, "graphs graph_channels"]
    ) -> Float[Tensor, "graphs slots channels"]:
        return slots + self.lin(graph_features).unflatten(1, self.shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lin.in_features})"


def build_graph_features(who: str, graph_channels: int | None, slots: int, channels: int) -> GraphFeatures | None:
    """Build :class:`GraphFeatures`; None without ``graph_channels``."""
    check_width_or_none(who, "graph_channels", graph_channels, 1)
    return None if graph_channels is None else GraphFeatures(graph_channels, slots, channels)


def is_sharded(module: nn.Module) -> bool:
    """Return whether the parameters are whole only during a call of the module, because FSDP shards it."""
    fsdp = None if torch.compiler.is_compiling() else sys.modules.get("torch.distributed.fsdp")
    return isinstance(module, getattr(fsdp, "FSDPModule", ()))


def call_gathered(module: nn.Module, method: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method; FSDP then gathers the parameters for it as it does for ``forward``."""
    if is_sharded(module) and method not in vars(module):
        sys.modules["torch.distributed.fsdp"].register_fsdp_forward_method(module, method)
    return getattr(module, method)(*args, **kwargs)
