"""New tensors on another device, with the random numbers of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _DrawnOnCPU(TorchFunctionMode):
    """A mode that draws random numbers on the CPU, so that they are the same on every device."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("generator") is None or "device" in kwargs:
            return func(*args, **kwargs)
        return func(*args, **kwargs, device="cpu").to(self.device)


@contextmanager
def placed(device: str) -> Iterator[None]:
    """Create new tensors on the device inside the block."""
    with torch.device(device), _DrawnOnCPU(device):
        yield
