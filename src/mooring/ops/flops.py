"""What torch's ``FlopCounterMode`` is told of our operators: two operations per multiply-add of their matrix products.

Also of products that accumulate in place, which torch's own table leaves out and our backward passes are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry, register_flop_formula

Shape = Sequence[int]


def _attention(nodes: int, rows: int, dim: int, width: int) -> int:
    """Scores, and the sum that they weigh."""
    return 2 * nodes * rows * (dim + width)


def write(query: Shape, key: Shape, value: Shape | None, *_: Any, **__: Any) -> int:
    return _attention(key[0], query[-3] * query[-2], key[-1], (value or key)[-1])


def write_backward(_: Shape, __: Shape, query: Shape, key: Shape, value: Shape | None, *rest: Any, **___: Any) -> int:
    """Scores once more, the gradients of the weights, and one product for each gradient that is needed."""
    of_query, of_key, of_value, of_weight = rest[-1]
    dim, width = key[-1], (value or key)[-1]
    each = dim * (1 + of_query + of_key) + width * (of_query or of_key or of_weight)
    each += width * (of_key if value is None else of_value)
    return 2 * key[0] * query[-3] * query[-2] * each


def read(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    return _attention(query[0], key[1] * key[2], key[-1], value[-1])


def read_backward(_: Shape, query: Shape, key: Shape, value: Shape, *rest: Any, **__: Any) -> int:
    """As of the write."""
    of_query, of_key, of_value = rest[-1]
    each = key[-1] * (1 + of_query + of_key) + value[-1] * ((of_query or of_key) + of_value)
    return 2 * query[0] * key[1] * key[2] * each


def film(x: Shape, context: Shape, *_: Any, **__: Any) -> int:
    return 2 * x[0] * 3 * x[1] * context[1]


def film_backward(_: Shape, inputs: Sequence[Shape], needed: Sequence[bool], **__: Any) -> int:
    """The modulation once more, the gradients of the hidden layer, and one product for each gradient that is needed."""
    (nodes, channels), (*_, hidden) = inputs[:2]
    return 2 * nodes * channels * hidden * (3 + 2 * any(needed[:4]) + needed[0] + needed[2] + 2 * needed[4])


def map_heads(x: Shape, weight: Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(x) * weight[1]


def map_heads_backward(_: Shape, x: Shape, weight: Shape, needed: Sequence[bool], **__: Any) -> int:
    return sum(needed) * map_heads(x, weight)


def register() -> None:
    """Put all of them into torch's table."""
    known = (write, write_backward, read, read_backward, film, film_backward, map_heads, map_heads_backward)
    for formula in known:
        register_flop_formula(getattr(torch.ops.mooring, formula.__name__))(formula)
    aten: Any = torch.ops.aten
    for in_place, out_of_place in ((aten.addmm_, aten.addmm), (aten.baddbmm_, aten.baddbmm)):
        flop_registry.setdefault(in_place, flop_registry[out_of_place])
