"""The fast read: each node's softmax over the slots of its own graph, tile by tile, recomputed in the backward.

Heads are folded into ``parts`` and ``rows`` as in the write. The rows of one part hold ``groups`` independent
softmaxes side by side, whose contexts are summed: heads whose output projection was absorbed into the values. With
``residual`` the query is added to its context, where it is in cache and costs no pass of its own.

Shapes: query ``[nodes, parts, dim]``, key ``[graphs or 1, parts, rows, dim]``, value ``[graphs, parts, rows, width]``,
context ``[nodes, parts, width]``. Nodes with ``index < 0`` read nothing and get zero.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from mooring.ops._write import settle, statistics_dtype, take
from mooring.ops.layout import blank_like, tiles
from mooring.ops.tile import Tile


def _weights(queries: Tensor, keys: Tensor, groups: int, tile: Tile) -> Tensor:
    """``[parts, places, rows]``: a softmax within each group of rows."""
    one_table = keys.size(1) == 1  # for all graphs of the tile
    tables = keys.transpose(2, 3)
    scores = torch.bmm(queries, tables[:, 0]) if one_table else tile.spread(queries, tables)
    return scores.unflatten(-1, (groups, -1)).softmax(dim=-1).flatten(-2)


def _of_tile(tensor: Tensor, tile: Tile) -> Tensor:
    """``[graphs or 1, parts, ...]`` -> ``[parts, graphs of the tile or 1, ...]``."""
    return (tensor if tensor.size(0) == 1 else tile.of_graphs(tensor)).transpose(0, 1)


@torch.library.custom_op("mooring::read", mutates_args=())
def read_op(query: Tensor, key: Tensor, value: Tensor, index: Tensor | None, groups: int, residual: bool) -> Tensor:
    dtype = statistics_dtype(query.dtype)
    keys, values = key.to(dtype), value.to(dtype)
    blank = query.new_empty(query.size(0), query.size(1), value.size(-1), dtype=dtype)
    context = blank_like(blank, index, query if residual else None)
    for tile in tiles(index, query.size(0), value.size(0)):
        queries = take(query, tile)
        weights = _weights(queries, _of_tile(keys, tile), groups, tile)
        plus, out = queries if residual else None, tile.window(context, dtype)
        settle(tile.spread(weights, _of_tile(values, tile), plus, out), context, tile)
    return context


@read_op.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, index: Tensor | None, groups: int, residual: bool) -> Tensor:
    return query.new_empty(query.size(0), query.size(1), value.size(-1), dtype=statistics_dtype(query.dtype))


@torch.library.custom_op("mooring::read_backward", mutates_args=())
def read_backward_op(
    grad_context: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    index: Tensor | None,
    groups: int,
    residual: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    dtype = grad_context.dtype
    keys, values = key.to(dtype), value.to(dtype)
    grad_query = blank_like(query, index, grad_context if residual else None)
    grad_keys, grad_values = torch.zeros_like(keys), torch.zeros_like(values)
    for tile in tiles(index, query.size(0), value.size(0)):
        # Padding repeats a node, whose slope must count once.
        queries, slope = take(query, tile), tile.hide_padding_(take(grad_context, tile), 0.0)
        tile_keys = _of_tile(keys, tile)
        weights = _weights(queries, tile_keys, groups, tile)
        tile.add_graphs(tile.collect(weights, slope).transpose(0, 1), grad_values)
        grad_weights = tile.spread(slope, _of_tile(values, tile).transpose(2, 3))
        # d score = p (g - sum p g), the sum within each softmax.
        grad_scores = grad_weights.mul_(weights)
        within = grad_scores.unflatten(-1, (groups, -1)).sum(dim=-1, keepdim=True)
        grad_scores.unflatten(-1, (groups, -1)).addcmul_(weights.unflatten(-1, (groups, -1)), within, value=-1)
        plus, out = slope if residual else None, tile.window(grad_query, dtype)
        if keys.size(0) == 1:
            product = torch.bmm if plus is None else partial(torch.baddbmm, plus)
            grad_queries = product(grad_scores, keys[0], out=out)
            grad_keys[0].baddbmm_(grad_scores.transpose(1, 2), queries)
        else:
            grad_queries = tile.spread(grad_scores, tile_keys, plus, out)
            tile.add_graphs(tile.collect(grad_scores, queries).transpose(0, 1), grad_keys)
        settle(grad_queries, grad_query, tile)
    return grad_query, grad_keys.to(key.dtype), grad_values.to(value.dtype)


@read_backward_op.register_fake
def _(
    grad_context: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    index: Tensor | None,
    groups: int,
    residual: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.groups, ctx.residual = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, grad_context: Tensor) -> tuple[Tensor | None, ...]:
    query, key, value, index = ctx.saved_tensors
    with torch.autocast(query.device.type, enabled=False):
        grads = read_backward_op(grad_context, query, key, value, index, ctx.groups, ctx.residual)
    return (*grads, None, None, None)


read_op.register_autograd(_backward, setup_context=_setup)
