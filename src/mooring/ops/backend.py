"""Which code computes an op: the one place where that is decided.

- ``"tiles"`` (:mod:`mooring.ops.tiles`): no padding to the largest graph, memory that does not grow with the nodes, and
  a backward of its own. For large or uneven batches on a CPU.
- ``"plain"`` (:mod:`mooring.ops.plain`): a few PyTorch calls. For batches of small graphs on a CPU; where the data
  cannot be inspected (export, fake or meta tensors) or PyTorch's own derivatives are wanted (forward mode,
  ``torch.func``); and on other devices.
- ``"triton"`` (:mod:`mooring.ops.triton`): one launch per step over graphs of any sizes, on a GPU where the kernels
  pass a check on first use (:mod:`mooring.ops.triton.proof`). ``use_backend("triton")`` skips the check.

All of them are compared with :mod:`mooring.ops.reference` on values and gradients.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, Protocol, cast, get_args, runtime_checkable

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.flop_counter import _FlopCounterMode

from mooring.ops import plain, tiles
from mooring.ops.checks import Switch
from mooring.ops.plain import needs_pytorch
from mooring.ops.plan import Plan
from mooring.ops.state import in_forward_mode

Backend = Literal["tiles", "plain", "native", "triton"]

TRITON_DEVICES = ("cuda",)
# Head width, or width of folded features, that the Triton kernels take.
WIDEST = 256

# Numbers up to which Slot-FiLM is computed plainly on a CPU. Forward and backward in ms, tiles -> plain: 250 nodes, 64
# wide, 0.57 -> 0.50; 1,026 nodes 1.03 -> 1.19; 4,000 nodes 3.3 -> 4.8; 8,386 nodes, 128 wide, 19.8 -> 25.5.
SMALL_FILM = 1 << 15


class use_backend(Switch):
    """Compute every op with one back end: from here on, or inside a ``with`` block. None chooses by device and shape.

    >>> with use_backend("plain"):
    ...     current_backend()
    'plain'
    >>> current_backend() is None
    True
    """

    def __init__(self, name: Backend | None) -> None:
        if name is not None and name not in get_args(Backend):
            raise ValueError(
                f"use_backend: got {name!r} but 'tiles', 'plain', 'native', 'triton' or None was expected."
            )
        if name == "native" and native_code() is None:
            raise ValueError(
                "use_backend: 'native' needs mooring-native. Run pip install --no-build-isolation ./native."
            )
        super().__init__(name)


def current_backend() -> Backend | None:
    """The back end asked for by :class:`use_backend`; None where it is chosen."""
    return cast("Backend | None", use_backend.value)


class Code(Protocol):
    """What a back end is: the two ops and the scores in folded shapes, see :mod:`mooring.ops.plain`."""

    write: Callable[..., tuple[Tensor, Tensor]]
    read: Callable[..., Tensor]
    scores: Callable[..., Tensor]


@runtime_checkable
class ScoredCode(Protocol):
    """Two ops of scores that were computed before, see :mod:`mooring.ops.plain`."""

    write_scored: Callable[..., tuple[Tensor, Tensor]]
    read_scored: Callable[..., Tensor]


def of(plan: Plan, *tensors: Tensor | None) -> Code:
    """The code for these inputs."""
    name = choose(*tensors, small=lambda: plain.is_small(plan))
    if name == "triton":
        from mooring.ops import triton  # imports Triton

        return cast(Code, triton)
    if name == "native":
        return cast(Code, native_code())
    return cast(Code, plain if name == "plain" else tiles)


def for_scores(plan: Plan, rows: int, *tensors: Tensor) -> ScoredCode | None:
    """Return the code for a write and a read of the same scores; None if each had better compute its own."""
    name = choose(*tensors, small=lambda: plain.is_small(plan))
    if name == "native":
        native: Any = native_code()
        takes = native.suits(tensors) and native.keeps_scores(plan.num_nodes, rows)
        return cast(ScoredCode, native) if takes else None
    return cast(ScoredCode, plain) if name == "plain" and plan.is_concrete else None


def choose(*tensors: Tensor | None, small: Callable[[], bool]) -> Backend:
    """The back end for these inputs; ``small`` says whether a CPU does better without tiles."""
    forced = cast("Backend | None", use_backend.value)
    if forced is not None:
        # A traced op would drop tangents without a word; the same code untraced refuses them by itself.
        if forced != "plain" and torch.compiler.is_compiling() and in_forward_mode():
            raise NotImplementedError(
                f"use_backend: {forced!r} has no derivatives in forward mode. Use 'plain', or None to let it choose."
            )
        return "tiles" if forced == "native" and torch.compiler.is_compiling() else forced
    given = [tensor for tensor in tensors if tensor is not None]
    if torch.compiler.is_exporting() or any(needs_pytorch(tensor) for tensor in given):
        return "plain"
    device = given[0].device.type
    if device in TRITON_DEVICES and _suits_triton(given) and _triton_works(given[0].device, given[0].dtype):
        return "triton"
    if device != "cpu":
        return "plain"
    # Under autocast PyTorch's own backward would form products of half precision.
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return "tiles"
    if not _are_products_counted() and (native := native_code()) is not None and native.suits(given):
        return "native"
    return "plain" if small() else "tiles"


def _are_products_counted() -> bool:
    """Return whether a mode is active that counts products, and must see PyTorch's own."""
    if not torch._C._len_torch_dispatch_stack():
        return False
    modes = _get_current_dispatch_mode_stack()
    return any(getattr(mode, "counts_products", isinstance(mode, _FlopCounterMode)) for mode in modes)


@cache
def native_code() -> Any:
    """Return :mod:`mooring.ops.native` if its operators are installed and can be loaded; None otherwise."""
    if importlib.util.find_spec("mooring_native") is None:
        return None
    native = importlib.import_module("mooring.ops.native")
    return native if native.can_be_loaded() else None


@torch.compiler.assume_constant_result
def _triton_works(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether the kernels are right on the device; a traced graph is told while it is traced."""
    from mooring.ops.triton.proof import works

    return works(device, dtype)


def _suits_triton(tensors: list[Tensor]) -> bool:
    """Float64 has no kernel; beyond this width registers spill."""
    return all(tensor.dtype != torch.float64 and tensor.size(-1) <= WIDEST for tensor in tensors)
