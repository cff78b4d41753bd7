"""Scores of nodes against the rows of their own graph, tile by tile: no row is gathered per node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mooring.ops import plain
from mooring.ops.derivatives import gradients, must_trace
from mooring.ops.plan import Plan
from mooring.ops.tiles.layout import Layout
from mooring.ops.tiles.write_tiles import store, take


def scores(query: Tensor, key: Tensor, plan: Plan) -> Tensor:
    """As :func:`mooring.ops.plain.scores`."""
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
            tables = tile.of_graphs(query).transpose(0, 1).transpose(2, 3)
            store(tile.spread(take(key, tile), tables, out=tile.window(out, out.dtype)), out, tile)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key = ctx.saved_tensors
        if must_trace(grads):
            found: Sequence[Tensor | None]
            found = gradients(lambda q, k: (plain.scores(q, k, ctx.plan),), (query, key), grads)
            return (*found, None)
        grad_query = torch.zeros_like(query) if ctx.needs_input_grad[0] else None
        grad_key = torch.empty_like(key) if ctx.needs_input_grad[1] else None
        for tile in Layout.of(ctx.plan).tiles:
            # Padding repeats a node, whose gradient must count once.
            slopes = tile.hide_padding_(take(grads[0], tile), 0.0)
            if grad_query is not None:
                tile.add_graphs(tile.collect(slopes, take(key, tile)).transpose(0, 1), grad_query)
            if grad_key is not None:
                tables = tile.of_graphs(query).transpose(0, 1)
                store(tile.spread(slopes, tables, out=tile.window(grad_key, key.dtype)), grad_key, tile)
        return grad_query, grad_key, None
