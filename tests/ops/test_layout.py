"""Partition of a ragged batch into tiles: every node once, little padding, few tiles."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mooring.ops.plan import Plan, plan
from mooring.ops.tiles import layout
from mooring.ops.tiles.layout import Layout
from mooring.ops.tiles.tile import Block, Run, Tile
from support import TILE_SIZES, Ragged, ragged, tile_sizes

TILE = st.sampled_from(TILE_SIZES)


def cut(index: Tensor | None, num_nodes: int, num_graphs: int) -> list[Tile]:
    where = None if index is None else index >= 0
    plan = Plan(num_nodes, num_graphs, index, None, torch.device("cpu"))
    return Layout.of(plan, None if where is None or bool(where.all()) else where).tiles


def padded_size(tile: Tile) -> int:
    return int(tile.take(torch.zeros(1_000_000)).numel())


@given(ragged(max_graphs=11, max_size=13), TILE, st.booleans())
def test_every_node_is_taken_once_with_its_graph(batch: Ragged, tile: tuple[int, int, int], masked: bool) -> None:
    index = batch.index()
    if masked:
        index = index.masked_fill(~batch.mask(), -1)
    nodes, graphs = torch.arange(batch.num_nodes), torch.arange(batch.num_graphs)
    seen = torch.zeros(batch.num_nodes, dtype=torch.long)
    with tile_sizes(*tile):
        for piece in cut(index, batch.num_nodes, batch.num_graphs):
            block = piece.take(nodes)
            graph_ids = -piece.subtract_(torch.zeros(1, len(block), 1), graphs[piece.graphs].view(1, -1, 1)).flatten()
            real = piece.hide_padding_(torch.ones(1, len(block), 1), 0.0).flatten().bool()
            assert torch.equal(index[block[real]], graph_ids[real].long())
            seen.index_add_(0, block[real], torch.ones_like(block[real]))
    assert torch.equal(seen, (index >= 0).long())


@given(ragged(max_graphs=11, max_size=13), TILE)
def test_put_inverts_take(batch: Ragged, tile: tuple[int, int, int]) -> None:
    x, out = batch.randn(batch.num_nodes, 3), torch.zeros(batch.num_nodes, 3).double()
    with tile_sizes(*tile):
        for piece in cut(batch.index(), batch.num_nodes, batch.num_graphs):
            piece.put(piece.take(x), out)
    assert torch.equal(out, x)


def test_tiles_of_one_graph_are_consecutive_with_first_and_last_marked() -> None:
    with tile_sizes(2, 3):
        parts = cut(torch.tensor([0] * 13 + [1] * 5), 18, 2)
    ends = {(graph.start, tile.first, tile.last) for tile in parts if isinstance(graph := tile.graphs, slice)}
    assert {(0, True, False), (0, False, False), (0, False, True), (1, True, False), (1, False, True)} <= ends


def test_equal_graphs_in_a_row_are_one_view() -> None:
    x = torch.arange(35)
    (tile,) = cut(torch.arange(7).repeat_interleave(5), 35, 7)
    assert isinstance(tile, Block)
    assert tile.length == 5
    assert tile.take(x).data_ptr() == x.data_ptr()


def test_large_graphs_of_one_size_share_views() -> None:
    x = torch.arange(16_000)
    tiles = cut(torch.arange(8).repeat_interleave(2000), 16_000, 8)
    assert [(tile.graphs, tile.nodes) for tile in tiles] == [
        (slice(0, 4), slice(0, 8000)),
        (slice(4, 8), slice(8000, 16_000)),
    ]
    assert tiles[0].take(x).data_ptr() == x.data_ptr()


def test_large_and_small_graphs_of_different_sizes_are_one_view() -> None:
    x = torch.arange(460)
    (tile,) = cut(torch.arange(3).repeat_interleave(torch.tensor([70, 300, 90])), 460, 3)
    assert isinstance(tile, Run)
    assert tile.graphs == slice(0, 3)
    assert tile.sizes == (70, 300, 90)
    assert tile.take(x).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("sizes", [(70, 300, 90), (5, 5, 5), (4, 5, 5)], ids=["run", "equal", "padded"])
def test_empty_graphs_cost_nothing(sizes: tuple[int, ...]) -> None:
    ids = torch.tensor([0, 3, 10**12])
    (tile,) = cut(ids.repeat_interleave(torch.tensor(sizes)), sum(sizes), 10**12 + 1)
    assert isinstance(tile.graphs, torch.Tensor)
    assert tile.graphs.tolist() == ids.tolist()


def test_a_skewed_batch_is_not_padded_to_its_largest_graph() -> None:
    sizes = torch.distributions.LogNormal(4.0, 1.5).sample((128,)).long().clamp(5, 3000)
    index = torch.arange(128).repeat_interleave(sizes)
    blocks = sum(padded_size(tile) for tile in cut(index, index.numel(), 128))
    assert blocks < 1.3 * index.numel()
    assert 128 * int(sizes.max()) > 3 * index.numel(), "the control: padding to the largest would cost several times"


def test_thousands_of_small_graphs_share_few_tiles() -> None:
    sizes = torch.randint(10, 41, (5003,))
    index = torch.arange(5003).repeat_interleave(sizes)
    assert len(cut(index, index.numel(), 5003)) < 2 * index.numel() / layout.TILE + 20


def test_no_nodes_no_tiles() -> None:
    nobody = torch.zeros(0, dtype=torch.long)
    assert cut(nobody, 0, 3) == cut(None, 0, 1) == []
    assert cut(torch.full((5,), -1), 5, 3) == []


def test_graphs_of_one_size_share_products_however_large() -> None:
    for size in (5, layout.LARGE, 2000):
        tiles = cut(torch.arange(3).repeat_interleave(size), 3 * size, 3)
        assert all(isinstance(tile, Block) for tile in tiles), size


def test_large_graphs_of_one_size_that_are_not_neighbours_are_not_copied() -> None:
    sizes = torch.tensor([300, *[10] * 20, 300])
    index = torch.arange(22).repeat_interleave(sizes)
    large = [tile for tile in cut(index, index.numel(), 22) if isinstance(tile, Block) and tile.length == 300]
    assert [(tile.graphs, tile.nodes) for tile in large] == [
        (slice(0, 1), slice(0, 300)),
        (slice(21, 22), slice(500, 800)),
    ]


def test_graphs_of_one_node_count_as_small_ones() -> None:
    sizes = torch.tensor([300, 301, *[1] * 20])
    index = torch.arange(22).repeat_interleave(sizes)
    assert all(isinstance(tile, Block) for tile in cut(index, index.numel(), 22))
    few = index[: 601 + 3]
    assert any(isinstance(tile, Run) for tile in cut(few, few.numel(), 5))


def test_decreasing_offsets_raise() -> None:
    with pytest.raises(ValueError, match="plan: ptr falls from 4 to 2 but it must rise"):
        plan(ptr=torch.tensor([0, 4, 2, 5]))


def test_the_plan_of_some_nodes_keeps_their_graphs() -> None:
    picked = plan(torch.tensor([0, 2, 2, 1]), num_graphs=5).pick(torch.tensor([3, 0, 1]))
    assert (picked.num_nodes, picked.num_graphs, picked.index.tolist()) == (3, 5, [1, 0, 2])
    assert plan(num_nodes=4).pick(torch.tensor([2])).batch is None


def test_many_empty_graphs_are_replaced_by_one() -> None:
    sparse = plan(torch.tensor([7, 2, 7]), num_graphs=10)
    assert (sparse.compact.num_graphs, sparse.compact.index.tolist()) == (3, [1, 0, 1])
    assert sparse.spread(torch.tensor([20, 70, -1])).tolist() == [-1, -1, 20, -1, -1, -1, -1, 70, -1, -1]
    for dense in (plan(torch.tensor([0, 1, 3])), plan(num_nodes=3)):
        assert dense.compact is dense
