"""The least a write and a read can cost: their bare matrix products, and one copy of the features."""

from __future__ import annotations

from collections.abc import Callable

import torch


def products(num_nodes: int, dim: int, rows: int, backward: bool) -> Callable[[], None]:
    """The skinny products of write and read over all nodes, graph boundaries ignored; ``rows`` is slots x heads.

    Two for the scores and two for the contents forward; four for each of write and read backward. Outputs are
    allocated beforehand, so that nothing but the products is timed.
    """
    x, rows_by_dim = torch.randn(num_nodes, dim), torch.randn(rows, dim)
    scores, wide, small = torch.rand(num_nodes, rows), torch.empty(num_nodes, dim), torch.empty(rows, dim)
    score_out = torch.empty(num_nodes, rows)

    def run() -> None:
        for direction in ("write", "read"):
            torch.mm(x, rows_by_dim.t(), out=score_out)
            if direction == "write":
                torch.mm(scores.t(), x, out=small)
            else:
                torch.mm(scores, rows_by_dim, out=wide)
            if backward:
                torch.mm(x, rows_by_dim.t(), out=score_out)
                torch.mm(scores, rows_by_dim, out=wide)
                torch.mm(scores, rows_by_dim, out=wide)
                torch.mm(scores.t(), x, out=small)

    return run


def copy(num_nodes: int, dim: int) -> Callable[[], None]:
    """One pass over the features."""
    x, out = torch.randn(num_nodes, dim), torch.empty(num_nodes, dim)

    def run() -> None:
        out.copy_(x)

    return run
