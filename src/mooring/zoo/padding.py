"""Rows of a ragged batch as a padded block, for foreign code that needs one."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch_geometric.utils import to_dense_batch

from mooring.zoo.base import Rows


class Padding:
    """Where each row stands in a block ``[graphs, longest, ...]``; ``longest`` is at least one.

    PyG's ``to_dense_batch`` needs sorted graphs; ours come in any order.

    Args:
        rows: the rows to be laid out.
    """

    def __init__(self, rows: Rows) -> None:
        self.order = rows.index.argsort(stable=True)
        self.index = rows.index.index_select(0, self.order)
        self.num_graphs = rows.num_graphs
        counts = torch.bincount(self.index, minlength=rows.num_graphs)
        self.longest = max(1, int(counts.max())) if rows.num_graphs else 1
        self.present: Bool[Tensor, "graphs longest"] = torch.arange(
            self.longest, device=counts.device
        ) < counts.unsqueeze(1)

    def pad(self, values: Float[Tensor, "rows ..."], fill: float = 0.0) -> Float[Tensor, "graphs longest ..."]:
        ordered = values.index_select(0, self.order)
        block: Tensor = to_dense_batch(
            ordered, self.index, fill_value=fill, max_num_nodes=self.longest, batch_size=self.num_graphs
        )[0]
        return block

    def unpad(self, block: Float[Tensor, "graphs longest ..."]) -> Float[Tensor, "rows ..."]:
        """The rows of a block, back in their own order."""
        return block[self.present].index_select(0, self.order.argsort())

    def present_or_stand_in(self) -> Bool[Tensor, "graphs longest"]:
        """``present``, with one row of zeros standing in where a graph has no rows, so that no softmax is empty."""
        stand_in = torch.zeros_like(self.present)
        stand_in[:, 0] = ~self.present.any(dim=1)
        return self.present | stand_in
