"""The read, tile by tile: each node's softmax over the slots of its own graph, recomputed in the backward.

Heads are folded into ``parts`` and ``rows`` as in the write. The rows of one part are ``groups`` of slots, each with an
independent softmax; the contexts of the groups are summed. These are heads whose output projection was folded into the
values. With ``residual`` the query is added while it is in cache.

Shapes: query ``[nodes, parts, dim]``, key ``[graphs or 1, parts, rows, dim]``, value ``[graphs, parts, rows, width]``,
context ``[nodes, parts, width]``. Inactive nodes get zero, or their query.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mooring.ops import plain
from mooring.ops.heads import softmax_over_slots, softmax_over_slots_backward
from mooring.ops.plain import gradients, needs_plain_backward
from mooring.ops.plan import Plan
from mooring.ops.state import statistics_dtype
from mooring.ops.tiles.layout import Layout
from mooring.ops.tiles.tile import Tile
from mooring.ops.tiles.write_tiles import store, take


def _weights(queries: Tensor, keys: Tensor, groups: int, tile: Tile) -> Tensor:
    """Return the attention weights ``[parts, places, rows]``, a softmax within each group of rows."""
    is_shared = keys.size(1) == 1  # by all graphs of the tile
    tables = keys.transpose(2, 3)
    scores = torch.bmm(queries, tables[:, 0]) if is_shared else tile.spread(queries, tables)
    return softmax_over_slots(scores, groups)


def _take_graphs(tensor: Tensor, tile: Tile) -> Tensor:
    """Gather ``[graphs or 1, parts, ...]`` to ``[parts, graphs of the tile or 1, ...]``."""
    return (tensor if tensor.size(0) == 1 else tile.take_graphs(tensor)).transpose(0, 1)


def forward(query: Tensor, key: Tensor, value: Tensor, layout: Layout, groups: int, residual: bool) -> Tensor:
    """Return the context of every node."""
    dtype = statistics_dtype(query.dtype)
    keys, values = key.to(dtype), value.to(dtype)
    blank = query.new_empty(query.size(0), query.size(1), value.size(-1), dtype=dtype)
    context = layout.blank_like(blank, query if residual else None)
    for tile in layout.tiles:
        queries = take(query, tile)
        weights = _weights(queries, _take_graphs(keys, tile), groups, tile)
        plus, out = queries if residual else None, tile.window(context, dtype)
        store(tile.spread(weights, _take_graphs(values, tile), plus, out), context, tile)
    return context


def backward(
    grad_context: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: Layout,
    groups: int,
    residual: bool,
    needed: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the ``needed`` gradients of query, key and value, None for the others."""
    dtype = grad_context.dtype
    keys, values = key.to(dtype), value.to(dtype)
    grad_query = layout.blank_like(query, grad_context if residual else None) if needed[0] else None
    grad_keys, grad_values = (
        torch.zeros_like(table) if need else None for table, need in zip((keys, values), needed[1:], strict=True)
    )
    for tile in layout.tiles:
        # Padding repeats a node, whose gradient must be counted once.
        queries, grads = take(query, tile), tile.hide_padding_(take(grad_context, tile), 0.0)
        tile_keys = _take_graphs(keys, tile)
        weights = _weights(queries, tile_keys, groups, tile)
        if grad_values is not None:
            tile.add_graphs(tile.collect(weights, grads).transpose(0, 1), grad_values)
        if grad_query is None and grad_keys is None:
            continue
        grad_weights = tile.spread(grads, _take_graphs(values, tile).transpose(2, 3))
        grad_scores = softmax_over_slots_backward(grad_weights, weights, groups)
        if grad_keys is not None and keys.size(0) == 1:
            grad_keys[0].baddbmm_(grad_scores.transpose(1, 2), queries)
        elif grad_keys is not None:
            tile.add_graphs(tile.collect(grad_scores, queries).transpose(0, 1), grad_keys)
        if grad_query is not None:
            plus, out = grads if residual else None, tile.window(grad_query, dtype)
            if keys.size(0) == 1:
                product = torch.bmm if plus is None else partial(torch.baddbmm, plus)
                grad_queries = product(grad_scores, keys[0], out=out)
            else:
                grad_queries = tile.spread(grad_scores, tile_keys, plus, out)
            store(grad_queries, grad_query, tile)
    return (
        grad_query,
        None if grad_keys is None else grad_keys.to(key.dtype),
        None if grad_values is None else grad_values.to(value.dtype),
    )


def scores(query: Tensor, key: Tensor, plan: Plan) -> Tensor:
    """Compute :func:`mooring.ops.plain.scores`."""
    if query.dim() == 3 or torch.compiler.is_compiling():
        return plain.scores(query, key, plan)
    return _Scores.apply(query, key, plan)


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, plan: Plan) -> Tensor:
        ctx.plan = plan
        ctx.save_for_backward(query, key)
        out = key.new_empty(key.size(0), key.size(1), query.size(2))
        for tile in Layout.of(plan).tiles:
            tables = tile.take_graphs(query).transpose(0, 1).transpose(2, 3)
            store(tile.spread(take(key, tile), tables, out=tile.window(out, out.dtype)), out, tile)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key = ctx.saved_tensors
        if needs_plain_backward(grads):
            return (*gradients(lambda q, k: (plain.scores(q, k, ctx.plan),), (query, key), grads), None)
        grad_query = torch.zeros_like(query) if ctx.needs_input_grad[0] else None
        grad_key = torch.empty_like(key) if ctx.needs_input_grad[1] else None
        for tile in Layout.of(ctx.plan).tiles:
            # Padding repeats a node, whose gradient must be counted once.
            score_grads = tile.hide_padding_(take(grads[0], tile), 0.0)
            if grad_query is not None:
                tile.add_graphs(tile.collect(score_grads, take(key, tile)).transpose(0, 1), grad_query)
            if grad_key is not None:
                tables = tile.take_graphs(query).transpose(0, 1)
                store(tile.spread(score_grads, tables, out=tile.window(grad_key, key.dtype)), grad_key, tile)
        return grad_query, grad_key, None
