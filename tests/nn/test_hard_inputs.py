"""Edge cases: finite outputs and gradients for every virtual node."""

import pytest
import torch
from torch import Tensor, nn

from mooring.nn import SlotVirtualNode
from support import Ragged, assert_close, assert_finite

from modules import CHANNELS, NAMES, build, inputs  # isort: skip

EVERY = pytest.mark.parametrize("name", NAMES)


def run(module: nn.Module, tensors: dict[str, Tensor], **kwargs: object) -> Tensor:
    """Run forward and backward; check that both are finite."""
    x = tensors["x"].detach().clone().requires_grad_()
    out = module(**{**tensors, "x": x}, **kwargs)
    out.square().sum().backward()
    assert_finite(out, x.grad, *(parameter.grad for parameter in module.parameters()))
    return out


@EVERY
@pytest.mark.parametrize("num_graphs", [0, 3])
def test_zero_nodes(name: str, num_graphs: int) -> None:
    batch = Ragged((0,), True, seed=1)
    out = run(build(name), inputs(batch, name), batch=batch.index(), num_graphs=num_graphs)
    assert out.shape == (0, CHANNELS)
    assert build(name)(**inputs(batch, name)).shape == (0, CHANNELS)


@EVERY
def test_empty_graphs_and_one_node(name: str) -> None:
    batch = Ragged((1, 0, 5, 0), True, seed=1)
    run(build(name), inputs(batch, name), batch=batch.index(), num_graphs=4)


@EVERY
def test_all_sources_masked(name: str) -> None:
    batch = Ragged((3, 5), False, seed=1)
    nobody = torch.zeros(8, dtype=torch.bool)
    weightless = torch.full((8,), float("-inf")).double()
    silent = run(build(name), inputs(batch, name), batch=batch.index(), sources=nobody)
    assert_close(run(build(name), inputs(batch, name), batch=batch.index(), log_weight=weightless), silent)


@EVERY
def test_no_targets_is_the_identity(name: str) -> None:
    batch = Ragged((3, 5), False, seed=1)
    tensors = inputs(batch, name)
    out = build(name)(**tensors, batch=batch.index(), targets=torch.zeros(8, dtype=torch.bool))
    assert torch.equal(out, tensors["x"])


@EVERY
def test_features_of_ten_thousand(name: str) -> None:
    batch = Ragged((3, 5), False, seed=1)
    tensors = {key: 1e4 * tensor for key, tensor in inputs(batch, name, torch.float32).items()}
    run(build(name, torch.float32), tensors, batch=batch.index())


@EVERY
def test_non_contiguous_features(name: str) -> None:
    batch = Ragged((3, 5), False, seed=1)
    tensors = inputs(batch, name)
    odd = {key: torch.stack([tensor] * 2, dim=-1)[..., 0] for key, tensor in tensors.items()}
    assert not odd["x"].is_contiguous()
    assert_close(build(name)(**odd, batch=batch.index()), build(name)(**tensors, batch=batch.index()))


def test_a_million_nodes() -> None:
    nodes = 1_000_003
    x = torch.randn(nodes, 8, requires_grad=True)
    module = SlotVirtualNode(8, slots=2, heads=1, integrate="residual")
    out = module(x, torch.randint(1009, (nodes,)))
    out.sum().backward()
    assert_finite(out, x.grad)
