"""Slots as a PyG aggregation: a neighbourhood, or a whole graph, is a multiset too."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn.aggr import Aggregation

from mooring.nn.checks import check_build, check_width
from mooring.nn.slot_update import MassFeature, MassMap, SlotUpdate
from mooring.nn.slot_write import SlotWrite
from mooring.ops import checks


class SlotAggregation(Aggregation):
    r"""Multisets -> vectors: write each set into slots, read all slots off through one linear map.

    .. math::
        f(X) = W \, [Z_1(X), \dots, Z_M(X)]

    With anchors the read is injective on bounded multisets of colours, so a convolution that aggregates with it can
    realise a 1-WL refinement. Without them it knows proportions only.

    Paper: ``thm:wlinjective``.

    Args:
        channels: width of the elements.
        slots, heads, anchored, temperature, mass, anchor_init: as in :class:`~mooring.nn.SlotVirtualNode`.
        mass_map, content_dropout: as in :class:`~mooring.nn.SlotUpdate`; for counts that must hold beyond the training
            range, ``"linear"`` and about a half.
        out_channels: width of the result; channels if None.

    Shapes: x ``[elements, channels]``, index ``[elements]`` in any order -> ``[sets, out_channels]``.

    An empty set gives what the anchor values give; it is finite and the same for all of them.

    >>> aggr = SlotAggregation(8, slots=2)
    >>> aggr(torch.randn(5, 8), torch.tensor([0, 0, 2, 2, 2])).shape
    torch.Size([3, 8])
    """

    def __init__(
        self,
        channels: int,
        slots: int,
        heads: int = 4,
        *,
        anchored: bool = True,
        temperature: float = 1.0,
        mass: MassFeature = "softplus",
        out_channels: int | None = None,
        anchor_init: float = 0.0,
        mass_map: MassMap = "mlp",
        content_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_build("SlotAggregation", channels, slots, heads)
        self.channels = channels
        self.slots = slots
        self.heads = heads
        self.anchored = anchored
        self.write = SlotWrite(channels, slots, heads, temperature=temperature)
        self.update = SlotUpdate(
            channels,
            slots,
            heads,
            anchored=anchored,
            mass=mass,
            anchor_init=anchor_init,
            mass_map=mass_map,
            content_dropout=content_dropout,
        )
        self.lin = nn.Linear(slots * channels, out_channels or channels)

    def reset_parameters(self) -> None:
        self.write.reset_parameters()
        self.update.reset_parameters()
        self.lin.reset_parameters()

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        self.assert_two_dimensional_input(x, dim)
        checks.check_floating("SlotAggregation", x=x)
        check_width("SlotAggregation", "x", x, "channels", self.channels)
        checks.check_device("SlotAggregation", x=x, index=index, ptr=ptr)
        if index is None and ptr is not None:
            count = ptr.numel() - 1
            index = torch.repeat_interleave(torch.arange(count, device=x.device), ptr.diff(), output_size=x.size(0))
            dim_size = count if dim_size is None else dim_size
        if index is None and dim_size not in (None, 1):
            index = x.new_zeros(x.size(0), dtype=torch.long)
        dim_size = checks.check_index("SlotAggregation", "index", index, x.size(0), dim_size, "dim_size")
        state = self.write(x, index, num_graphs=dim_size)
        memory = self.update(state, self.write.slot)
        return self.lin(memory.flatten(1))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.channels}, slots={self.slots}, heads={self.heads}, anchored={self.anchored})"
        )
