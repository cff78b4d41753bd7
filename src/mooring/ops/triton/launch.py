"""What all launchers share: block sizes from shapes alone, precision, checks, and the one place that starts a kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mooring.ops.checks import check_device, short
from mooring.ops.triton import language

# Nodes and rows (slots, or slots of several heads) in one tile; fewer where they are wide.
NODES = 64
ROWS = 64
# Numbers in one tile: what 128 threads can hold a few of.
TILE = 4096
# Nodes in one chunk. Small enough to occupy a GPU, large enough that partial states cost little.
CHUNKS = (128, 1024)
# Programs that share the sum of a write's query gradients; each leaves one partial sum.
PROGRAMS = 256
# The widest head, or features when projections are absorbed.
WIDEST = 256
# Partial states that the merging kernels load at once.
COUNT = 16

HALVES = (torch.float16, torch.bfloat16)


def run(kernel: Any, grid: tuple[int, ...], *, num_warps: int, **arguments: Any) -> None:
    """Start one kernel: the only launch of ours."""
    kernel[grid](**arguments, num_warps=num_warps)


def padded(width: int) -> int:
    """The next power of two, at least the 16 that a matrix product of tiles needs."""
    return max(16, 1 << (width - 1).bit_length())


def node_block(dim: int, width: int) -> int:
    return max(16, min(NODES, TILE // padded(max(dim, width))))


def row_block(rows: int, dim: int, width: int) -> int:
    return min(padded(rows), max(16, min(ROWS, 2 * TILE // padded(max(dim, width)))))


def chunk_size(num_nodes: int) -> int:
    """A power of two that leaves about a thousand chunks of a large batch."""
    smallest, largest = CHUNKS
    return min(max(1 << (num_nodes // 1024).bit_length(), smallest), largest)


def num_chunks(num_nodes: int, num_graphs: int, chunk: int) -> int:
    """Programs that cover every batch of this many nodes and graphs, and the nodes left out; see ``chunks.py``."""
    return num_nodes // chunk + num_graphs + 1


def warps(dim: int, width: int) -> int:
    return 8 if padded(max(dim, width)) >= 128 else 4


def precision(dtype: torch.dtype) -> str:
    """How tiles are multiplied.

    Half inputs are exact in TF32. For float32 ``torch.get_float32_matmul_precision()`` decides: ``"highest"`` is IEEE
    arithmetic, ``"high"`` three TF32 products (about float32), ``"medium"`` one.
    """
    if dtype in HALVES:
        return "tf32"
    return {"highest": "ieee", "high": "tf32x3", "medium": "tf32"}[torch.get_float32_matmul_precision()]


def along_last(tensor: Tensor) -> Tensor:
    """Consecutive along the last axis, which kernels take for granted; the other axes may have any strides."""
    return tensor if tensor.stride(-1) == 1 or tensor.size(-1) == 1 else tensor.contiguous()


def check(who: str, ptr: Tensor, order: Tensor | None, num_nodes: int, **tensors: Tensor | None) -> None:
    """What holds for every launcher; shapes are the business of :func:`mooring.ops.write` and ``read``."""
    if language.triton is None:
        raise ImportError(language.HINT)
    check_device(who, ptr=ptr, order=order, **tensors)
    if not (ptr.is_cuda or language.interpreted()):
        raise ValueError(
            f"{who}: tensors are on {ptr.device} but Triton needs a GPU. Move them to one, use another back end, or set "
            "TRITON_INTERPRET=1 before Triton is imported."
        )
    for name, ids in (("ptr", ptr), ("order", order)):
        if ids is not None and (ids.dtype != torch.long or not ids.is_contiguous()):
            raise TypeError(
                f"{who}: {name} has dtype {short(ids.dtype)} and strides {ids.stride()} but consecutive int64 was "
                f"expected. Pass {name}.long().contiguous()."
            )
    if order is not None and tuple(order.shape) != (num_nodes,):
        raise ValueError(
            f"{who}: order has shape {tuple(order.shape)} but there are {num_nodes} nodes. Pass one place per node."
        )
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dtype not in (*HALVES, torch.float32):
            raise TypeError(
                f"{who}: {name} has dtype {short(tensor.dtype)} but kernels compute in float32. "
                f"Pass {name}.float(), or use another back end."
            )
        if tensor is not None and name in ("key", "value") and tensor.size(-1) > WIDEST:
            raise ValueError(
                f"{who}: {name} has width {tensor.size(-1)} but kernels hold at most {WIDEST} in one tile. "
                "Use more heads, or another back end."
            )


def sort_graphs(index: Tensor, num_graphs: int) -> tuple[Tensor, Tensor]:
    """Graph id of each node, in any order, negative where a node is left out -> ``ptr`` and ``order``.

    Runs on the device of ``index`` and reads nothing back. A batch that is sorted already needs no ``order``.

    >>> ptr, order = sort_graphs(torch.tensor([2, -1, 0, 2]), 3)
    >>> ptr.tolist(), order.tolist()
    ([0, 1, 1, 3], [2, 0, 3, 1])
    """
    ids, order = torch.where(index < 0, num_graphs, index).sort(stable=True)
    return torch.searchsorted(ids, torch.arange(num_graphs + 1, device=index.device)), order
