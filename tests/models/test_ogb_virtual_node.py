"""OGB's virtual node against a slow one, and what it shares with ours."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from mooring.models import OGBVirtualNode
from mooring.nn import SlotMemory
from support import Ragged, assert_close, run_script

CHANNELS = 6
BATCH = Ragged((5, 0, 3, 7), False, seed=2)


def features() -> torch.Tensor:
    return BATCH.randn(BATCH.num_nodes, CHANNELS)


@pytest.mark.parametrize("pool", ["sum", "mean"])
@pytest.mark.parametrize("norm", ["batch", "layer", None])
def test_it_is_its_formula_over_two_layers(pool: str, norm: str | None) -> None:
    node, x, index = OGBVirtualNode(CHANNELS, pool, norm=norm).double(), features(), BATCH.index()  # type: ignore[arg-type]
    mlp = nn.Sequential(*(part for pair in zip(node.lins, node.norms, strict=True) for part in (*pair, nn.ReLU())))
    state = torch.zeros(4, CHANNELS, dtype=torch.float64)
    h, carried = x, None
    for _ in range(2):
        total = torch.zeros_like(state).index_add(0, index, h)
        count = index.bincount(minlength=4).clamp(min=1).unsqueeze(1)
        state = mlp(state + (total if pool == "sum" else total / count))
        expected = h + state[index]
        given = {} if carried is None else {"memory": carried}
        h, carried = node(h, index, num_graphs=4, return_state=True, **given)
        assert_close(h, expected)
        assert_close(carried.slots.squeeze(1), state)


def test_only_sources_write_and_only_targets_change() -> None:
    node, x = OGBVirtualNode(CHANNELS, norm="layer").double(), features()
    sources, targets = torch.arange(len(x)) % 3 != 0, torch.arange(len(x)) % 2 == 0
    out = node(x, BATCH.index(), num_graphs=4, sources=sources, targets=targets)
    assert torch.equal(out[~targets], x[~targets])
    moved = torch.where(sources.unsqueeze(1), x, x + 1)
    again = node(moved, BATCH.index(), num_graphs=4, sources=sources, targets=targets)
    assert_close(again - moved, out - x)


def test_reset_and_gradients() -> None:
    node = OGBVirtualNode(CHANNELS)
    with torch.no_grad():
        for parameter in node.parameters():
            parameter.fill_(7.0)
    node.reset_parameters()
    node(features().float(), BATCH.index(), num_graphs=4).sum().backward()
    assert all(parameter.grad is not None for parameter in node.parameters())
    assert not any(bool((parameter == 7.0).all()) for parameter in node.parameters())


def test_it_compiles_without_the_number_of_graphs() -> None:
    run_script(Path(__file__).parent / "ogb_worker.py")


def test_messages(as_users_run_it: None) -> None:
    with pytest.raises(ValueError, match="Pass norm='layer'"):
        OGBVirtualNode(4)(torch.randn(3, 4))
    assert OGBVirtualNode(4).eval()(torch.randn(3, 4)).shape == (3, 4)
    with pytest.raises(ValueError, match="'sum' or 'mean'"):
        OGBVirtualNode(4, "max")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'batch', 'layer' or None"):
        OGBVirtualNode(4, norm="instance")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="x has width 5 but channels=4"):
        OGBVirtualNode(4)(torch.randn(3, 5))


@pytest.mark.parametrize(
    ("spoilt", "error", "words"),
    [
        (lambda carried: carried.slots, TypeError, "memory is a torch.Tensor"),
        (lambda carried: carried._replace(slots=carried.slots[:1]), ValueError, r"slots of shape \(1, 1, 6\)"),
        (
            lambda carried: carried._replace(slots=carried.slots.expand(-1, 3, -1)),
            ValueError,
            r"shape \(4, 3, 6\) but \[graphs, slots, channels\] = \[4, 1, 6\] was expected",
        ),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_a_memory_of_another_batch_or_size_is_refused(
    spoilt: Callable[[SlotMemory], object], error: type[Exception], words: str
) -> None:
    node, x = OGBVirtualNode(CHANNELS).double(), features()
    _, carried = node(x, BATCH.index(), num_graphs=4, return_state=True)
    with pytest.raises(error, match=words):
        node(x, BATCH.index(), num_graphs=4, memory=spoilt(carried))
