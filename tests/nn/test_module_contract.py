"""Contract of every module: deepcopy, state_dict, reset, repr and half precision."""

import copy
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from mooring import ops
from mooring.nn import (
    GlobalFiLM,
    ResidualAdd,
    SlotAggregation,
    SlotConv,
    SlotFiLM,
    SlotRead,
    SlotUpdate,
    SlotVirtualNode,
    SlotWrite,
)
from support import Ragged, assert_close, assert_finite

from modules import CHANNELS, HEADS, NAMES, SLOTS, VIRTUAL_NODES, inputs  # isort: skip

EDGES = torch.tensor([[0, 1, 2, 4, 5], [1, 2, 0, 5, 6]])
MODULES: dict[str, Callable[[], nn.Module]] = {
    **VIRTUAL_NODES,
    "aggregation": lambda: SlotAggregation(CHANNELS, SLOTS, HEADS),
    "conv": lambda: SlotConv(CHANNELS, GCNConv(CHANNELS, CHANNELS), SLOTS, HEADS),
}
EVERY = pytest.mark.parametrize("name", MODULES)
BATCH = Ragged((5, 0, 7, 1), False, seed=1)


def call(name: str, module: nn.Module, dtype: torch.dtype = torch.float32, **kwargs: Any) -> Tensor:
    tensors = inputs(BATCH, name, dtype)
    if name == "conv":
        return module(tensors["x"], EDGES, BATCH.index())
    if name == "aggregation":
        return module(tensors["x"], BATCH.index())
    return module(**tensors, batch=BATCH.index(), **kwargs)


@EVERY
def test_deepcopy_is_equal_and_apart(name: str) -> None:
    module = MODULES[name]()
    twin = copy.deepcopy(module)
    before = call(name, module)
    assert torch.equal(call(name, twin), before)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(0.5)
    assert torch.equal(call(name, module), before)
    assert not torch.equal(call(name, twin), before)


@EVERY
def test_state_dict_round_trip(name: str) -> None:
    module, other = MODULES[name](), MODULES[name]()
    assert not torch.equal(call(name, module), call(name, other)), "the control: two builds differ"
    other.load_state_dict(module.state_dict())
    assert torch.equal(call(name, module), call(name, other))


def moments(module: nn.Module) -> dict[str, tuple[float, float]]:
    return {
        key: (float(p.detach().mean()), float(p.detach().std(correction=0))) for key, p in module.named_parameters()
    }


@EVERY
def test_reset_parameters_restores_the_initial_distribution(name: str) -> None:
    """The order of draws may differ from a new module, so mean and standard deviation are compared."""
    draws = []
    for reset in (False, True):
        total: dict[str, list[float]] = {}
        for seed in range(20):
            torch.manual_seed(seed)
            module: Any = MODULES[name]()
            if reset:
                with torch.no_grad():
                    for parameter in module.parameters():
                        parameter.fill_(7.0)
                module.reset_parameters()
            for key, (mean, spread) in moments(module).items():
                total.setdefault(key, []).append(mean**2 + spread**2)
        draws.append({key: sum(values) / len(values) for key, values in total.items()})
    fresh, again = draws
    for key, size in fresh.items():
        assert again[key] == pytest.approx(size, rel=0.5, abs=1e-12), key


@EVERY
def test_repr_is_short(name: str) -> None:
    text = repr(MODULES[name]())
    assert text.startswith(type(MODULES[name]()).__name__ + "(10, ")
    # The fixtures start far from the identity, which users do not ask for; all other options count.
    assert len(text.replace(", init_std=0.5", "")) < 120
    assert "\n" not in text


def test_repr_says_what_was_built() -> None:
    assert repr(SlotVirtualNode(128, slots=16)) == "SlotVirtualNode(128, slots=16, heads=4, anchored=True)"
    assert repr(SlotAggregation(8, 3)) == "SlotAggregation(8, slots=3, heads=4, anchored=True)"
    assert repr(VIRTUAL_NODES["clones"]()) == "VirtualNode(10, pool='mean', copies=3)"


def test_repr_of_the_parts() -> None:
    assert repr(SlotWrite(8, 3)) == "SlotWrite(8, slots=3, heads=4)"
    assert repr(SlotUpdate(8, 3, anchored=False)) == "SlotUpdate(8, slots=3, heads=4, anchored=False)"
    assert repr(SlotRead(8, 3)) == "SlotRead(8, slots=3, heads=4)"
    assert repr(SlotFiLM(8, linear=True)) == "SlotFiLM(8, linear=True)"
    assert repr(GlobalFiLM(8, 3)) == "GlobalFiLM(8, slots=3)"
    assert repr(ResidualAdd(8)) == "ResidualAdd(8)"


@EVERY
@pytest.mark.parametrize("inside", [True, False], ids=["backward inside", "backward outside"])
def test_autocast_is_finite_and_close(name: str, inside: bool) -> None:
    torch.manual_seed(0)
    module = MODULES[name]()
    exact = call(name, module)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = call(name, module)
        if inside:
            out.float().square().sum().backward()
    if not inside:
        out.float().square().sum().backward()
    assert_finite(out, *(parameter.grad for parameter in module.parameters()))
    torch.testing.assert_close(out.float(), exact, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_statistics_are_float32_under_autocast_and_in_bfloat16(name: str) -> None:
    module = MODULES[name]()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, memory = call(name, module, return_state=True)
    assert out.dtype == torch.float32
    assert memory.state.log_mass.dtype == torch.float32
    out, memory = call(name, module.bfloat16(), torch.bfloat16, return_state=True)
    assert out.dtype == torch.bfloat16
    assert memory.state.log_mass.dtype == torch.float32


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("folded", [False, True])
def test_the_content_of_a_bfloat16_write_is_float32(folded: bool, autocast: bool) -> None:
    module, x = SlotWrite(CHANNELS, 3, 2).bfloat16(), torch.randn(7, CHANNELS).bfloat16()
    module.folded = folded
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        state = module(x)
    assert state.content.dtype == state.log_mass.dtype == torch.float32


@EVERY
def test_bfloat16_module(name: str) -> None:
    torch.manual_seed(0)
    module = MODULES[name]()
    exact = call(name, module)
    out = call(name, module.bfloat16(), torch.bfloat16)
    out.float().square().sum().backward()
    assert_finite(out, *(parameter.grad for parameter in module.parameters()))
    torch.testing.assert_close(out.float(), exact, rtol=0.15, atol=0.15)


@EVERY
def test_every_parameter_gets_a_gradient(name: str) -> None:
    """DDP then works without find_unused_parameters."""
    module = MODULES[name]()
    call(name, module)[:, 0].sum().backward()
    missing = [key for key, parameter in module.named_parameters() if parameter.grad is None]
    assert missing == []


@pytest.mark.parametrize("part", [SlotVirtualNode, SlotAggregation, SlotWrite, SlotRead, SlotUpdate])
def test_four_heads_by_default(part: type[torch.nn.Module]) -> None:
    assert inspect.signature(part).parameters["heads"].default == 4


@pytest.mark.parametrize("part", [SlotVirtualNode, SlotAggregation, SlotUpdate])
def test_anchors_start_at_zero_by_default(part: type[torch.nn.Module]) -> None:
    module = part(CHANNELS, SLOTS, HEADS)
    anchor_logit = (module if part is SlotUpdate else module.update).anchor_logit
    assert not anchor_logit.detach().any()


def test_films_start_near_the_identity_by_default() -> None:
    assert float(SlotFiLM(97).lin_film.weight.detach().std()) == pytest.approx(1e-3, rel=0.05)
    assert float(GlobalFiLM(97, SLOTS).lin_film.weight.detach().std()) == pytest.approx(1e-3, rel=0.05)


def test_the_parts_of_a_virtual_node_take_batch_ptr_or_plan() -> None:
    x, batch, ptr = torch.randn(5, CHANNELS), torch.tensor([0, 0, 2, 2, 2]), torch.tensor([0, 2, 2, 5])
    write, read, film = SlotWrite(CHANNELS, 3, 2), SlotRead(CHANNELS, 3, 2), GlobalFiLM(CHANNELS, 3, init_std=0.5)
    plan, memory = ops.plan(batch), torch.randn(3, 3, CHANNELS)
    for told in ({"batch": plan}, {"plan": plan}, {"ptr": ptr}):
        assert_close(write(x, **told).content, write(x, batch).content)
        assert_close(read(x, memory, **told), read(x, memory, batch))
    assert torch.equal(film(x, None, memory, plan), film(x, None, memory, batch))
    # The last graphs of a memory may be empty, but nodes without ids are those of its only one.
    larger = torch.cat([memory, memory[:2]])
    for told in ({"batch": batch}, {"batch": plan}, {"plan": plan}, {"ptr": ptr}):
        assert_close(read(x, larger, **told), read(x, memory, batch))
    for told in ({}, {"plan": ops.plan(num_nodes=5)}):
        with pytest.raises(ValueError, match="SlotRead: memory has 5 graphs but the nodes are those of 1"):
            read(x, larger, **told)
    with pytest.raises(ValueError, match="SlotRead: got plan and ptr"):
        read(x, memory, ptr=ptr, plan=plan)
    with pytest.raises(ValueError, match="SlotWrite: got plan and batch"):
        write(x, batch, plan=plan)
