"""The precision of the measurements, and when two numbers are called equal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

# Orders of magnitude above rounding, and orders below the smallest effect seen in a broken module.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Create tensors in ``dtype`` inside the block.

    Some modules call ``torch.ones(...)`` in their forward pass and so mix the default precision into their input's.
    Half precisions are left out: tensors made by factory functions stay in float32, as they do for a user.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype if dtype in TOLERANCE else torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def relative_difference(a: Tensor, b: Tensor) -> float:
    """Return the largest absolute difference over the largest magnitude of ``b``; infinite where NaN is involved."""
    if a.shape != b.shape:
        return float("inf")
    if a.numel() == 0:
        return 0.0
    difference = float((a - b).abs().max())
    scale = max(float(b.abs().max()), 1e-30)
    return difference / scale if difference == difference else float("inf")
