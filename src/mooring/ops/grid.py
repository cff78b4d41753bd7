"""A ragged batch as one padded block."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from mooring.ops.state import untransformed

if TYPE_CHECKING:
    from mooring.ops.plan import Plan


class Grid(NamedTuple):
    """A batch as ``[graphs, largest]``, short graphs padded.

    Args:
        graphs, length: its shape.
        places: the place of each node; None for one graph, which is its own grid.
        constants: what the padding holds, made once for each dtype.
    """

    graphs: int
    length: int
    places: Tensor | None
    constants: dict[tuple[str, torch.dtype], Tensor]

    @classmethod
    def of(cls, plan: Plan) -> Grid:
        if plan.batch is None:
            return cls(1, plan.num_nodes, None, {})
        rank = torch.arange(plan.num_nodes, device=plan.device)
        if plan.order is not None:
            rank = torch.empty_like(rank).index_copy_(0, plan.order, rank)
        skipped = torch.arange(plan.num_graphs, device=plan.device) * plan.largest - plan.offsets[:-1]
        return cls(plan.num_graphs, plan.largest, rank + skipped.index_select(0, plan.batch), {})

    def fill(self, tensor: Tensor, value: float = 0.0) -> Tensor:
        """``[nodes, ...]`` -> ``[graphs, largest, ...]`` with ``value`` in the padding."""
        if self.places is None:
            return tensor.unsqueeze(0)
        # Unlike a gather, which scatters sums in its backward, a copy has a gather for its backward.
        name, dtype, device = str(value), tensor.dtype, tensor.device
        if (name, dtype) not in self.constants:
            # Outside torch.func and tracing: the plan outlives them.
            self.constants[name, dtype] = untransformed(lambda: torch.full((), value, dtype=dtype, device=device))
        # An expanded number is copied once; a full tensor would be written and then copied.
        blank = self.constants[name, dtype].expand(self.graphs * self.length, *tensor.shape[1:])
        return blank.index_copy(0, self.places, tensor).unflatten(0, (self.graphs, self.length))

    def pick(self, blocks: Tensor) -> Tensor:
        """``[graphs, largest, ...]`` -> ``[nodes, ...]``."""
        return blocks.squeeze(0) if self.places is None else blocks.flatten(0, 1).index_select(0, self.places)

    def absent(self, like: Tensor) -> Tensor:
        """``[graphs * largest, 1]``, zero in the place of a node and ``-inf`` in the padding."""
        if self.places is None:
            return like.new_zeros(1)
        dtype, device = like.dtype, like.device
        if ("absent", dtype) not in self.constants:
            places, rows = self.places, self.graphs * self.length
            self.constants["absent", dtype] = untransformed(
                lambda: torch.full((rows, 1), float("-inf"), dtype=dtype, device=device).index_fill_(0, places, 0.0)
            )
        return self.constants["absent", dtype]
