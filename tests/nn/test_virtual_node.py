"""The homogeneous virtual node: pools, clones and limits."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mooring.nn import VirtualNode
from mooring.nn.virtual_node import POOLS, pooled_max, pooled_mean
from support import Ragged, assert_close, assert_finite, ragged

from modules import CHANNELS, build  # isort: skip


@given(ragged(3), st.booleans())
def test_pools_are_what_their_names_say(batch: Ragged, masked: bool) -> None:
    x, index = batch.randn(batch.num_nodes, CHANNELS), batch.index()
    sources = batch.mask() if masked else torch.ones(batch.num_nodes, dtype=torch.bool)
    mean = pooled_mean(x, index, sources=sources, num_graphs=batch.num_graphs)
    top = pooled_max(x, index, sources=sources, log_weight=None, num_graphs=batch.num_graphs)
    for graph in range(batch.num_graphs):
        mine = x[(index == graph) & sources]
        nothing = torch.zeros(CHANNELS).double()
        assert_close(mean.content[graph, 0, 0], mine.mean(dim=0) if len(mine) else nothing)
        assert_close(mean.total[graph, 0, 0], mine.sum(dim=0))
        assert_close(mean.log_mass[graph, 0, 0].exp(), torch.tensor(float(len(mine))).double())
        assert_close(top[graph], mine.amax(dim=0) if len(mine) else nothing)


def test_the_state_is_the_papers() -> None:
    """``z = s + MLP(s + pool)`` and a residual joint MLP of node and state."""
    module, x = build("sum"), Ragged((7,), True, seed=1).randn(7, CHANNELS)
    out, memory = module(x, return_state=True)
    z = module.state + module.update(module.state + x.sum(dim=0))
    assert_close(memory.slots[0], z)
    hidden = torch.nn.functional.gelu(module.lin_node(x) + module.lin_state(z))
    assert_close(out, x + 0.2 * module.lin_out(hidden))


def test_the_logarithm_of_a_sum_keeps_the_state_of_a_large_graph_in_range() -> None:
    """``asinh`` of the sum, which still counts; the plain sum, the control, grows with the graph."""
    module, x = VirtualNode(CHANNELS, "log_sum").double(), torch.rand(7, CHANNELS, dtype=torch.float64)
    _, memory = module(x, return_state=True)
    assert_close(memory.slots[0], module.state + module.update(module.state + x.sum(dim=0).asinh()))
    plain = VirtualNode(CHANNELS, "sum").double()
    plain.load_state_dict(module.state_dict())
    copies = x.repeat(10_000, 1)
    large, larger = (pool(copies, return_state=True)[1].slots.detach() for pool in (module, plain))
    assert float((large - memory.slots.detach()).abs().max()) > 0.01
    assert float(large.abs().max()) < 10 < float(larger.abs().max())


def test_clones_stay_equal_after_training() -> None:
    """The symmetry lemma: copies with one initial state and shared updates stay equal."""
    module = VirtualNode(CHANNELS, copies=3).double()
    optimiser = torch.optim.Adam(module.parameters(), lr=0.05)
    x, index = torch.randn(11, CHANNELS).double(), torch.arange(11) % 2
    for _ in range(5):
        optimiser.zero_grad()
        module(x, index).square().sum().backward()
        optimiser.step()
    assert bool(module.state.any()), "the states were trained"
    _, memory = module(x, index, return_state=True)
    assert_close(module.state[1], module.state[0])
    assert_close(memory.slots[:, 2], memory.slots[:, 0])


def test_clones_that_start_apart_do_not_stay_equal() -> None:
    """The control."""
    module = VirtualNode(CHANNELS, copies=3)
    torch.nn.init.normal_(module.state)
    _, memory = module(torch.randn(11, CHANNELS), return_state=True)
    assert not torch.allclose(memory.slots[:, 2], memory.slots[:, 0])


@pytest.mark.parametrize("pool", POOLS)
def test_empty_graphs_and_masked_weights(pool: str) -> None:
    module = VirtualNode(CHANNELS, pool=pool)  # type: ignore[arg-type]
    x = torch.randn(5, CHANNELS, requires_grad=True)
    weight = torch.tensor([0.0, 0.0, float("-inf"), 0.0, 0.0])
    out = module(x, torch.tensor([0, 0, 2, 3, 3]), log_weight=weight, num_graphs=5)
    out.sum().backward()
    assert_finite(out, x.grad)


@pytest.mark.usefixtures("as_users_run_it")
def test_unknown_pool() -> None:
    with pytest.raises(ValueError, match=r"^VirtualNode: pool is 'median' .* 'log_sum' or 'max' was expected\.$"):
        VirtualNode(CHANNELS, pool="median")  # type: ignore[arg-type]


def test_without_a_joint_mlp_every_node_gets_the_same_update() -> None:
    """The change is equal for all nodes of a graph; with the joint MLP, the control, it is not."""
    x = torch.randn(7, CHANNELS, dtype=torch.float64)
    batch = torch.tensor([0, 0, 0, 0, 1, 1, 1])
    alike, joint = (VirtualNode(CHANNELS, joint=joint).double()(x, batch) - x for joint in (False, True))
    assert_close(alike[:4], alike[:1].expand(4, -1))
    assert not torch.allclose(alike[0], alike[4])
    assert not torch.allclose(joint[:4], joint[:1].expand(4, -1))


def test_node_and_state_share_one_bias() -> None:
    assert VirtualNode(CHANNELS).lin_state.bias is None
    assert VirtualNode(CHANNELS, joint=False).lin_state.bias is not None
