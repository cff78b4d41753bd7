"""How a context enters a node: bounded, near the identity at first, and what each form can see."""

import pytest
import torch
from torch import nn

from mooring.nn import GlobalFiLM, ResidualAdd, SlotFiLM
from mooring.nn.integrate import modulate
from support import assert_close

from modules import CHANNELS, SLOTS, slots  # isort: skip

NODES, HIDDEN = 7, 13


def test_modulate_is_a_bounded_film() -> None:
    x, film = torch.randn(NODES, CHANNELS), 100 * torch.randn(NODES, 2 * CHANNELS)
    gamma, beta = film.tanh().chunk(2, dim=-1)
    assert_close(modulate(x, film), (1 + 0.5 * gamma) * x + beta)
    assert bool((modulate(x, film).abs() <= 1.5 * x.abs() + 1).all())


def test_slot_film_is_an_mlp_of_node_and_context() -> None:
    """The split first layer is the paper's ``MLP([h, O])``, with the right half inside the read."""
    film = SlotFiLM(CHANNELS, HIDDEN, init_std=0.5)
    x, context, half = torch.randn(NODES, CHANNELS), torch.randn(NODES, 5), torch.randn(HIDDEN, 5)
    joint = nn.Linear(CHANNELS + 5, HIDDEN)
    joint.weight.data = torch.cat([film.lin_node.weight.data, half], dim=1)
    joint.bias.data = film.lin_node.bias.data
    hidden = nn.functional.gelu(joint(torch.cat([x, context], dim=1)))
    assert_close(film(x, context @ half.T, torch.zeros(1, SLOTS, CHANNELS)), modulate(x, film.lin_film(hidden)))


def test_residual_adds_a_gain_of_the_context() -> None:
    x, context = torch.randn(NODES, CHANNELS), torch.randn(NODES, CHANNELS)
    add = ResidualAdd(CHANNELS, init_scale=0.25)
    assert_close(add(x, context, torch.zeros(1, SLOTS, CHANNELS)), x + 0.25 * context)


def test_global_film_is_the_same_for_all_nodes_of_a_graph() -> None:
    film = GlobalFiLM(CHANNELS, SLOTS, HIDDEN, init_std=0.5)
    x, memory = torch.randn(1, CHANNELS).expand(NODES, -1), torch.randn(2, SLOTS, CHANNELS)
    out = film(x, None, memory, torch.tensor([0, 1, 0, 1, 0, 1, 0])).detach()
    assert torch.equal(out[0], out[2])
    assert not torch.allclose(out[0], out[1])


@pytest.mark.parametrize("integrate", ["film", "residual", "global_film"])
def test_identity_at_zero_and_near_it_at_the_default(integrate: str) -> None:
    x = torch.randn(NODES, CHANNELS)
    assert torch.equal(slots(integrate=integrate, init_std=0.0)(x), x)
    change = (slots(integrate=integrate, init_std=1e-3)(x) - x).detach().abs().max()
    assert 0 < float(change) < 0.05
    assert float((slots(integrate=integrate, init_std=0.5)(x) - x).detach().abs().max()) > 0.05, "the control"


def test_a_near_identity_start_lets_gradients_reach_the_routing_and_an_exact_one_does_not() -> None:
    reached = []
    for init_std in (1e-3, 0.0):
        module = slots(init_std=init_std)
        module(torch.randn(NODES, CHANNELS)).square().sum().backward()
        assert module.write.slot.grad is not None
        reached.append(bool(module.write.slot.grad.any()))
    assert reached == [True, False]


def test_a_module_of_your_own() -> None:
    class Replace(nn.Module):
        context_channels = CHANNELS

        def forward(self, x, context, memory, batch):  # type: ignore[no-untyped-def]
            return context

    module = slots(integrate=Replace())
    x = torch.randn(NODES, CHANNELS)
    assert not torch.allclose(module(x), x)
    module.reset_parameters()
