"""Formulas of our operators for torch's ``FlopCounterMode``: two operations per multiply-add of their matrix products.

Torch's table lacks matrix products that accumulate in place, which our backward passes use; they are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry, register_flop_formula

Shape = Sequence[int]


def _attention(nodes: int, rows: int, dim: int, width: int) -> int:
    """Count the products of scores and of weighted sums."""
    return 2 * nodes * rows * (dim + width)


def write(query: Shape, key: Shape, value: Shape | None, *_: Any, **__: Any) -> int:
    return _attention(key[0], query[-3] * query[-2], key[-1], (value or key)[-1])


def write_backward(_: Shape, __: Shape, query: Shape, key: Shape, value: Shape | None, *rest: Any, **___: Any) -> int:
    """Count recomputed scores, gradients of the weights, and one product per needed gradient."""
    need_query, need_key, need_value, need_weight = rest[-1]
    dim, width = key[-1], (value or key)[-1]
    per_score = dim * (1 + need_query + need_key) + width * (need_query or need_key or need_weight)
    per_score += width * (need_key if value is None else need_value)
    return 2 * key[0] * query[-3] * query[-2] * per_score


def read(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    return _attention(query[0], key[1] * key[2], key[-1], value[-1])


def read_backward(_: Shape, query: Shape, key: Shape, value: Shape, *rest: Any, **__: Any) -> int:
    """Count recomputed scores, gradients of the weights, and one product per needed gradient."""
    need_query, need_key, need_value = rest[-1]
    per_score = key[-1] * (1 + need_query + need_key) + value[-1] * ((need_query or need_key) + need_value)
    return 2 * query[0] * key[1] * key[2] * per_score


def film(x: Shape, context: Shape, *_: Any, **__: Any) -> int:
    return 2 * x[0] * 3 * x[1] * context[1]


def film_backward(_: Shape, inputs: Sequence[Shape], needed: Sequence[bool], **__: Any) -> int:
    """Count the recomputed modulation, gradients of the hidden layer, and one product per needed gradient."""
    (nodes, channels), (*_, hidden) = inputs[:2]
    return 2 * nodes * channels * hidden * (3 + 2 * any(needed[:4]) + needed[0] + needed[2] + 2 * needed[4])


def map_heads(x: Shape, weight: Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(x) * weight[1]


def map_heads_backward(_: Shape, x: Shape, weight: Shape, needed: Sequence[bool], **__: Any) -> int:
    return sum(needed) * map_heads(x, weight)


def register() -> None:
    """Add all formulas to torch's table."""
    formulas = (write, write_backward, read, read_backward, film, film_backward, map_heads, map_heads_backward)
    for formula in formulas:
        register_flop_formula(getattr(torch.ops.mooring, formula.__name__))(formula)
    aten: Any = torch.ops.aten
    for in_place, out_of_place in ((aten.addmm_, aten.addmm), (aten.baddbmm_, aten.baddbmm)):
        flop_registry.setdefault(in_place, flop_registry[out_of_place])
