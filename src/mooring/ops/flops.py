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


def _attention_backward(nodes: int, rows: int, dim: int, width: int) -> int:
    """Scores once more, the gradients of the weights, and one product for each of query, key and value."""
    return 2 * nodes * rows * (3 * dim + 2 * width)


def write(query: Shape, key: Shape, value: Shape | None, *_: Any, **__: Any) -> int:
    return _attention(key[0], query[-3] * query[-2], key[-1], (value or key)[-1])


def write_backward(_: Shape, __: Shape, query: Shape, key: Shape, value: Shape | None, *___: Any, **____: Any) -> int:
    return _attention_backward(key[0], query[-3] * query[-2], key[-1], (value or key)[-1])


def read(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    return _attention(query[0], key[1] * key[2], key[-1], value[-1])


def read_backward(_: Shape, query: Shape, key: Shape, value: Shape, *__: Any, **___: Any) -> int:
    return _attention_backward(query[0], key[1] * key[2], key[-1], value[-1])


def film(x: Shape, context: Shape, *_: Any, **__: Any) -> int:
    return 2 * x[0] * 3 * x[1] * context[1]


def film_backward(_: Shape, x: Shape, context: Shape, *__: Any, **___: Any) -> int:
    return 3 * film(x, context)


def map_heads(x: Shape, weight: Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(x) * weight[1]


def map_heads_backward(_: Shape, x: Shape, weight: Shape, *__: Any, **___: Any) -> int:
    return 2 * map_heads(x, weight)


def register() -> None:
    """Put all of them into torch's table."""
    known = (write, write_backward, read, read_backward, film, film_backward, map_heads, map_heads_backward)
    for formula in known:
        register_flop_formula(getattr(torch.ops.mooring, formula.__name__))(formula)
    aten: Any = torch.ops.aten
    for in_place, out_of_place in ((aten.addmm_, aten.addmm), (aten.baddbmm_, aten.baddbmm)):
        flop_registry.setdefault(in_place, flop_registry[out_of_place])
