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

from collections.abc import Callable
from typing import Literal, Protocol, cast, get_args

import torch
from torch import Tensor

from mooring.ops import plain, tiles
from mooring.ops.checks import Switch
from mooring.ops.plain import is_transformed
from mooring.ops.plan import Plan
from mooring.ops.state import in_forward_mode

Backend = Literal["tiles", "plain", "triton"]

TRITON_DEVICES = ("cuda",)
# Head width, or width of folded features, that the Triton kernels take.
WIDEST = 256

# Where plain calls beat tiles on a CPU. One thread, 8 slots, width 64, forward and backward, tiles -> plain in ms:
#   molecules (9 to 25 nodes)  32 of them 6.5 -> 5.3, 64: 9.4 -> 7.3, 256: 29 -> 26, 512: 55 -> 50, 2,048: 224 -> 231
#   128 graphs of 150 nodes 58 -> 63, 8 of 2,000: 42 -> 47, one of 2,000: 7.5 -> 8.3, 128 of skewed sizes 65 -> 1,112
SMALL_GRAPH, SMALL_BATCH = 64, 16_384
# Slot-FiLM alone, 1,000 nodes 1.8 -> 1.4, 8,900: 13 -> 10; at width 128 and 20,000 nodes 54 -> 74.
SMALL_FILM = 1 << 20


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
            raise ValueError(f"use_backend: got {name!r} but 'tiles', 'plain', 'triton' or None was expected.")
        super().__init__(name)


def current_backend() -> Backend | None:
    """The back end asked for by :class:`use_backend`; None where it is chosen."""
    return cast("Backend | None", use_backend.value)


class Code(Protocol):
    """What a back end is: the two ops and the scores in folded shapes, see :mod:`mooring.ops.plain`."""

    write: Callable[..., tuple[Tensor, Tensor]]
    read: Callable[..., Tensor]
    scores: Callable[..., Tensor]


def of(plan: Plan, *tensors: Tensor | None) -> Code:
    """The code for these inputs."""
    name = choose(*tensors, small=lambda: _is_small(plan))
    if name == "triton":
        from mooring.ops import triton  # imports Triton

        return cast(Code, triton)
    return cast(Code, plain if name == "plain" else tiles)


def choose(*tensors: Tensor | None, small: Callable[[], bool]) -> Backend:
    """The back end for these inputs; ``small`` says whether a CPU does better without tiles."""
    forced = current_backend()
    if forced is not None:
        # A traced op would drop tangents without a word; the same code untraced refuses them by itself.
        if forced != "plain" and torch.compiler.is_compiling() and in_forward_mode():
            raise NotImplementedError(
                f"use_backend: {forced!r} has no derivatives in forward mode. Use 'plain', or None to let it choose."
            )
        return forced
    given = [tensor for tensor in tensors if tensor is not None]
    if torch.compiler.is_exporting() or any(is_transformed(tensor) for tensor in given):
        return "plain"
    device = given[0].device.type
    if device in TRITON_DEVICES and _suits_triton(given) and _triton_works(given[0].device, given[0].dtype):
        return "triton"
    if device != "cpu":
        return "plain"
    # Under autocast PyTorch's own backward would form products of half precision.
    traced = torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu")
    return "plain" if not traced and small() else "tiles"


def _is_small(plan: Plan) -> bool:
    if plan.batch is None or not 0 < plan.num_nodes <= SMALL_BATCH:
        return False
    return plan.num_graphs <= plan.num_nodes and plan.largest <= SMALL_GRAPH and plain.is_padded(plan)


@torch.compiler.assume_constant_result
def _triton_works(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether the kernels are right on the device; a traced graph is told while it is traced."""
    from mooring.ops.triton.proof import works

    return works(device, dtype)


def _suits_triton(tensors: list[Tensor]) -> bool:
    """Float64 has no kernel; beyond this width registers spill."""
    return all(tensor.dtype != torch.float64 and tensor.size(-1) <= WIDEST for tensor in tensors)
