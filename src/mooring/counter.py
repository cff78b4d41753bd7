"""Counts the work of a call, so that cost is measured without a clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

import mooring.ops  # noqa: F401  (its operators' formulas)

EXPONENTIALS = ("exp", "exp_", "softmax", "_softmax")


class OperationCounter(TorchDispatchMode):
    """Adds up the work of every operation that runs inside the block.

    torch's own ``FlopCounterMode`` knows our operators by formula (:mod:`mooring.ops.flops`) and counts products alone;
    this one steps into their kernels and counts everything.

    Attributes:
        operations: arithmetic operations. Matrix products and fused attention count their multiplications and
            additions, by torch's own formulas; every other operation counts the elements it reads or writes, whichever
            is more.
        multiply_adds: multiply-adds of matrix products and fused attention alone.
        pairs: exponentials, one per node-slot or node-node pair of an attention that is not fused.

    >>> left, right = torch.ones(3, 5), torch.ones(5, 7)
    >>> with OperationCounter() as counter:
    ...     _ = left @ right
    >>> counter.multiply_adds, counter.operations
    (105, 210)
    """

    #: Back ends are chosen so that every product is PyTorch's own.
    counts_products = True

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.multiply_adds = 0
        self.pairs = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "mooring":
            with self:
                return func.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), *args, **kwargs)
        with self:
            parts = func.decompose(*args, **kwargs)  # inside our own kernels, matmul and the like arrive whole
        if parts is not NotImplemented:
            return parts
        out = func(*args, **kwargs)
        packet = func.overloadpacket
        formula = flop_registry.get(packet)
        sparse = [one for one in _tensors(args) if one.layout != torch.strided]
        if formula is not None and sparse:
            self._count_products(2 * sum(one._nnz() for one in sparse) * out.size(-1))
        elif formula is not None:
            self._count_products(int(formula(*args, **kwargs, out_val=out)))
        elif "scaled_dot_product" in func.name():
            self._count_products(_attention(args[0], args[1], args[2]))
        elif not func.is_view:
            self.operations += max(_elements((args, kwargs)), _elements(out))
        if packet.__name__ in EXPONENTIALS:
            self.pairs += out.numel()
        return out

    def _count_products(self, operations: int) -> None:
        self.operations += operations
        self.multiply_adds += operations // 2


def _attention(query: Tensor, key: Tensor, value: Tensor) -> int:
    """Count the fused attentions that torch's table leaves out, such as the one for the CPU."""
    return 2 * query.numel() * key.size(-2) + 2 * query.numel() // query.size(-1) * key.size(-2) * value.size(-1)


def _elements(values: Any) -> int:
    return sum(tensor.numel() if tensor.layout == torch.strided else tensor._nnz() for tensor in _tensors(values))


def _tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from _tensors(value)
    elif isinstance(values, dict):
        yield from _tensors(list(values.values()))
