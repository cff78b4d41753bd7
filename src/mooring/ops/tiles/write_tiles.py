"""The write, tile by tile: running statistics, and scores recomputed in the backward.

Heads are folded into two axes, ``parts`` and ``rows``. Heads with separate values are parts with one row per slot.
Heads that share keys and values (projections folded into the query) are rows of a single part, so one skinny matrix
product computes all of them. If only the keys are shared, the query has the rows of all parts, part by part. With
``value=None`` the keys are the values.

Shapes: query ``[parts, rows, dim]`` or ``[1, parts * rows, dim]``, or either with a graphs axis before it; key
``[nodes, parts or 1, dim]``, value ``[nodes, parts, width]``, log_weight ``[nodes, parts or 1, rows or 1]``, content
``[graphs, rows, parts, width]``, log_mass ``[graphs, rows, parts]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mooring.ops.state import finite_or_zero, statistics_dtype
from mooring.ops.tiles.layout import Layout
from mooring.ops.tiles.tile import Tile

# If scores are below this in float32, subtracting the rounded log-mass changes a weight by at most 4e-6, relatively.
NEAR = 64.0


def take(tensor: Tensor, tile: Tile) -> Tensor:
    """Gather ``[nodes, parts, dim]`` to ``[parts, places, dim]`` in the dtype of the statistics."""
    return tile.take(tensor).transpose(0, 1).to(statistics_dtype(tensor.dtype))


def store(block: Tensor, out: Tensor, tile: Tile) -> None:
    """Scatter ``[parts, places, dim]`` to ``out`` ``[nodes, parts, dim]``, unless ``block`` is a window of ``out``."""
    if tile.window(out, block.dtype) is None:
        tile.put(block.transpose(0, 1).to(out.dtype), out)


def _scores(query: Tensor, key: Tensor, parts: int, log_weight: Tensor | None, tile: Tile) -> Tensor:
    """Return the scores ``[parts, places, rows]`` of one tile, ``-inf`` on padding."""
    if query.dim() == 3:
        scores = torch.bmm(key, query.transpose(1, 2))
    else:
        scores = tile.spread(key, tile.take_graphs(query).transpose(0, 1).transpose(2, 3))
    if key.size(0) != parts:
        scores = scores[0].unflatten(-1, (parts, query.size(-2) // parts)).transpose(0, 1).contiguous()
    if log_weight is not None:
        scores += take(log_weight, tile).to(scores.dtype)
    return tile.hide_padding_(scores, float("-inf"))


def _take_graphs(tensor: Tensor, tile: Tile) -> Tensor:
    """Gather ``[graphs, rows, parts, ...]`` to ``[parts, graphs of the tile, rows, ...]``."""
    return tile.take_graphs(tensor).movedim(2, 0)


def _fold_to_keys(grad_scores: Tensor, key_parts: int) -> Tensor:
    """Reshape ``[parts, places, rows]`` to ``[key parts, places, rows of the query]``."""
    if grad_scores.size(0) == key_parts:
        return grad_scores
    return grad_scores.transpose(0, 1).flatten(1).unsqueeze(0)


class _Running(NamedTuple):
    """Softmax statistics of the tiles so far: the largest score, and mass and weighted total relative to it.

    ``top`` is ``-inf`` if there is no score yet. Another value would act as a score, and smaller scores that follow
    would underflow.
    """

    top: Tensor
    mass: Tensor
    total: Tensor


def _accumulate(running: _Running | None, scores: Tensor, values: Tensor, tile: Tile) -> _Running:
    """Add a tile to the running statistics; overwrites ``scores``."""
    top = tile.amax(scores)
    if running is not None:
        top = torch.maximum(top, running.top)
    origin = finite_or_zero(top)
    weights = tile.subtract_(scores, origin).exp_()
    mass = tile.sum(weights)
    total = tile.collect(weights, values)
    if running is not None:
        shrink = (running.top - origin).exp_()
        mass.addcmul_(running.mass, shrink)
        total.addcmul_(running.total, shrink.unsqueeze(-1))
    return _Running(top, mass, total)


def content_axes(query: Tensor, key: Tensor, value: Tensor | None) -> tuple[int, int, int]:
    """Return parts, rows and width of the content."""
    parts, width = (key if value is None else value).shape[1:]
    return parts, query.size(-3) * query.size(-2) // parts, width


def forward(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, layout: Layout, num_graphs: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return content and log-mass of every graph, and the two summands of the log-mass.

    The summands are the largest score and the log of the mass relative to it. For huge scores their sum rounds the
    second away, but the backward needs it.
    """
    parts, rows, width = content_axes(query, key, value)
    dtype = statistics_dtype(key.dtype)
    query = query.to(dtype)
    content = key.new_empty(num_graphs, rows, parts, width, dtype=dtype)
    log_mass = key.new_empty(num_graphs, rows, parts, dtype=dtype)
    tops, rests = torch.empty_like(log_mass), torch.empty_like(log_mass)
    if len(layout.ids) != num_graphs:  # rows of graphs without active nodes
        content.zero_()
        tops.zero_()
        rests.fill_(float("-inf"))
    running: _Running | None = None
    for tile in layout.tiles:
        keys = take(key, tile)
        values = keys if value is None else take(value, tile)
        scores = _scores(query, keys, parts, log_weight, tile)
        running = _accumulate(None if tile.first else running, scores, values, tile)
        if tile.last:
            top, mass, total = running
            total /= torch.where(mass == 0, 1.0, mass).unsqueeze(-1)
            tile.put_graphs(total.permute(1, 2, 0, 3), content)
            tile.put_graphs(finite_or_zero(top).permute(1, 2, 0), tops)
            tile.put_graphs(mass.log_().permute(1, 2, 0), rests)
    return content, torch.add(tops, rests, out=log_mass), tops, rests


def backward(
    grad_content: Tensor,
    grad_log_mass: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    log_weight: Tensor | None,
    content: Tensor,
    tops: Tensor,
    rests: Tensor,
    layout: Layout,
    needed: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """Return the ``needed`` gradients of query, key, value and log_weight, None for the others."""
    dtype = content.dtype
    queries = query.to(dtype)
    grad_query = torch.zeros_like(queries) if needed[0] else None
    grad_key, grad_value, grad_log_weight = (
        layout.blank_like(tensor) if tensor is not None and need else None
        for tensor, need in zip((key, value, log_weight), needed[1:], strict=True)
    )
    # d score = p (v . g - mu . g + g_mass); the last two terms are constant per graph.
    offset = (grad_content * content).sum(dim=-1) - grad_log_mass
    rests = finite_or_zero(rests)
    # For moderate scores one subtraction is precise enough.
    origins = [tops + rests] if float(tops.abs().max() if tops.numel() else 0) < NEAR else [tops, rests]
    for tile in layout.tiles:
        keys = take(key, tile)
        values = keys if value is None else take(value, tile)
        grad_totals = _take_graphs(grad_content, tile)
        scores = _scores(queries, keys, content.size(2), log_weight, tile)
        for origin in origins:
            scores = tile.subtract_(scores, _take_graphs(origin, tile))
        weights = scores.exp_()
        if grad_value is not None:
            store(tile.spread(weights, grad_totals, out=tile.window(grad_value, dtype)), grad_value, tile)
        if not (needed[0] or needed[1] or needed[3]):
            continue
        grad_scores = tile.spread(values, grad_totals.transpose(2, 3))
        grad_scores = tile.subtract_(grad_scores, _take_graphs(offset, tile)).mul_(weights)
        grad_key_scores = _fold_to_keys(grad_scores, key.size(1))
        if grad_query is not None and query.dim() == 3:
            grad_query.baddbmm_(grad_key_scores.transpose(1, 2), keys)
        elif grad_query is not None:
            tile.add_graphs(tile.collect(grad_key_scores, keys).transpose(0, 1), grad_query)
        if grad_key is not None:
            window = tile.window(grad_key, dtype)
            if query.dim() == 3:
                grad_keys = torch.bmm(grad_key_scores, queries, out=window)
            else:
                grad_keys = tile.spread(grad_key_scores, tile.take_graphs(queries).transpose(0, 1), out=window)
            if value is None:
                tile.spread(weights, grad_totals, plus=grad_keys, out=grad_keys)
            store(grad_keys, grad_key, tile)
        if grad_log_weight is not None:
            shape = grad_log_weight.size(1), grad_scores.size(1), grad_log_weight.size(2)
            tile.put(grad_scores.sum_to_size(shape).transpose(0, 1).to(grad_log_weight.dtype), grad_log_weight)
    return None if grad_query is None else grad_query.to(query.dtype), grad_key, grad_value, grad_log_weight
