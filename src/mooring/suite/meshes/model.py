"""A graph neural network that predicts the solution at the nodes of meshes, and the error of its prediction."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mooring.models import GNN
from mooring.ops import Plan

# The size of a solution that is taken for zero.
SMALLEST = 1e-10


class MeshNet(GNN):
    """Meshes -> one number per node: :class:`~mooring.models.GNN` that scales its input and output itself.

    Args:
        features: number of node features, the first two of them the position.
        channels, layers, options: as in :class:`~mooring.models.GNN`.
        waves: show every node the sines and cosines of its position in this many octaves; 0 shows none.

    Shapes: x ``[nodes, features]``, edge_attr ``[edges, 3]`` -> ``[nodes]``.
    """

    mean: Tensor
    deviation: Tensor
    unit: Tensor

    def __init__(self, features: int, channels: int, layers: int, *, waves: int = 0, **options: Any) -> None:
        position = 4 * waves if waves else None
        super().__init__(features, channels, 1, layers, edge_encoder=3, position=position, readout=None, **options)
        self.waves = waves
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("deviation", torch.ones(features))
        self.register_buffer("unit", torch.ones(()))

    @torch.no_grad()
    def set_scale(self, mean: Any, deviation: Any, unit: Any) -> None:
        """Set the means and deviations of the features, and the unit of the solution."""
        for buffer, value in ((self.mean, mean), (self.deviation, deviation), (self.unit, unit)):
            buffer.copy_(torch.as_tensor(value))

    def fit_scale(self, x: Float[Tensor, "nodes features"], y: Float[Tensor, " nodes"]) -> None:
        """Set the scale to that of training data."""
        deviation = x.std(dim=0)
        # A column that never changes, such as a body force that is zero everywhere, stays as it is.
        deviation = torch.where(deviation > 1e-6, deviation, 1.0)
        self.set_scale(x.mean(dim=0), deviation, y.square().mean().sqrt().clamp(min=1e-6))

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        edge_attr: Tensor | None = None,
        batch: Tensor | Plan | None = None,
        **options: Any,
    ) -> Any:
        """As in :class:`~mooring.models.GNN`, without ``pe``."""
        if x.size(-1) != len(self.mean):
            raise ValueError(
                f"{type(self).__name__}: x has {x.size(-1)} features but {len(self.mean)} were expected. A mesh of "
                "another physics has more or fewer. Pass one of the physics that the network was built for."
            )
        if self.waves:
            options["pe"] = octaves(x[:, :2], self.waves)
        out: Any = super().forward((x - self.mean) / self.deviation, edge_index, edge_attr, batch, **options)
        if isinstance(out, tuple):
            out, state = out
            return out.squeeze(1) * self.unit, state
        return out.squeeze(1) * self.unit


def octaves(position: Float[Tensor, "nodes 2"], waves: int) -> Float[Tensor, "nodes width"]:
    """Return sines and cosines of both coordinates, each wave half as long as the one before it."""
    scale = math.pi * 2.0 ** torch.arange(waves, dtype=position.dtype, device=position.device)
    phase = (position.unsqueeze(-1) * scale).flatten(1)
    return torch.cat([phase.sin(), phase.cos()], dim=1)


def relative_errors(
    prediction: Float[Tensor, " nodes"],
    solution: Float[Tensor, " nodes"],
    batch: Int[Tensor, " nodes"],
    num_meshes: int,
) -> Float[Tensor, " meshes"]:
    r"""Return the relative :math:`L_2` error of each mesh, :math:`\lVert \hat u - u \rVert / \lVert u \rVert`.

    >>> relative_errors(torch.tensor([3.0, 4.5]), torch.tensor([3.0, 4.0]), torch.tensor([0, 0]), 1)
    tensor([0.1000])
    """
    parts = torch.stack([(prediction - solution).square(), solution.square()], dim=1)
    off, size = parts.new_zeros(num_meshes, 2).index_add(0, batch, parts).unbind(1)
    # The slope of a root at zero is infinite; where the solution is zero everywhere, so is the error of a zero.
    return off.clamp(min=torch.finfo(off.dtype).tiny).sqrt() / size.sqrt().clamp(min=SMALLEST)
