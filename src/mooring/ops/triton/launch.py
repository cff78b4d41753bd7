"""Code shared by all launchers: block sizes, precision, checks, and the launch of a kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from mooring.ops.checks import check_device, short
from mooring.ops.triton import language


class Limits(NamedTuple):
    """Limits of one program: nodes, numbers (rows x width) in a tile of nodes and in a tile of rows, and warps."""

    nodes: int
    node_numbers: int
    row_numbers: int
    warps: int


class Blocks(NamedTuple):
    """Sizes of the tiles of one launch."""

    nodes: int
    rows: int
    num_warps: int
    num_stages: int


# AMD's compiler lacks TF32 on most cards. Three bfloat16 products are exact for half inputs, and else better than TF32.
ON_HIP = torch.version.hip is not None
HIP_PRECISIONS = {"tf32": "bf16x3", "tf32x3": "ieee", "ieee": "ieee"}
# (precision, backward) -> limits within which tiles stay in registers, see `benchmarks/kernels.py`. Three TF32 products
# need about twice the registers of one; so does IEEE arithmetic.
LIMITS = {
    ("tf32", False): Limits(64, 8192, 8192, 8),
    ("tf32", True): Limits(32, 2048, 8192, 8),
    ("tf32x3", False): Limits(32, 2048, 4096, 8),
    ("tf32x3", True): Limits(16, 2048, 2048, 8),
    ("bf16x3", False): Limits(32, 2048, 4096, 8),
    ("bf16x3", True): Limits(16, 2048, 2048, 8),
    ("ieee", False): Limits(32, 1024, 4096, 8),
    ("ieee", True): Limits(16, 2048, 2048, 8),
}
# Rows (slots, or slots of several heads) in one tile.
ROWS = 64
# Programs that fill a GPU, about two per multiprocessor. With more programs there are more partial states to merge.
PROGRAMS = 256
# Least and greatest number of nodes in one chunk.
CHUNKS = (128, 4096)
# Largest head width, or width of the features if projections are folded.
WIDEST = 256
# Number of partial states that the merging kernels load at once.
COUNT = 16

HALVES = (torch.float16, torch.bfloat16)


def run(kernel: Any, grid: tuple[int, ...], **arguments: Any) -> None:
    """Launch one kernel. All launches go through this function, so tests can intercept them."""
    with torch.cuda.device_of(arguments["ptr"]):
        kernel[grid](**arguments)


def padded(width: int) -> int:
    """Return the next power of two, at least 16, the minimum for ``tl.dot``."""
    return max(16, 1 << (width - 1).bit_length())


def blocks(precision: str, dim: int, width: int, *, backward: bool) -> Blocks:
    """Choose tile sizes from shapes and precision only; there is no autotuning."""
    limits = LIMITS[precision, backward]
    widest = padded(max(dim, width))
    nodes = min(limits.nodes, limits.node_numbers // widest)
    # Fewer nodes than columns, so that Triton assigns separate columns to each warp; else warps duplicate work.
    nodes = min(nodes, widest // 2) if backward else nodes
    return Blocks(
        nodes=max(16, nodes),
        rows=max(16, min(ROWS, limits.row_numbers // widest)),
        num_warps=min(limits.warps, max(2, widest // 8)),
        num_stages=2,
    )


def chunk_size(num_nodes: int, programs: int) -> int:
    """Return a power of two, such that a large batch with ``programs`` per chunk needs about ``PROGRAMS`` programs."""
    smallest, largest = CHUNKS
    return min(max(1 << (num_nodes * programs // PROGRAMS).bit_length(), smallest), largest)


def num_chunks(num_nodes: int, num_graphs: int, chunk: int) -> int:
    """Return the number of programs that cover any batch of this size, excluded nodes included; see ``chunks.py``."""
    return num_nodes // chunk + num_graphs + 1


def precision_of(widest: int, *tensors: Tensor | None) -> str:
    """Return the ``input_precision`` of ``tl.dot``.

    Half inputs are exact in TF32. For float32 it depends on ``torch.get_float32_matmul_precision()``: ``"highest"`` is
    IEEE arithmetic, ``"high"`` three TF32 products (about float32), ``"medium"`` one. Three products of tiles wider
    than 128 would spill many registers, so IEEE arithmetic is used for them. On AMD cards three bfloat16 products
    replace one TF32 product, and IEEE arithmetic replaces three.
    """
    if all(tensor is None or tensor.dtype in HALVES for tensor in tensors):
        precision = "tf32"
    else:
        precision = {"highest": "ieee", "high": "tf32x3", "medium": "tf32"}[torch.get_float32_matmul_precision()]
    if ON_HIP:
        return HIP_PRECISIONS[precision]
    return "ieee" if precision == "tf32x3" and widest > 128 else precision


def last_axis_contiguous(tensor: Tensor) -> Tensor:
    """Return the tensor with stride 1 along the last axis, as the kernels require; other strides are arbitrary."""
    return tensor if tensor.stride(-1) == 1 or tensor.size(-1) == 1 else tensor.contiguous()


def check(who: str, ptr: Tensor, order: Tensor | None, num_nodes: int, **tensors: Tensor | None) -> None:
    """Check the inputs of a launcher; shapes are checked by :func:`mooring.ops.write` and ``read``."""
    if language.triton is None:
        raise ImportError(language.HINT)
    check_device(who, ptr=ptr, order=order, **tensors)
    if not (ptr.is_cuda or language.INTERPRETED):
        raise ValueError(
            f"{who}: tensors are on {ptr.device} but Triton needs a GPU. Move them to one, use another back end, or "
            "set TRITON_INTERPRET=1 before Triton is imported."
        )
    for name, ids in (("ptr", ptr), ("order", order)):
        if ids is not None and (ids.dtype != torch.long or not ids.is_contiguous()):
            raise TypeError(
                f"{who}: {name} has dtype {short(ids.dtype)} and strides {ids.stride()} but consecutive int64 was "
                f"expected. Pass {name}.long().contiguous()."
            )
    if order is not None and tuple(order.shape) != (num_nodes,):
        raise ValueError(
            f"{who}: order has shape {tuple(order.shape)} but there are {num_nodes} nodes. Pass one entry per node."
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
    """Return ``ptr`` and ``order`` of graph ids in any order; negative ids exclude a node.

    Runs on the device of ``index`` without a host sync. A sorted batch does not need ``order``.

    >>> ptr, order = sort_graphs(torch.tensor([2, -1, 0, 2]), 3)
    >>> ptr.tolist(), order.tolist()
    ([0, 1, 1, 3], [2, 0, 3, 1])
    """
    ids, order = torch.where(index < 0, num_graphs, index).sort(stable=True)
    return torch.searchsorted(ids, torch.arange(num_graphs + 1, device=index.device)), order
