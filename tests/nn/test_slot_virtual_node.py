"""The addressable virtual node as a whole."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.func import functional_call

from mooring import ops
from mooring.nn import SlotVirtualNode
from support import Ragged, assert_close, assert_finite, assert_same, ragged, tile_sizes

from modules import CHANNELS, HEADS, NAMES, SLOTS, build, inputs, slots  # isort: skip

SLOTTED = [name for name in NAMES if isinstance(build(name), SlotVirtualNode)]
BATCH = Ragged((5, 0, 7, 1), False, seed=1)


@given(ragged(3), st.sampled_from(SLOTTED), st.booleans())
def test_folded_equals_plain_on_values_and_all_gradients(batch: Ragged, name: str, masked: bool) -> None:
    module = build(name)
    names = [key for key, _ in module.named_parameters()]
    masks = {"sources": batch.mask(salt=4), "targets": batch.mask(salt=5)} if masked else {}
    address = inputs(batch, name).get("address")

    def run(folded: bool, x: Tensor, *parameters: Tensor) -> Tensor:
        for part in (module.write, module.read):
            if part is not None:
                part.folded = folded
        kwargs = {"address": address, "num_graphs": batch.num_graphs, **masks}
        return functional_call(module, dict(zip(names, parameters, strict=True)), (x, batch.index()), kwargs)

    with tile_sizes(11, 7):
        x = inputs(batch, name)["x"]
        assert_same(lambda *t: run(True, *t), lambda *t: run(False, *t), x, *module.parameters())


@pytest.mark.parametrize("name", SLOTTED)
def test_memory_shows_what_happened(name: str) -> None:
    module, given_ = build(name), inputs(BATCH, name)
    sources = BATCH.mask(salt=4)
    call = {**given_, "batch": BATCH.index(), "sources": sources, "num_graphs": 5}
    out, memory = module(**call, return_state=True)
    assert torch.equal(out, module(**call))
    count = module.slots
    assert memory.state.content.shape == (5, count, HEADS, CHANNELS // HEADS)
    assert memory.state.log_mass.shape == (5, count, HEADS)
    assert memory.slots.shape == (5, count, CHANNELS)
    assert memory.write_weights.shape == (BATCH.num_nodes, count, HEADS)
    assert not bool(memory.write_weights[~sources].any())
    written = torch.zeros(5, count, HEADS).double().index_add(0, BATCH.index(), memory.write_weights)
    assert_close(written, memory.state.log_mass.isfinite().double())
    assert (memory.anchor_weight is None) == ("cross-attn" in name)
    if memory.anchor_weight is not None:
        assert bool((memory.anchor_weight[1] == 1).all()), "an empty graph is all anchor"
    assert (memory.read_weights is None) == (name == "global film")
    if memory.read_weights is not None:
        assert_close(memory.read_weights.sum(dim=1), torch.ones(BATCH.num_nodes, HEADS).double())


def test_weights_of_a_masked_node_with_a_huge_score_are_zero() -> None:
    module = slots()
    x = torch.randn(5, CHANNELS)
    x[2] = 1e4 * torch.randn(CHANNELS)
    x.requires_grad_()
    sources = torch.tensor([True, True, False, True, True])
    _, memory = module(x, sources=sources, return_state=True)
    assert memory.write_weights is not None
    assert not bool(memory.write_weights[2].any())
    memory.write_weights.square().sum().backward()
    assert_finite(x.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("graphs", [1, 2])
def test_weights_with_multiplicities_of_any_precision_still_sum_to_one(graphs: int, dtype: torch.dtype) -> None:
    x, weight, batch = torch.randn(5, CHANNELS), torch.randn(5).to(dtype), torch.arange(5) % graphs
    out, memory = slots()(x, batch, sources=torch.arange(5) > 1, log_weight=weight, return_state=True)
    assert out.dtype == memory.write_weights.dtype == torch.float32
    total = torch.zeros(graphs, SLOTS, HEADS).index_add(0, batch, memory.write_weights)
    assert_close(total, torch.ones(graphs, SLOTS, HEADS))


def test_slots_start_different_and_stay_so() -> None:
    """``copies`` of one state stay equal; slots differ from the first step."""
    _, memory = slots()(torch.randn(7, CHANNELS), return_state=True)
    gaps = torch.pdist(memory.slots[0].detach())
    assert float(gaps.min()) > 1e-2


@pytest.mark.parametrize("anchored", [True, False])
def test_the_memory_is_the_equations_by_hand(anchored: bool) -> None:
    """``eq:slotread`` with its residual, ``S + mu W_O``, and the mass, if any, after both normalisations."""
    module = slots(anchored=anchored, routing="free").double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter))
    x = BATCH.randn(BATCH.num_nodes, CHANNELS)
    _, memory = module(x, BATCH.index(), return_state=True)
    update, (content, log_mass) = module.update, memory.state
    if anchored:
        content = torch.where(log_mass.isneginf().unsqueeze(-1), update.anchor_value, content)
    u = update.norm_in(module.write.slot + update.lin_out(content.flatten(-2)))
    expected = update.norm_out(u + update.feed_forward(u))
    if anchored:
        assert len(update.anchor_logit.unique()) == SLOTS * HEADS, "every slot and head has an anchor of its own"
        expected = expected + update.mass_mlp((1 + (log_mass - update.anchor_logit).exp()).log())
    assert_close(memory.slots, expected)


def test_with_addresses_the_memory_has_no_slot_states_to_add() -> None:
    module = build("addressed")
    _, memory = module(**inputs(BATCH, "addressed"), batch=BATCH.index(), return_state=True)
    assert_close(memory.slots, module.update(memory.state))


def test_merge_makes_two_parts_one_memory() -> None:
    """As in a process with half of a graph that receives the state of the other half."""
    batch = Ragged((11,), True, seed=2)
    x = batch.randn(11, CHANNELS)
    whole, part = build("anchored"), build("anchored")
    elsewhere = part.write(x[5:])
    part.merge = lambda state: ops.merge(state, elsewhere)
    assert_close(part(x[:5]), whole(x)[:5])
