"""The choice of the back end that computes an op.

- ``"tiles"`` (:mod:`mooring.ops.tiles`): no padding to the largest graph, memory that does not grow with the nodes, and
  a custom backward. For large or uneven batches on a CPU.
- ``"plain"`` (:mod:`mooring.ops.plain`): a few PyTorch calls. For batches of small graphs on a CPU; if the data
  cannot be inspected (export, fake or meta tensors) or autograd must see every step (forward mode, ``torch.func``); and
  on other devices.
- ``"native"`` (:mod:`mooring.ops.native`): C++ operators in float32 on a CPU, if ``mooring-native`` is installed.
- ``"triton"`` (:mod:`mooring.ops.triton`): one launch per step over graphs of any sizes, on a GPU on which the kernels
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
# Largest head width, or width of folded features, of the Triton kernels.
WIDEST = 256

# Largest nodes * channels for which Slot-FiLM uses plain on a CPU. Forward and backward in ms, tiles -> plain: 250
# nodes, 64 wide, 0.57 -> 0.50; 1,026 nodes 1.03 -> 1.19; 4,000 nodes 3.3 -> 4.8; 8,386 nodes, 128 wide, 19.8 -> 25.5.
SMALL_FILM = 1 << 15


class use_backend(Switch):
    """Compute every op with one back end: from here on, or inside a ``with`` block. None: chosen by device and shape.

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
        if name == "native" and load_native() is None:
            raise ValueError(
                "use_backend: 'native' needs mooring-native. Run pip install --no-build-isolation ./native."
            )
        super().__init__(name)


def current_backend() -> Backend | None:
    """Return the back end set by :class:`use_backend`; None if it is chosen by device and shape."""
    return cast("Backend | None", use_backend.value)


class BackendOps(Protocol):
    """Interface of a back end: the two ops and the scores in folded shapes, see :mod:`mooring.ops.plain`."""

    write: Callable[..., tuple[Tensor, Tensor]]
    read: Callable[..., Tensor]
    scores: Callable[..., Tensor]


@runtime_checkable
class ScoredOps(Protocol):
    """Interface of a back end that accepts precomputed scores, see :mod:`mooring.ops.plain`."""

    write_scored: Callable[..., tuple[Tensor, Tensor]]
    read_scored: Callable[..., Tensor]


def select(plan: Plan, *tensors: Tensor | None) -> BackendOps:
    """Pick the back end for these inputs."""
    name = choose(*tensors, small=lambda: plain.is_small(plan))
    if name == "triton":
        from mooring.ops import triton  # imports Triton

        return cast(BackendOps, triton)
    if name == "native":
        return cast(BackendOps, load_native())
    return cast(BackendOps, plain if name == "plain" else tiles)


def select_for_scores(plan: Plan, rows: int, *tensors: Tensor) -> ScoredOps | None:
    """Pick the back end for a write and a read that share scores; None if separate scores are faster."""
    name = choose(*tensors, small=lambda: plain.is_small(plan))
    if name == "native":
        native: Any = load_native()
        shares = native.suits(tensors) and native.keeps_scores(plan.num_nodes, rows)
        return cast(ScoredOps, native) if shares else None
    return cast(ScoredOps, plain) if name == "plain" and plan.is_concrete else None


def choose(*tensors: Tensor | None, small: Callable[[], bool]) -> Backend:
    """Return the name of the back end for these inputs; ``small()``: whether plain is faster than tiles on a CPU."""
    forced = cast("Backend | None", use_backend.value)
    if forced is not None:
        # A traced custom op would silently drop tangents; eager code raises.
        if forced != "plain" and torch.compiler.is_compiling() and in_forward_mode():
            raise NotImplementedError(
                f"use_backend: {forced!r} has no derivatives in forward mode. Use 'plain', or None to let it choose."
            )
        return "tiles" if forced == "native" and torch.compiler.is_compiling() else forced
    inputs = [tensor for tensor in tensors if tensor is not None]
    if torch.compiler.is_exporting() or any(needs_pytorch(tensor) for tensor in inputs):
        return "plain"
    device = inputs[0].device.type
    if device in TRITON_DEVICES and _suits_triton(inputs) and _triton_works(inputs[0].device, inputs[0].dtype):
        return "triton"
    if device != "cpu":
        return "plain"
    # Under autocast PyTorch's own backward would compute matrix products in half precision.
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return "tiles"
    if not _are_products_counted() and (native := load_native()) is not None and native.suits(inputs):
        return "native"
    return "plain" if small() else "tiles"


def _are_products_counted() -> bool:
    """Return whether an active dispatch mode counts products, and so must see PyTorch operators."""
    if not torch._C._len_torch_dispatch_stack():
        return False
    modes = _get_current_dispatch_mode_stack()
    return any(getattr(mode, "counts_products", isinstance(mode, _FlopCounterMode)) for mode in modes)


@cache
def load_native() -> Any:
    """Return :mod:`mooring.ops.native` if its operators are installed and can be loaded; None otherwise."""
    if importlib.util.find_spec("mooring_native") is None:
        return None
    native = importlib.import_module("mooring.ops.native")
    return native if native.can_be_loaded() else None


@torch.compiler.assume_constant_result
def _triton_works(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether the kernels passed their check on the device; a constant under tracing."""
    from mooring.ops.triton.proof import works

    return works(device, dtype)


def _suits_triton(tensors: list[Tensor]) -> bool:
    """Return whether the kernels support the inputs: no float64; wider inputs would spill registers."""
    return all(tensor.dtype != torch.float64 and tensor.size(-1) <= WIDEST for tensor in tensors)
