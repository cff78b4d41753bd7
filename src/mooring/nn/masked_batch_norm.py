"""Batch norm over the rows that a mask selects, for slots and for addresses."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mooring.ops.state import statistics_dtype


class MaskedBatchNorm(nn.Module):
    """Rows -> rows: every entry of a row standardised over the selected rows of a batch.

    In training the statistics are those of the selected rows. In evaluation, and if there are fewer than two selected
    rows, they are running statistics. ``torch.optim.swa_utils.update_bn`` and the conversion to ``SyncBatchNorm`` look
    for torch's own classes and skip this one.

    Args:
        shape: shape of a row.
        affine: multiply each entry by a learned weight and add a learned bias.

    Shapes: u ``[rows, *shape]``, selected ``[rows]``, None for all rows -> ``[rows, *shape]``.

    >>> MaskedBatchNorm(3)(torch.randn(5, 3), torch.tensor([True, True, False, True, True])).shape
    torch.Size([5, 3])
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, *shape: int, affine: bool = True, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.shape, self.momentum, self.eps = shape, momentum, eps
        self.weight = nn.Parameter(torch.empty(shape)) if affine else None
        self.bias = nn.Parameter(torch.empty(shape)) if affine else None
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("variance", torch.ones(shape))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None and self.bias is not None:
            nn.init.ones_(self.weight)
            nn.init.zeros_(self.bias)
        self.mean.zero_()
        self.variance.fill_(1.0)

    def forward(self, u: Float[Tensor, "rows *shape"], selected: Bool[Tensor, " rows"] | None = None) -> Tensor:
        # In half precision eps is zero, and so is the square of a small deviation.
        wide = u.to(statistics_dtype(torch.promote_types(u.dtype, self.mean.dtype)))
        mean, variance = self.mean.to(wide.dtype), self.variance.to(wide.dtype)
        if self.training:
            mean, variance = self._of_batch(wide, selected)
        standard = (wide - mean) * (variance + self.eps).rsqrt()
        if self.weight is not None and self.bias is not None:
            standard = standard * self.weight + self.bias
        return standard.to(u.dtype)

    def _of_batch(self, u: Tensor, selected: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the selected rows, and update the running statistics."""
        if selected is None:
            selected = u.new_ones(u.size(0), dtype=torch.bool)
        share = selected.to(u.dtype).view(-1, *[1] * (u.dim() - 1))
        count = share.sum()
        mean = (u * share).sum(dim=0) / count.clamp(min=1)
        variance = ((u - mean).square() * share).sum(dim=0) / count.clamp(min=1)
        enough = count > 1
        with torch.no_grad():
            step = self.momentum * enough.to(u.dtype)  # zero if there is no variance to learn from
            unbiased = variance * count / (count - 1).clamp(min=1)
            for running, value in ((self.mean, mean), (self.variance, unbiased)):
                running.copy_(running.to(u.dtype).lerp(value, step))
        return torch.where(enough, mean, self.mean), torch.where(enough, variance, self.variance)

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.shape)) + ("" if self.weight is not None else ", affine=False")
