"""The oracle, compared with numbers computed by hand."""

import math

import pytest
import torch

from mooring.ops import SlotState, reference
from support import assert_close

F64 = torch.float64
KEY = torch.tensor([0.0, math.log(2), math.log(5)], dtype=F64).view(3, 1, 1)
VALUE = torch.tensor([3.0, 7.0, 11.0], dtype=F64).view(3, 1, 1)
ONE = torch.ones(1, 1, 1, dtype=F64)


def test_write_is_a_weighted_mean_and_the_log_of_the_weights() -> None:
    state = reference.write(ONE, KEY, VALUE)
    assert state.log_mass.item() == pytest.approx(math.log(1 + 2 + 5), abs=1e-14)
    assert state.content.item() == pytest.approx((3 + 2 * 7 + 5 * 11) / 8, abs=1e-14)


def test_write_keeps_graphs_apart_and_leaves_empty_ones_at_the_identity() -> None:
    state = reference.write(ONE, KEY, VALUE, torch.tensor([2, 0, 2]), num_graphs=4)
    assert_close(state.content.flatten(), torch.tensor([7.0, 0.0, (3 + 55) / 6, 0.0], dtype=F64))
    assert_close(state.log_mass.flatten().exp(), torch.tensor([2.0, 0.0, 6.0, 0.0], dtype=F64))


def test_log_weight_multiplies() -> None:
    state = reference.write(ONE, KEY, VALUE, log_weight=torch.tensor([math.log(13), float("-inf"), 0.0], dtype=F64))
    assert state.log_mass.exp().item() == pytest.approx(13 + 5, abs=1e-12)


def test_a_weight_per_slot_and_head_equals_separate_writes() -> None:
    weight = torch.tensor([[[0.0, 1.0], [-2.0, 0.5]]] * 3, dtype=F64) * torch.arange(3, dtype=F64).view(3, 1, 1)
    together = reference.write(ONE.expand(2, 2, 1), KEY, VALUE, log_weight=weight)
    for slot in range(2):
        for head in range(2):
            alone = reference.write(ONE, KEY, VALUE, log_weight=weight[:, slot, head])
            assert_close(together.content[:, slot, head], alone.content[:, 0, 0])
            assert_close(together.log_mass[:, slot, head], alone.log_mass[:, 0, 0])


def test_read_is_a_softmax_over_the_slots_of_the_nodes_own_graph() -> None:
    query = torch.ones(2, 1, 1, dtype=F64)
    key = torch.tensor([0.0, math.log(3)], dtype=F64).view(2, 1, 1)
    value = torch.tensor([[1.0, 5.0], [10.0, 50.0]], dtype=F64).view(2, 2, 1, 1)
    assert_close(
        reference.read(query, key, value, torch.tensor([1, 0])).flatten(), torch.tensor([40.0, 4.0], dtype=F64)
    )


def test_merge_adds_masses() -> None:
    left, right = reference.write(ONE, KEY[:1], VALUE[:1]), reference.write(ONE, KEY[1:], VALUE[1:])
    whole = reference.write(ONE, KEY, VALUE)
    merged = reference.merge(left, right)
    assert_close(merged.content, whole.content)
    assert_close(merged.log_mass, whole.log_mass)


@pytest.mark.parametrize("size", [0.0, 1e4, -1e4])
def test_merge_weighs_by_mass_at_any_size(size: float) -> None:
    masses = torch.tensor([2.0, 0.0, 5.0, 0.0], dtype=F64).log() + size
    states = [SlotState(VALUE[k].view(1, 1, 1, 1), masses[k].view(1, 1, 1)) for k in range(3)]
    merged = reference.merge(*states)
    assert merged.content.item() == pytest.approx((2 * 3 + 5 * 11) / 7, abs=1e-10)
    assert merged.log_mass.item() == pytest.approx(math.log(7) + size, abs=1e-10)
    nothing = SlotState(ONE.unsqueeze(0), masses[1].view(1, 1, 1).requires_grad_())
    content, log_mass = reference.merge(nothing, nothing)
    assert (content.item(), log_mass.item()) == (0.0, float("-inf"))
    (grad,) = torch.autograd.grad(content.sum(), nothing.log_mass)
    assert grad.item() == 0.0


@pytest.mark.parametrize("size", [0.0, 1e4, -1e4])
def test_anchored_counts_the_anchor_as_one_more_node(size: float) -> None:
    state = reference.write(ONE, KEY, VALUE, log_weight=torch.full((3,), size, dtype=F64))
    anchor_logit, anchor_value = torch.full((1, 1), math.log(17), dtype=F64), torch.full((1, 1, 1), 19.0, dtype=F64)
    z = reference.anchored(state, anchor_logit + size, anchor_value)
    assert z.item() == pytest.approx((17 * 19 + 3 + 14 + 55) / (17 + 8), abs=1e-10)
    expected = {"anchor_weight": 17 / 25, "log_odds": math.log(8 / 17), "softplus_odds": math.log(25 / 17)}
    for name, number in expected.items():
        feature = getattr(reference, name)(state, anchor_logit + size)
        assert feature.item() == pytest.approx(number, abs=1e-10)


def test_the_anchor_weight_of_an_empty_set_is_one() -> None:
    state = SlotState(ONE.unsqueeze(0), torch.full((1, 1, 1), float("-inf"), dtype=F64))
    anchor_logit = torch.full((1, 1), 3.0, dtype=F64)
    assert reference.anchored(state, anchor_logit, 7 * ONE).item() == 7.0
    assert reference.anchor_weight(state, anchor_logit).item() == 1.0
    assert reference.log_odds(state, anchor_logit).item() == float("-inf")
    assert reference.softplus_odds(state, anchor_logit).item() == 0.0


def test_empty_inputs_give_empty_outputs() -> None:
    nobody = torch.zeros(0, 1, 1, dtype=F64)
    assert reference.write(ONE, nobody, nobody, torch.zeros(0).long(), num_graphs=0).content.shape == (0, 1, 1, 1)
    assert reference.read(nobody, ONE, torch.ones(1, 1, 1, 1)).shape == (0, 1, 1)
