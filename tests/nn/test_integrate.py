"""Integrations: bounds, initial identity, and inputs of each kind."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mooring.nn import GlobalFiLM, Integration, ResidualAdd, SlotFiLM, SlotVirtualNode
from mooring.nn.integrate import modulate
from mooring.ops.backend import SMALL_FILM
from support import assert_close

from modules import CHANNELS, HEADS, SLOTS, slots  # isort: skip

NODES, HIDDEN = 7, 13


def test_modulate_is_a_bounded_film() -> None:
    x, film = torch.randn(NODES, CHANNELS), 100 * torch.randn(NODES, 2 * CHANNELS)
    gamma, beta = film.tanh().chunk(2, dim=-1)
    assert_close(modulate(x, film), (1 + 0.5 * gamma) * x + beta)
    assert bool((modulate(x, film).abs() <= 1.5 * x.abs() + 1).all())


def test_slot_film_is_an_mlp_of_node_and_context() -> None:
    """The split first layer equals the paper's ``MLP([h, O])``; its second half is in the read."""
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
    with pytest.raises(ValueError, match="memory has 4 graphs but no batch says"):
        film(torch.randn(4, CHANNELS), None, torch.randn(4, SLOTS, CHANNELS))
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
        slot = module.write.addresses.slot  # type: ignore[union-attr]
        module(torch.randn(NODES, CHANNELS)).square().sum().backward()
        assert slot.grad is not None
        reached.append(bool(slot.grad.any()))
    assert reached == [True, False]


def test_a_custom_integration() -> None:
    class Replace(nn.Module):
        context_channels = CHANNELS

        def forward(self, x, context, memory, batch):  # type: ignore[no-untyped-def]
            return context

    module = slots(integrate=Replace())
    x = torch.randn(NODES, CHANNELS)
    assert not torch.allclose(module(x), x)
    module.reset_parameters()


class Doubled(ResidualAdd):
    """Adds the context twice."""

    def forward(self, x, context, memory, batch=None):  # type: ignore[no-untyped-def]
        return super().forward(x, 2.0 * context, memory, batch)


class Renamed(ResidualAdd):
    """Inherits forward."""


def change(integrate: nn.Module, *, folded: bool = True) -> Tensor:
    torch.manual_seed(0)
    module = slots(integrate=integrate).double()
    assert module.read is not None
    module.write.folded = module.read.folded = folded
    x = torch.randn(NODES, CHANNELS).double()
    return module(x).detach() - x


@pytest.mark.parametrize("folded", [True, False])
def test_the_forward_of_a_subclass_of_the_residual_is_called(folded: bool) -> None:
    usual = change(ResidualAdd(CHANNELS), folded=folded)
    assert float(usual.abs().max()) > 1e-3
    assert_close(change(Renamed(CHANNELS), folded=folded), usual)
    assert_close(change(Doubled(CHANNELS), folded=folded), 2.0 * usual)


def test_hooks_and_an_overridden_forward_are_called() -> None:
    usual = change(ResidualAdd(CHANNELS))
    hooked = ResidualAdd(CHANNELS)
    hooked.register_forward_hook(lambda module, given, out: out + 1.0)
    assert_close(change(hooked), usual + 1.0)
    patched = ResidualAdd(CHANNELS)
    patched.forward = lambda x, context, memory, batch=None: x + 3.0  # type: ignore[assignment,method-assign]
    assert_close(change(patched), torch.full_like(usual, 3.0))


def test_an_unmodified_residual_is_fused_with_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results are equal; only the unfused path computes the context."""
    add = ResidualAdd(CHANNELS)
    gain = add.residual_gain()
    assert gain is add.gain
    assert Renamed(CHANNELS).residual_gain() is not None
    assert Doubled(CHANNELS).residual_gain() is None
    module = slots(integrate=add).double()
    x = torch.randn(NODES, CHANNELS).double()
    fused = module(x)
    monkeypatch.setattr(ResidualAdd, "residual_gain", lambda self: None)
    assert_close(module(x), fused)


def test_a_custom_integration_may_leave_the_sum_to_the_read() -> None:
    class Twice(nn.Module):
        context_channels = CHANNELS

        def residual_gain(self) -> Tensor:
            return torch.full((CHANNELS,), 2.0).double()

        def forward(self, *_: object) -> Tensor:
            raise AssertionError("the read adds")

    class Once(Twice):
        def residual_gain(self) -> Tensor:
            return torch.ones(CHANNELS).double()

    assert_close(change(Twice()), 2.0 * change(Once()))


def test_the_three_are_integrations_and_any_module_is_not() -> None:
    for module in (SlotFiLM(CHANNELS), ResidualAdd(CHANNELS), GlobalFiLM(CHANNELS, SLOTS)):
        assert isinstance(module, Integration)
    assert not isinstance(nn.Linear(CHANNELS, CHANNELS), Integration)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("width", "error", "words"),
    [
        (None, TypeError, "integrate is a Bare without context_channels"),
        (-1, ValueError, "context_channels is -1"),
        (2.0, TypeError, "context_channels is 2.0"),
    ],
)
def test_a_module_without_context_channels_raises_when_built(width: object, error: type, words: str) -> None:
    class Bare(nn.Module):
        pass

    bare: Any = Bare()
    if width is not None:
        bare.context_channels = width
    with pytest.raises(error, match=words) as caught:
        slots(integrate=bare)
    assert "SlotVirtualNode" in str(caught.value)
    assert "Bare" in str(caught.value)


@pytest.mark.parametrize(("kind", "spread"), [("film", 1e-3), ("global_film", 1e-3)])
def test_the_default_start_is_the_papers_deviation(kind: str, spread: float) -> None:
    """``app:protocol``: the last weights have standard deviation 1e-3, the bias is zero."""
    lone = [SlotFiLM(101), GlobalFiLM(101, SLOTS)][kind == "global_film"]
    for film in (lone, SlotVirtualNode(100, SLOTS, integrate=kind).integrate):  # type: ignore[arg-type]
        assert float(film.lin_film.weight.detach().std()) == pytest.approx(spread, rel=0.1)
        assert not bool(film.lin_film.bias.any())


def test_the_default_gain_of_the_residual_is_a_tenth() -> None:
    for add in (ResidualAdd(CHANNELS), SlotVirtualNode(CHANNELS, SLOTS, HEADS, integrate="residual").integrate):
        assert torch.equal(add.gain.detach(), torch.full((CHANNELS,), 0.1))


@pytest.mark.parametrize("name", ["lin_node", "lin_film"])
@pytest.mark.parametrize("nodes", [NODES, SMALL_FILM // CHANNELS + 1], ids=["few nodes", "many nodes"])
def test_a_map_without_a_bias_works_whatever_the_size(name: str, nodes: int) -> None:
    film = SlotFiLM(CHANNELS, HIDDEN, init_std=0.5)
    zero = getattr(film, name)
    nn.init.zeros_(zero.bias)
    x, context, memory = torch.randn(nodes, CHANNELS), torch.randn(nodes, HIDDEN), torch.zeros(1, SLOTS, CHANNELS)
    expected = film(x, context, memory)
    zero.bias = None
    assert_close(film(x, context, memory), expected)
