"""Scores of nodes and slots equal the gathered products, on values, gradients and second derivatives."""

import pytest
import torch
from torch import Tensor

from mooring import ops
from mooring.ops.read import slot_scores
from support import WAYS, Ragged, assert_close, assert_same, tile_sizes

from cases import DIM, HEADS, SLOTS  # isort: skip

BATCH = Ragged((0, 5, 5, 1, 0, 13, 2), False, seed=3)
TILES = pytest.mark.parametrize("tile", WAYS, ids=str)
SHARED = pytest.mark.parametrize("shared", [False, True], ids=["slots of each graph", "shared slots"])
HEADED = pytest.mark.parametrize("heads", [1, HEADS])


def inputs(shared: bool, heads: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    graphs = () if shared else (BATCH.num_graphs,)
    return [
        BATCH.randn(*graphs, SLOTS, HEADS, DIM, dtype=dtype, salt=1),
        BATCH.randn(BATCH.num_nodes, heads, DIM, dtype=dtype, salt=2),
    ]


def gathered(slots: Tensor, nodes: Tensor) -> Tensor:
    slots = slots.expand(BATCH.num_graphs, -1, -1, -1)
    return (slots[BATCH.index()] * nodes.unsqueeze(1)).sum(dim=-1)


@TILES
@SHARED
@HEADED
@pytest.mark.parametrize("heads_first", [False, True], ids=["slots first", "heads first"])
def test_equal_the_gathered_products(tile: tuple[int, int, int], shared: bool, heads: int, heads_first: bool) -> None:
    plan = ops.plan(BATCH.index(), num_graphs=BATCH.num_graphs)

    def scores(slots: Tensor, nodes: Tensor) -> Tensor:
        dots = slot_scores(slots, nodes, plan, heads_first=heads_first)
        return dots.transpose(1, 2) if heads_first else dots

    with tile_sizes(*tile):
        assert_same(scores, gathered, *inputs(shared, heads))
        assert_close(
            scores(*inputs(shared, heads, torch.bfloat16)),
            gathered(*map(Tensor.float, inputs(shared, heads, torch.bfloat16))),
        )


@TILES
@HEADED
def test_derivatives(tile: tuple[int, int, int], heads: int) -> None:
    plan = ops.plan(BATCH.index(), num_graphs=BATCH.num_graphs)
    leaves = [tensor.requires_grad_() for tensor in inputs(False, heads)]
    with tile_sizes(*tile):
        assert torch.autograd.gradcheck(
            lambda *inputs: slot_scores(*inputs, plan), leaves, fast_mode=True, check_batched_grad=True
        )
        assert torch.autograd.gradgradcheck(lambda *inputs: slot_scores(*inputs, plan), leaves, fast_mode=True)
