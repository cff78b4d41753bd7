"""Which code computes an op: the one place where that is decided.

- ``"tiles"`` (:mod:`mooring.ops.tiles`): no padding to the largest graph, memory that does not grow with the nodes, and
  a backward of its own. The default on a CPU.
- ``"plain"`` (:mod:`mooring.ops.plain`): a few PyTorch calls. Taken where the data cannot be looked at (export, fake or
  meta tensors), where PyTorch's own derivatives are wanted (forward mode, ``torch.func``), and on other devices.
- ``"triton"`` (:mod:`mooring.ops.triton`): one launch per step over graphs of any sizes, on a GPU.

All of them are compared with :mod:`mooring.ops.reference` on values and gradients.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import Literal, Protocol, cast, get_args

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from mooring.ops import plain, tiles

Backend = Literal["tiles", "plain", "triton"]

# Head width, or width of folded features, that the Triton kernels take.
WIDEST = 256

_forced: Backend | None = None


class use_backend:
    """Compute every op with one back end: from here on, or inside a ``with`` block. None chooses by device and shape.

    >>> with use_backend("plain"):
    ...     current_backend()
    'plain'
    >>> current_backend() is None
    True
    """

    def __init__(self, name: Backend | None) -> None:
        global _forced
        if name is not None and name not in get_args(Backend):
            raise ValueError(f"use_backend: got {name!r} but 'tiles', 'plain', 'triton' or None was expected.")
        self._before = _forced
        _forced = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        global _forced
        _forced = self._before


def current_backend() -> Backend | None:
    """The back end asked for by :class:`use_backend`; None where it is chosen."""
    return _forced


class Code(Protocol):
    """What a back end is: the two ops in folded shapes, see :mod:`mooring.ops.plain`."""

    write: Callable[..., tuple[Tensor, Tensor]]
    read: Callable[..., Tensor]


def of(*tensors: Tensor | None) -> Code:
    """The code for these inputs."""
    name = choose(*tensors)
    if name == "triton":
        return cast(Code, importlib.import_module("mooring.ops.triton"))
    return cast(Code, plain if name == "plain" else tiles)


def choose(*tensors: Tensor | None) -> Backend:
    """The back end for these inputs."""
    if _forced is not None:
        return _forced
    given = [tensor for tensor in tensors if tensor is not None]
    if torch.compiler.is_exporting() or any(_is_transformed(tensor) for tensor in given):
        return "plain"
    device = given[0].device.type
    if device == "cuda" and not torch.compiler.is_compiling() and _has_triton() and _suits_triton(given):
        return "triton"
    return "tiles" if device == "cpu" else "plain"


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def _suits_triton(tensors: list[Tensor]) -> bool:
    """Float64 has no kernel; beyond this width registers spill."""
    return all(tensor.dtype != torch.float64 and tensor.size(-1) <= WIDEST for tensor in tensors)


def _is_transformed(tensor: Tensor) -> bool:
    """Whether PyTorch must see every step: no data behind the tensor, or a derivative that our backward has not."""
    if torch.compiler.is_compiling():
        return False
    if type(tensor) not in (Tensor, nn.Parameter) or tensor.is_meta or torch._C._are_functorch_transforms_active():
        return True
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None
