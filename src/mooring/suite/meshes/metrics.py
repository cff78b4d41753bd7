"""The error of a predicted solution, as the field reports it."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

# The size of a solution that is taken for zero.
SMALLEST = 1e-10


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
