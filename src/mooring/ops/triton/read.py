"""Launchers of the read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mooring.ops.triton import launch, read_grad_kernels, read_kernels
from mooring.ops.triton.launch import padded


def read_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ptr: Tensor,
    order: Tensor | None = None,
    *,
    sum_heads: bool = False,
    residual: bool = False,
) -> Tensor:
    """Compute the context of every node, see :mod:`mooring.ops.triton`. One launch, two if heads are then summed."""
    launch.check("read_forward", ptr, order, query.size(0), query=query, key=key, value=value)
    inputs = _fold(query, key, value, ptr, order, sum_heads)
    parts, tiles = inputs["parts"], _tiles(inputs, backward=False)
    context = query.new_empty(query.size(0), parts, value.size(-1), dtype=torch.float32)
    grid = (launch.num_chunks(query.size(0), value.size(0), tiles["NODES"]), parts)
    launch.run(read_kernels.read_context, grid, **inputs, **tiles, context=context, RESIDUAL=residual)
    return context.sum(dim=1, keepdim=True) if sum_heads and parts > 1 else context


def read_backward(
    grad_context: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ptr: Tensor,
    order: Tensor | None = None,
    *,
    sum_heads: bool = False,
    residual: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of query, key and value. Two launches, one more for many slots and per shared input."""
    launch.check("read_backward", ptr, order, query.size(0), query=query, key=key, value=value)
    inputs = _fold(query, key, value, ptr, order, sum_heads)
    slots, parts, groups, dim, width = (inputs[name] for name in ("slots", "parts", "groups", "dim", "width"))
    (num_graphs, _, heads, _), num_nodes = value.shape, query.size(0)
    inputs["grad_context"] = grad_context.expand(-1, parts, -1).contiguous()
    # Queries and gradients fill the registers, so loads are not pipelined.
    tiles = {**_tiles(inputs, backward=True), "RESIDUAL": residual, "num_stages": 1}
    # All heads in one tile if they fit; else blocks of slots of one head each.
    padded_groups = _next_power_of_two(groups)
    padded_slots = max(_next_power_of_two(slots), 16 // padded_groups)
    fits = padded_slots * padded_groups <= launch.blocks(tiles["PRECISION"], dim, width, backward=True).rows
    if fits:
        tiles["SLOTS"] = padded_slots
    row_blocks = 1 if fits else groups * -(-slots // tiles["SLOTS"])
    chunk = launch.chunk_size(num_nodes, parts * row_blocks)
    half = num_nodes // chunk + 1
    key_dtype = key.dtype if key.size(0) == num_graphs else torch.float32
    outputs = {
        "grad_key": key.new_empty(num_graphs, slots, heads, dim, dtype=key_dtype),
        "grad_value": value.new_empty(value.shape),
        "partial_key": key.new_empty(2 * half, slots, heads, dim, dtype=torch.float32),
        "partial_value": value.new_empty(2 * half, slots, heads, width, dtype=torch.float32),
    }
    grad_query = query.new_empty(num_nodes, parts, dim, dtype=query.dtype if parts == query.size(1) else torch.float32)
    statistics = {
        name: None if fits else query.new_empty(num_nodes, heads, dtype=torch.float32)
        for name in ("log_mass", "offset")
    }
    inputs |= {"grad_query": grad_query, **statistics}
    if not fits:
        grid = (launch.num_chunks(num_nodes, num_graphs, tiles["NODES"]), parts)
        launch.run(read_grad_kernels.read_nodes, grid, **inputs, **tiles)
    launch.run(
        read_grad_kernels.read_rows, (launch.num_chunks(num_nodes, num_graphs, chunk), parts, row_blocks), **inputs,
        **outputs, **tiles, half=half, CHUNK=chunk, GROUPS=padded_groups if fits else 1, ALL_SLOTS=fits,
    )  # fmt: skip
    launch.run(
        read_grad_kernels.merge_sums, (num_graphs, slots * heads), **outputs, ptr=ptr, half=half, cells=slots * heads,
        dim=dim, width=width, CHUNK=chunk, COUNT=launch.COUNT, DIM=padded(dim), WIDTH=padded(width),
        num_warps=4, num_stages=2,
    )  # fmt: skip
    grad_key = outputs["grad_key"]
    if key.size(0) != num_graphs:
        grad_key = grad_key.sum(dim=0, keepdim=True)
    if parts != query.size(1):
        grad_query = grad_query.sum(dim=1, keepdim=True)
    return grad_query.to(query.dtype), grad_key.to(key.dtype), outputs["grad_value"]


def _fold(
    query: Tensor, key: Tensor, value: Tensor, ptr: Tensor, order: Tensor | None, sum_heads: bool
) -> dict[str, Any]:
    """Return the kernel arguments; heads with a shared query and a summed context become groups of one part."""
    num_graphs, slots, heads, width = value.shape
    parts, groups = (1, heads) if sum_heads and query.size(1) == 1 else (heads, 1)
    queries = launch.last_axis_contiguous(query).expand(-1, parts, -1)
    key, value = launch.last_axis_contiguous(key), launch.last_axis_contiguous(value)
    return {
        "query": queries, "key": key, "value": value, "ptr": ptr, "order": order,
        "num_nodes": query.size(0), "num_graphs": num_graphs, "slots": slots, "parts": parts, "groups": groups,
        "dim": query.size(-1), "width": width, "query_node": queries.stride(0), "query_part": queries.stride(1),
        "key_graph": 0 if key.size(0) != num_graphs else key.stride(0), "key_slot": key.stride(1),
        "key_head": key.stride(2), "value_graph": value.stride(0), "value_slot": value.stride(1),
        "value_head": value.stride(2),
    }  # fmt: skip


def _tiles(inputs: dict[str, Any], *, backward: bool) -> dict[str, Any]:
    dim, width = inputs["dim"], inputs["width"]
    precision = launch.precision_of(max(dim, width), inputs["query"], inputs["key"], inputs["value"])
    blocks = launch.blocks(precision, dim, width, backward=backward)
    return {
        "SLOTS": min(padded(inputs["slots"]), blocks.rows), "NODES": blocks.nodes, "DIM": padded(dim),
        "WIDTH": padded(width), "PRECISION": precision,
        "num_warps": blocks.num_warps, "num_stages": blocks.num_stages,
    }  # fmt: skip


def _next_power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()
