"""New tensors on another device, with the random numbers of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _DrawnOnCPU(TorchFunctionMode):
    """A generator of the CPU draws there, so that every device gets the same numbers."""

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
    """Inside the block new tensors are made on the device."""
    with torch.device(device), _DrawnOnCPU(device):
        yield
