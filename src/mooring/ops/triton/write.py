"""Launchers of the write."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mooring.ops.triton import launch, write_grad_kernels, write_kernels
from mooring.ops.triton.launch import padded


def write_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    ptr: Tensor,
    order: Tensor | None = None,
    log_weight: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute content and log_mass of every graph, slot and head, and the two summands of log_mass, in two launches.

    The summands are the largest score and the logarithm of the mass relative to it. See :mod:`mooring.ops.triton`.
    """
    launch.check("write_forward", ptr, order, key.size(0), query=query, key=key, value=value, log_weight=log_weight)
    inputs = _fold(query, key, value, ptr, order, log_weight)
    rows, parts, width, num_graphs = inputs["rows"], inputs["parts"], inputs["width"], inputs["num_graphs"]
    blocks = _tiles(inputs, backward=False)
    row_blocks = -(-rows // blocks["ROWS"])
    chunk = launch.chunk_size(key.size(0), parts * row_blocks)
    half = key.size(0) // chunk + 1
    outputs = {
        "content": _new_float32(key, num_graphs, rows, parts, width),
        **{name: _new_float32(key, num_graphs, rows, parts) for name in ("log_mass", "top", "rest")},
        "partial_total": _new_float32(key, 2 * half, rows, parts, width),
        "partial_mass": _new_float32(key, 2 * half, rows, parts),
        "partial_top": _new_float32(key, 2 * half, rows, parts),
    }
    grid = (launch.num_chunks(key.size(0), num_graphs, chunk), parts, row_blocks)
    launch.run(write_kernels.write_chunks, grid, **inputs, **outputs, **blocks, half=half, CHUNK=chunk)
    launch.run(
        write_kernels.merge_states, (num_graphs, rows * parts), **outputs, ptr=ptr, half=half, cells=rows * parts,
        width=width, CHUNK=chunk, COUNT=launch.COUNT, WIDTH=padded(width), num_warps=4, num_stages=2,
    )  # fmt: skip
    slots, heads = query.shape[:2]
    log_mass, top, rest = (outputs[name].view(num_graphs, slots, heads) for name in ("log_mass", "top", "rest"))
    return outputs["content"].view(num_graphs, slots, heads, width), log_mass, top, rest


def write_backward(
    grad_content: Tensor,
    grad_log_mass: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    ptr: Tensor,
    order: Tensor | None,
    log_weight: Tensor | None,
    content: Tensor,
    top: Tensor,
    rest: Tensor,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Compute the gradients of the inputs. Two launches, one more for many rows and per shared input."""
    launch.check("write_backward", ptr, order, key.size(0), query=query, key=key, value=value, log_weight=log_weight)
    inputs = _fold(query, key, value, ptr, order, log_weight)
    rows, parts, dim = inputs["rows"], inputs["parts"], inputs["dim"]
    inputs |= {"content": content, "top": top, "rest": rest}
    inputs |= {"grad_content": grad_content.contiguous(), "grad_log_mass": grad_log_mass.contiguous()}
    blocks = _tiles(inputs, backward=True)
    row_blocks = -(-rows // blocks["ROWS"])
    chunk = launch.chunk_size(key.size(0), parts * row_blocks)
    chunks = launch.num_chunks(key.size(0), inputs["num_graphs"], chunk)
    programs = max(1, min(chunks, launch.PROGRAMS // (parts * row_blocks)))
    grad_query = _new_float32(key, programs, rows, parts, dim)
    grad_key = _new_node_grads(key, parts)
    outputs: dict[str, Tensor | None] = {
        "grad_key": grad_key,
        "grad_value": None if value is None else _new_node_grads(value, parts),
        "grad_log_weight": None if log_weight is None else _new_weight_grads(log_weight, parts),
    }
    launch.run(
        write_grad_kernels.write_rows, (programs, parts, row_blocks), **inputs, **outputs, **blocks,
        grad_query=grad_query, num_chunks=chunks, CHUNK=chunk, ALL_ROWS=row_blocks == 1,
    )  # fmt: skip
    if row_blocks > 1:
        grid = (launch.num_chunks(key.size(0), inputs["num_graphs"], blocks["NODES"]), parts)
        launch.run(write_grad_kernels.write_nodes, grid, **inputs, **outputs, **blocks)
    return (
        grad_query.sum(dim=0).view(query.shape).to(query.dtype),
        _sum_over_parts(grad_key, key),
        None if value is None else _sum_over_parts(outputs["grad_value"], value),
        None if log_weight is None else _sum_over_parts(outputs["grad_log_weight"], log_weight),
    )


def _fold(
    query: Tensor, key: Tensor, value: Tensor | None, ptr: Tensor, order: Tensor | None, log_weight: Tensor | None
) -> dict[str, Any]:
    """Return the kernel arguments; heads that share keys and values become rows of one part."""
    slots, heads, dim = query.shape
    shared = key.size(1) == 1 and (value is None or value.size(1) == 1)
    rows, parts = (slots * heads, 1) if shared else (slots, heads)
    queries = launch.last_axis_contiguous(query).reshape(rows, parts, dim)
    keys = launch.last_axis_contiguous(key).expand(-1, parts, -1)
    values = None if value is None else launch.last_axis_contiguous(value).expand(-1, parts, -1)
    per_row = log_weight is not None and log_weight.dim() == 3
    if log_weight is not None:
        log_weight = log_weight.reshape(-1, rows, parts) if per_row else log_weight[:, None, None].expand(-1, 1, 1)
    weight_strides = (0, 0, 0) if log_weight is None else log_weight.stride()
    return {
        "query": queries, "key": keys, "value": values, "ptr": ptr, "order": order, "log_weight": log_weight,
        "num_nodes": key.size(0), "num_graphs": ptr.numel() - 1, "rows": rows, "parts": parts, "dim": dim,
        "width": (key if value is None else value).size(-1),
        "query_row": queries.stride(0), "query_part": queries.stride(1),
        "key_node": keys.stride(0), "key_part": keys.stride(1),
        "value_node": 0 if values is None else values.stride(0),
        "value_part": 0 if values is None else values.stride(1),
        **dict(zip(("weight_node", "weight_row", "weight_part"), weight_strides, strict=True)),
        "PER_ROW": per_row,
    }  # fmt: skip


def _tiles(inputs: dict[str, Any], *, backward: bool) -> dict[str, Any]:
    dim, width = inputs["dim"], inputs["width"]
    precision = launch.precision_of(max(dim, width), inputs["query"], inputs["key"], inputs["value"])
    blocks = launch.blocks(precision, dim, width, backward=backward)
    return {
        "ROWS": min(padded(inputs["rows"]), blocks.rows), "NODES": blocks.nodes, "DIM": padded(dim),
        "WIDTH": padded(width), "PRECISION": precision,
        "num_warps": blocks.num_warps, "num_stages": blocks.num_stages,
    }  # fmt: skip


def _new_float32(like: Tensor, *shape: int) -> Tensor:
    return like.new_empty(shape, dtype=torch.float32)


def _new_node_grads(tensor: Tensor, parts: int) -> Tensor:
    """Allocate gradients of ``[nodes, heads or 1, dim]``; float32 if they are yet to be summed over parts."""
    if tensor.size(1) == parts:
        return torch.empty_like(tensor, memory_format=torch.contiguous_format)
    return _new_float32(tensor, tensor.size(0), parts, tensor.size(2))


def _new_weight_grads(log_weight: Tensor, parts: int) -> Tensor:
    """Allocate gradients of log weights: ``[nodes, parts]`` for ``[nodes]``, else ``[nodes, slots, heads]``."""
    if log_weight.dim() == 3:
        return torch.empty_like(log_weight, memory_format=torch.contiguous_format)
    return _new_float32(log_weight, log_weight.size(0), parts)


def _sum_over_parts(grad: Tensor | None, tensor: Tensor) -> Tensor:
    """Sum the gradients of a tensor over the parts that share it."""
    assert grad is not None
    if grad.shape != tensor.shape:
        grad = grad.sum(dim=1, keepdim=tensor.dim() == 3) if grad.size(1) > 1 else grad.view(tensor.shape)
    return grad.to(tensor.dtype)
