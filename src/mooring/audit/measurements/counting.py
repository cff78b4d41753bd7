"""Counts the work of a forward pass, so that cost is measured without a clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class OperationCounter(TorchDispatchMode):
    """Adds up, over every operation that runs inside the block, its arithmetic.

    Matrix products and fused attention count their multiplications and additions, from torch's own table; every other
    operation counts the elements it reads or writes, whichever is more.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func.overloadpacket)
        if formula is not None:
            self.operations += int(formula(*args, **(kwargs or {}), out_val=out))
        elif "scaled_dot_product" in func.name():
            self.operations += _attention(args[0], args[1], args[2])
        elif not func.is_view:
            self.operations += max(_elements((args, kwargs or {})), _elements(out))
        return out


def _attention(query: Tensor, key: Tensor, value: Tensor) -> int:
    """Count the fused attentions that torch's table leaves out, such as the one for the CPU."""
    return 2 * query.numel() * key.size(-2) + 2 * query.numel() // query.size(-1) * key.size(-2) * value.size(-1)


def _elements(values: Any) -> int:
    return sum(tensor.numel() for tensor in _tensors(values))


def _tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from _tensors(value)
    elif isinstance(values, dict):
        yield from _tensors(list(values.values()))
