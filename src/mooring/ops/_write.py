"""The fast write: tiles, running statistics, scores recomputed in the backward.

Everything here has the heads folded into two axes, ``parts`` and ``rows``. Heads with values of their own are parts
with a row for each slot. Heads that share keys and values (projections absorbed into the query) are rows of a single
part, so one skinny matrix product serves all of them. Keys alone may be shared too: the query then has the rows of
all parts, one part after the other. With ``value=None`` the keys are the values.

Shapes: query ``[parts, rows, dim]`` or ``[1, parts * rows, dim]``, key ``[nodes, parts or 1, dim]``, value
``[nodes, parts, width]``, content ``[graphs, rows, parts, width]``, log_mass ``[graphs, rows, parts]``. Nodes with
``index < 0`` or ``log_weight = -inf`` are left out, whatever they hold.

The ops are opaque to ``torch.compile``: choosing tiles looks at the data, which a traced graph must not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from mooring.ops.checks import skip
from mooring.ops.layout import blank_like, tiles
from mooring.ops.tile import Tile


def statistics_dtype(dtype: torch.dtype) -> torch.dtype:
    """Half precision is for storage; sums over many nodes are kept in float32 or better."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def take(tensor: Tensor, tile: Tile) -> Tensor:
    """``[nodes, parts, dim]`` -> ``[parts, places, dim]`` in the dtype of the statistics."""
    return tile.take(tensor).transpose(0, 1).to(statistics_dtype(tensor.dtype))


def settle(block: Tensor, out: Tensor, tile: Tile) -> None:
    """``[parts, places, dim]`` -> the tile's rows of ``out`` ``[nodes, parts, dim]``, if it was not formed there."""
    if tile.window(out, block.dtype) is None:
        tile.put(block.transpose(0, 1).to(out.dtype), out)


def _scores(query: Tensor, key: Tensor, parts: int, log_weight: Tensor | None, tile: Tile) -> Tensor:
    """``[parts, places, rows]`` scores of one tile, ``-inf`` on padding."""
    scores = torch.bmm(key, query.transpose(1, 2))
    if key.size(0) != parts:
        scores = scores[0].unflatten(-1, (parts, query.size(1) // parts)).transpose(0, 1).contiguous()
    if log_weight is not None:
        scores += tile.take(log_weight).unsqueeze(-1).to(scores.dtype)
    return tile.hide_padding_(scores, float("-inf"))


def _of_tile(of_graphs: Tensor, tile: Tile) -> Tensor:
    """``[graphs, rows, parts, ...]`` -> ``[parts, graphs of the tile, rows, ...]``."""
    return tile.of_graphs(of_graphs).movedim(2, 0)


def _of_keys(grad_scores: Tensor, key_parts: int) -> Tensor:
    """``[parts, places, rows]`` -> ``[key parts, places, rows of the query]``."""
    if grad_scores.size(0) == key_parts:
        return grad_scores
    return grad_scores.transpose(0, 1).flatten(1).unsqueeze(0)


def _finite(log_mass: Tensor) -> Tensor:
    """Zero where nothing was written, so that ``-inf - -inf`` is never formed."""
    return torch.where(log_mass.isneginf(), 0.0, log_mass)


def _without_weightless(index: Tensor | None, log_weight: Tensor | None) -> Tensor | None:
    """The graph ids with -1 for nodes of weight zero, which are then never looked at: they may hold NaN."""
    if log_weight is None:
        return index
    weightless = log_weight.isneginf()
    return skip(index, ~weightless) if bool(weightless.any()) else index


class _Running(NamedTuple):
    """Softmax statistics of the nodes seen so far, relative to ``top``: their mass and weighted total.

    ``top`` is the largest score itself, ``-inf`` while there is none: any stand-in would be taken for a score and drown
    the smaller ones that follow.
    """

    top: Tensor
    mass: Tensor
    total: Tensor


def _accumulate(running: _Running | None, scores: Tensor, values: Tensor, tile: Tile) -> _Running:
    """Take one more tile into the running statistics; overwrites ``scores``."""
    top = tile.amax(scores)
    if running is not None:
        top = torch.maximum(top, running.top)
    origin = _finite(top)
    weights = tile.subtract_(scores, origin).exp_()
    mass = tile.sum(weights)
    total = tile.collect(weights, values)
    if running is not None:
        shrink = (running.top - origin).exp_()
        mass.addcmul_(running.mass, shrink)
        total.addcmul_(running.total, shrink.unsqueeze(-1))
    return _Running(top, mass, total)


def _content_axes(query: Tensor, key: Tensor, value: Tensor | None) -> tuple[int, int, int]:
    """Parts, rows and width of the content."""
    parts, width = (key if value is None else value).shape[1:]
    return parts, query.size(0) * query.size(1) // parts, width


@torch.library.custom_op("mooring::write", mutates_args=())
def write_op(
    query: Tensor, key: Tensor, value: Tensor | None, index: Tensor | None, log_weight: Tensor | None, num_graphs: int
) -> tuple[Tensor, Tensor]:
    parts, rows, width = _content_axes(query, key, value)
    dtype = statistics_dtype(key.dtype)
    query = query.to(dtype)
    content = key.new_empty(num_graphs, rows, parts, width, dtype=dtype)
    log_mass = key.new_full((num_graphs, rows, parts), float("-inf"), dtype=dtype)
    index = _without_weightless(index, log_weight)
    running: _Running | None = None
    written = 0
    for tile in tiles(index, key.size(0), num_graphs):
        keys = take(key, tile)
        values = keys if value is None else take(value, tile)
        scores = _scores(query, keys, parts, log_weight, tile)
        running = _accumulate(None if tile.first else running, scores, values, tile)
        if tile.last:
            top, mass, total = running
            total /= torch.where(mass == 0, 1.0, mass).unsqueeze(-1)
            tile.put_graphs(total.permute(1, 2, 0, 3), content)
            written += total.size(1)
            tile.put_graphs((mass.log() + _finite(top)).permute(1, 2, 0), log_mass)
    if written < num_graphs:
        content.masked_fill_(log_mass.isneginf().unsqueeze(-1), 0.0)
    return content, log_mass


@write_op.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor | None, index: Tensor | None, log_weight: Tensor | None, num_graphs: int
) -> tuple[Tensor, Tensor]:
    dtype = statistics_dtype(key.dtype)
    parts, rows, width = _content_axes(query, key, value)
    shape = (num_graphs, rows, parts)
    return key.new_empty((*shape, width), dtype=dtype), key.new_empty(shape, dtype=dtype)


@torch.library.custom_op("mooring::write_backward", mutates_args=())
def write_backward_op(
    grad_content: Tensor,
    grad_log_mass: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    index: Tensor | None,
    log_weight: Tensor | None,
    content: Tensor,
    log_mass: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dtype = content.dtype
    queries = query.to(dtype)
    index = _without_weightless(index, log_weight)
    grad_query = torch.zeros_like(queries)
    grad_key = blank_like(key, index)
    grad_value = key.new_empty(0) if value is None else blank_like(value, index)
    grad_log_weight = key.new_empty(0) if log_weight is None else blank_like(log_weight, index)
    # d score = p (v . g - mu . g + g_mass): the last two terms are the same for all nodes of a graph.
    offset = (grad_content * content).sum(dim=-1) - grad_log_mass
    floor = _finite(log_mass)
    for tile in tiles(index, key.size(0), content.size(0)):
        keys = take(key, tile)
        values = keys if value is None else take(value, tile)
        slope = _of_tile(grad_content, tile)
        scores = _scores(queries, keys, content.size(2), log_weight, tile)
        weights = tile.subtract_(scores, _of_tile(floor, tile)).exp_()
        grad_scores = tile.subtract_(tile.spread(values, slope.transpose(2, 3)), _of_tile(offset, tile)).mul_(weights)
        of_keys = _of_keys(grad_scores, key.size(1))
        grad_keys = torch.bmm(of_keys, queries, out=tile.window(grad_key, dtype))
        if value is None:
            tile.spread(weights, slope, plus=grad_keys, out=grad_keys)
        else:
            settle(tile.spread(weights, slope, out=tile.window(grad_value, dtype)), grad_value, tile)
        settle(grad_keys, grad_key, tile)
        grad_query.baddbmm_(of_keys.transpose(1, 2), keys)
        if log_weight is not None:
            tile.put(grad_scores.sum(dim=(0, 2)).to(log_weight.dtype), grad_log_weight)
    return grad_query.to(query.dtype), grad_key, grad_value, grad_log_weight


@write_backward_op.register_fake
def _(
    grad_content: Tensor,
    grad_log_mass: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    index: Tensor | None,
    log_weight: Tensor | None,
    content: Tensor,
    log_mass: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    nothing = key.new_empty(0)
    return (
        torch.empty_like(query),
        torch.empty_like(key),
        nothing if value is None else torch.empty_like(value),
        key.new_empty(0) if log_weight is None else torch.empty_like(log_weight),
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, index, log_weight, _ = inputs
    ctx.save_for_backward(query, key, value, index, log_weight, *output)


def _backward(ctx: Any, grad_content: Tensor, grad_log_mass: Tensor) -> tuple[Tensor | None, ...]:
    query, key, value, index, log_weight, content, log_mass = ctx.saved_tensors
    with torch.autocast(key.device.type, enabled=False):
        grad_query, grad_key, grad_value, grad_log_weight = write_backward_op(
            grad_content, grad_log_mass, query, key, value, index, log_weight, content, log_mass
        )
    return (
        grad_query,
        grad_key,
        None if value is None else grad_value,
        None,
        None if log_weight is None else grad_log_weight,
        None,
    )


write_op.register_autograd(_backward, setup_context=_setup)
