"""Requirements of GPUs that can be tested on a CPU: CUDA graph tags, and devices of created tensors."""

import pytest
import torch
from torch_geometric import Index

from mooring import ops
from mooring.nn import SlotVirtualNode
from support import Ragged

from placement import placed  # isort: skip

READS = {"write", "write_backward", "read", "read_backward", "count_graphs"}
NONE = {"film", "film_backward", "map_heads", "map_heads_backward"}


@pytest.mark.parametrize("name", sorted(READS | NONE))
def test_operators_with_a_host_sync_are_tagged(name: str) -> None:
    tags = getattr(torch.ops.mooring, name).default.tags
    assert (torch.Tag.cudagraph_unsafe in tags) is (name in READS)


def test_batches_are_made_on_the_device() -> None:
    """Use the meta device in place of a GPU."""
    batch = Ragged((3, 0, 5), True, seed=1)
    with placed("meta"):
        for tensor in (batch.randn(2, 3), batch.mask(), torch.zeros(2)):
            assert tensor.is_meta
    assert not batch.randn(2, 3).is_meta


def test_the_same_numbers_are_drawn_everywhere() -> None:
    batch = Ragged((3, 5), False, seed=1)
    with placed("cpu"):
        drawn = batch.randn(7, 2)
    assert torch.equal(drawn, batch.randn(7, 2))


def test_a_plan_of_one_graph_is_on_the_device_of_its_nodes() -> None:
    module, x = SlotVirtualNode(8, 2, 2).to("meta"), torch.randn(5, 8, device="meta")
    assert ops.plan(num_nodes=5, device="meta").index.is_meta
    # Made of a number alone, it goes anywhere; ids do not.
    assert module(x, plan=ops.plan(num_nodes=5)).is_meta
    with pytest.raises(ValueError, match="SlotVirtualNode: the plan is on cpu but x is on meta"):
        module(x, plan=ops.plan(torch.zeros(5, dtype=torch.long)))


def test_ids_as_pyg_indexes_are_checked_too() -> None:
    with pytest.raises(ValueError, match="ids from 0 to 3 but num_graphs=2"):
        ops.plan(Index([0, 0, 3]), num_graphs=2)


@pytest.mark.parametrize("names", [("batch",), ("ptr",), ("batch", "ptr")], ids="+".join)
def test_tensors_are_created_on_the_device_of_the_input(names: tuple[str, ...]) -> None:
    module, x = SlotVirtualNode(8, 2, 2), torch.randn(5, 8)
    call = {"batch": torch.tensor([0, 0, 1, 1, 1]), "ptr": torch.tensor([0, 2, 5])}
    expected = module(x, call["batch"])
    with torch.device("meta"):
        assert torch.equal(module(x, **{name: call[name] for name in names}), expected)
