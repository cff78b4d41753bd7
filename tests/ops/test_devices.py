"""What a GPU needs and a CPU can show: which operators a CUDA graph may hold, and where ``--device`` puts tensors."""

import pytest
import torch

import mooring.ops  # noqa: F401  (registers them)
from support import Ragged

from placement import placed  # isort: skip

READS = {"write", "write_backward", "read", "read_backward", "count_graphs"}
NONE = {"film", "film_backward", "map_heads", "map_heads_backward"}


@pytest.mark.parametrize("name", sorted(READS | NONE))
def test_operators_that_read_numbers_back_are_tagged(name: str) -> None:
    tags = getattr(torch.ops.mooring, name).default.tags
    assert (torch.Tag.cudagraph_unsafe in tags) is (name in READS)


def test_batches_are_made_on_the_device() -> None:
    """A device without data stands in for a GPU."""
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
