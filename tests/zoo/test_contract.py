"""What every module of the zoo keeps, whatever is inside: the interface of our virtual nodes."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from mooring import zoo
from mooring.nn import SlotVirtualNode
from mooring.zoo.budget import WithNodeMLP
from support import assert_close, assert_finite
from zoo.rivals import ADDRESSED, EQUIVARIANT, NAMES, RANDOM_EDGES, SLOTTED, SPEC, Call, build, call

SPECS = pytest.mark.parametrize("spec", [SPEC, ADDRESSED], ids=["content", "address"])
EVERY = pytest.mark.parametrize("name", NAMES)


@SPECS
@EVERY
def test_only_targets_change_and_their_features_keep_their_shape(name: str, spec: zoo.MemorySpec) -> None:
    module, given = build(name, spec), call(spec)
    targets = torch.arange(len(given.x)) % 3 != 0
    out = given.to(module, targets=targets)
    assert out.shape == given.x.shape
    assert torch.equal(out[~targets], given.x[~targets])
    assert bool((out[targets] != given.x[targets]).any(dim=1).all())
    if name not in RANDOM_EDGES:
        assert_close(out[targets], given.to(module)[targets])


@EVERY
def test_a_layer_without_a_memory_before_it_may_say_so(name: str) -> None:
    module, given = build(name, SPEC), call(SPEC)
    if name not in RANDOM_EDGES:
        assert torch.equal(given.to(module, memory=None), given.to(module))
    if not getattr(module, "takes_memory", True):
        _, memory = given.to(SlotVirtualNode.from_spec(SPEC).double(), return_state=True)
        with pytest.raises(ValueError, match="takes no memory of the layer before"):
            given.to(module, memory=memory)


@SPECS
@EVERY
def test_only_sources_write(name: str, spec: zoo.MemorySpec) -> None:
    module, given = build(name, spec), call(spec)
    sources = torch.arange(len(given.x)) % 3 != 0
    out = given.to(module, sources=sources)
    moved = given.x.clone()
    moved[~sources] += torch.randn_like(moved[~sources])
    assert_close(Call(moved, given.batch, given.address).to(module, sources=sources)[sources], out[sources])
    # The control: a source that moves is felt by the others.
    moved = given.x.clone()
    moved[1] += torch.randn_like(moved[1])
    others = sources & (given.batch == given.batch[1]) & (torch.arange(len(given.x)) != 1)
    felt = Call(moved, given.batch, given.address).to(module, sources=sources)
    assert float((felt - out)[others].detach().abs().max()) > 1e-6


@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "with_mlp"])
@SPECS
@EVERY
def test_a_node_that_is_left_out_may_hold_anything(name: str, spec: zoo.MemorySpec, wrapped: bool) -> None:
    module, given = build(name, spec), call(spec)
    module = WithNodeMLP(module, spec.channels, 7, init_std=0.5).double() if wrapped else module
    sources = torch.arange(11) % 3 != 0
    spoiled = replace(given, x=given.x.clone(), address=None if given.address is None else given.address.clone())
    spoiled.x[3] = float("nan")
    if spoiled.address is not None:
        spoiled.address[6] = float("inf")
    others = sources | (torch.arange(11) % 9 == 0)
    for targets in (None, torch.arange(11) != 6):
        results = []
        for one in (given, spoiled):
            module.zero_grad()
            out = one.to(module, sources=sources, targets=targets)
            out[others].square().sum().backward()
            results.append([out[others], *(parameter.grad for parameter in module.parameters())])
        assert bool(out[3].isnan().all())
        for expected, found in zip(*results, strict=True):
            assert (expected is None) == (found is None)
            if found is not None:
                assert_close(found, expected)


@SPECS
@pytest.mark.parametrize("name", EQUIVARIANT)
def test_node_order_does_not_matter(name: str, spec: zoo.MemorySpec) -> None:
    module, given = build(name, spec), call(spec)
    order = torch.randperm(len(given.x))
    assert_close(given.pick(order).to(module), given.to(module)[order])


@pytest.mark.parametrize("name", sorted(RANDOM_EDGES))
def test_random_edges_are_not_equivariant(name: str) -> None:
    """A known fact of the method, so that nobody takes it for a property of the zoo."""
    module, given = build(name), call()
    order = torch.randperm(len(given.x))
    deviation = (given.pick(order).to(module) - given.to(module)[order]).detach().abs().max()
    assert float(deviation) > 1e-4


@SPECS
@EVERY
def test_batch_mates_do_not_matter(name: str, spec: zoo.MemorySpec) -> None:
    module, given = build(name, spec), call(spec, sizes=(7, 2, 4))
    out = given.to(module)
    for graph in range(3):
        mine = (given.batch == graph).nonzero().squeeze(1)
        alone = given.pick(mine)
        assert_close(module(alone.x, address=alone.address), out[mine])


@SPECS
@pytest.mark.parametrize("name", EQUIVARIANT)
def test_log_weight_is_a_number_of_copies(name: str, spec: zoo.MemorySpec) -> None:
    module, given = build(name, spec), call(spec)
    copies = torch.arange(len(given.x)) % 3 + 1
    rows = torch.arange(len(given.x)).repeat_interleave(copies)
    first = copies.cumsum(0) - copies
    weighed = given.to(module, log_weight=copies.double().log())
    assert_close(weighed, given.pick(rows).to(module)[first])


@EVERY
def test_multiplicities_keep_their_precision_beside_features_in_half_precision(name: str) -> None:
    module, given = build(name).bfloat16(), call()
    half = replace(given, x=given.x.bfloat16())
    out, memory = half.to(module, log_weight=torch.full((11,), 100.0).log(), return_state=True)
    assert out.dtype == torch.bfloat16
    assert_finite(out)
    if memory is not None and name not in SLOTTED:
        sizes = torch.bincount(given.batch, minlength=3) * 100.0
        assert_close(memory.state.log_mass.exp().flatten(), sizes)  # type: ignore[attr-defined]


@EVERY
def test_a_weight_of_nothing_leaves_a_node_out(name: str) -> None:
    module, given = build(name), call()
    sources = torch.arange(len(given.x)) % 3 != 0
    nothing = torch.where(sources, 0.0, float("-inf")).double()
    assert_close(given.to(module, log_weight=nothing), given.to(module, sources=sources))


@SPECS
@pytest.mark.parametrize("name", SLOTTED)
def test_a_weight_may_be_given_for_every_slot_and_head(name: str, spec: zoo.MemorySpec) -> None:
    module, given = build(name, spec), call(spec)
    log_weight = given.x[:, 0]
    for_each = log_weight[:, None, None].expand(-1, spec.slots, spec.heads)
    assert_close(given.to(module, log_weight=for_each), given.to(module, log_weight=log_weight))


@SPECS
@pytest.mark.parametrize("name", [name for name in SLOTTED if name not in ("gmt", "gmt-mass")])
def test_layers_with_dropout_pass_their_memory_on(name: str, spec: zoo.MemorySpec) -> None:
    module, given = build(name, replace(spec, dropout=0.3)).train(), call(spec)
    _, memory = given.to(module, return_state=True)
    out = given.to(module, memory=memory)
    out.square().sum().backward()
    assert_finite(out, *(parameter.grad for parameter in module.parameters() if parameter.grad is not None))


@SPECS
@EVERY
def test_graphs_without_sources_are_finite_in_value_and_gradient(name: str, spec: zoo.MemorySpec) -> None:
    module, given = build(name, spec), call(spec)
    x = given.x.clone().requires_grad_()
    out = Call(x, given.batch, given.address).to(module, sources=given.batch == 2)
    out.square().sum().backward()
    assert_finite(out, x.grad, *(p.grad for p in module.parameters() if p.grad is not None))
    assert_finite(given.pick(torch.arange(0)).to(module), given.to(module, sources=given.batch < 0))


@SPECS
@EVERY
def test_a_batch_without_graphs_is_empty(name: str, spec: zoo.MemorySpec) -> None:
    nothing = replace(call(spec).pick(torch.arange(0)), num_graphs=0)
    out, memory = nothing.to(build(name, spec), return_state=True)
    assert out.shape == (0, spec.channels)
    assert memory is None or memory.slots.size(0) == 0  # type: ignore[attr-defined]


@SPECS
@EVERY
def test_every_parameter_is_trained(name: str, spec: zoo.MemorySpec) -> None:
    """A parameter that no gradient reaches would be counted in the budget for nothing."""
    module, given = build(name, spec), call(spec)
    # Half a graph without sources, so that anchor values are read too.
    given.to(module, sources=given.batch != 0).square().sum().backward()
    idle = [key for key, parameter in module.named_parameters() if parameter.grad is None]
    assert idle == []
    assert_finite(*(parameter.grad for parameter in module.parameters()))


@EVERY
def test_copies_and_saved_weights_give_the_same(name: str) -> None:
    module, given = build(name), call()
    out = given.to(module)
    assert_close(given.to(copy.deepcopy(module)), out)
    other = build(name, seed=1)
    assert not torch.allclose(given.to(other), out)
    other.load_state_dict(module.state_dict())
    assert_close(given.to(other), out)


@EVERY
def test_reset_draws_every_weight_anew(name: str) -> None:
    module, fresh = build(name), build(name, seed=1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(7.0)
    module.reset_parameters()  # type: ignore[operator]
    for (key, one), other in zip(module.state_dict().items(), fresh.state_dict().values(), strict=True):
        assert not bool((one == 7.0).all()), key
        if one.numel() > 20:
            assert float(one.std()) == pytest.approx(float(other.std()), rel=0.5, abs=1e-9), key


@SPECS
@EVERY
def test_the_memory_can_be_looked_at(name: str, spec: zoo.MemorySpec) -> None:
    module, given = build(name, spec), call(spec)
    out, memory = given.to(module, return_state=True)
    assert_close(out, given.to(module))
    if name in ("transformer", "performer"):
        assert memory is None
    else:
        assert memory.slots.size(0) == 3  # type: ignore[attr-defined]
        assert_finite(memory.slots)  # type: ignore[attr-defined]


@EVERY
def test_a_wrong_width_is_named(name: str, as_users_run_it: None) -> None:
    with pytest.raises(ValueError, match="x has width 11 but channels=12"):
        build(name)(torch.randn(3, 11, dtype=torch.float64))


class Forgetful(nn.Module):
    """The control of this page: one memory for the whole batch."""

    def forward(self, x: torch.Tensor, batch: torch.Tensor, **_: object) -> torch.Tensor:
        return x + x.mean(dim=0)


def test_a_module_that_forgets_the_batch_is_caught() -> None:
    given = call(sizes=(7, 2, 4))
    mine = (given.batch == 0).nonzero().squeeze(1)
    with pytest.raises(AssertionError):
        assert_close(Forgetful()(given.x[mine], given.batch[mine]), given.to(Forgetful())[mine])
