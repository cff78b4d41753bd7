"""Functions of the two statistics: merging, anchoring, mass features, the total."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mooring import ops
from mooring.ops import SlotState, reference
from support import Ragged, assert_close, assert_finite, assert_same, ragged

from cases import HEADS, SLOTS, VDIM, write_inputs, writer  # isort: skip

GRAPHS = 5


def states(batch: Ragged, parts: int) -> list[SlotState]:
    """Write the same graphs in ``parts`` disjoint parts, some of them empty."""
    query, key, value = write_inputs(batch, "separate heads")
    part = torch.randint(parts, (batch.num_nodes,), generator=batch.generator())
    index = batch.index()
    return [ops.write(query, key, value, index, num_graphs=batch.num_graphs, where=part == p) for p in range(parts)]


@given(ragged(), st.integers(1, 5))
def test_merge_of_any_split_is_the_whole(batch: Ragged, parts: int) -> None:
    whole = writer(ops.write, "separate heads", batch)(*write_inputs(batch, "separate heads"))
    merged = ops.merge(*states(batch, parts))
    assert_close(merged.content, whole.content)
    assert_close(merged.log_mass, whole.log_mass)


@given(ragged(), st.permutations(range(3)))
def test_merge_is_commutative_and_associative(batch: Ragged, order: list[int]) -> None:
    parts = states(batch, 3)
    nested = ops.merge(ops.merge(parts[0], parts[1]), parts[2])
    shuffled = ops.merge(*(parts[i] for i in order))
    assert_close(nested.content, shuffled.content)
    assert_close(nested.log_mass, shuffled.log_mass)


def test_a_plain_mean_of_contents_is_not_a_merge() -> None:
    """Control: a merge that ignores the masses fails the check."""
    batch = Ragged((3, 11), True, seed=5)
    whole = writer(ops.write, "separate heads", batch)(*write_inputs(batch, "separate heads"))
    one, other = states(batch, 2)
    with pytest.raises(AssertionError):
        assert_close((one.content + other.content) / 2, whole.content)


def random_states(count: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(7)
    shapes = [(GRAPHS, SLOTS, HEADS, VDIM), (GRAPHS, SLOTS, HEADS)] * count
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


def pairs(tensors: tuple[Tensor, ...]) -> list[SlotState]:
    return [SlotState(*tensors[at : at + 2]) for at in range(0, len(tensors), 2)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_merge_equals_the_oracle(count: int, dtype: torch.dtype) -> None:
    inputs = random_states(count, dtype)
    assert_same(lambda *t: ops.merge(*pairs(t)), lambda *t: reference.merge(*pairs(t)), *inputs)


def test_merge_gradcheck() -> None:
    inputs = [tensor.requires_grad_() for tensor in random_states(2)]
    assert torch.autograd.gradcheck(lambda *t: tuple(ops.merge(*pairs(t))), inputs)


def test_the_empty_set_is_the_identity() -> None:
    content, log_mass = random_states(1)
    empty = SlotState(torch.zeros_like(content), torch.full_like(log_mass, float("-inf")))
    merged = ops.merge(empty, SlotState(content, log_mass), empty)
    assert_close(merged.content, content)
    assert_close(merged.log_mass, log_mass)
    nothing = ops.merge(empty, empty)
    assert bool(nothing.log_mass.isneginf().all())
    assert not bool(nothing.content.any())


def test_merging_empty_sets_has_finite_gradients() -> None:
    content, log_mass = random_states(1)
    log_mass[1] = float("-inf")
    content, log_mass = content.requires_grad_(), log_mass.requires_grad_()
    state = SlotState(content, log_mass)
    merged = ops.merge(state, state)
    (merged.content.sum() + torch.where(merged.log_mass.isfinite(), merged.log_mass, 0.0).sum()).backward()
    assert_finite(content.grad, log_mass.grad)


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_merge_of_extreme_masses_stays_finite(size: float) -> None:
    content, log_mass = random_states(1, torch.float32)
    merged = ops.merge(SlotState(content, log_mass + size), SlotState(content, log_mass + size))
    assert_close(merged.content, content)
    assert_close(merged.log_mass, log_mass + size + math.log(2))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["light first", "heavy first"])
@pytest.mark.parametrize("gap", [1e3, 1e4])
def test_merge_of_masses_far_apart_is_the_heavier_one(gap: float, order: tuple[int, int]) -> None:
    """Masses must be relative to the largest: relative to another, the exponential of the difference overflows."""
    light, log_mass, heavy, _ = random_states(2, torch.float32)
    contents, masses = [light, heavy], [log_mass, log_mass + gap]
    leaves = [tensor.clone().requires_grad_() for at in order for tensor in (contents[at], masses[at])]
    merged = ops.merge(*pairs(tuple(leaves)))
    assert_close(merged.content, heavy)
    assert_close(merged.log_mass, log_mass + gap)
    grads = torch.autograd.grad(merged.content.sum() + merged.log_mass.sum(), leaves)
    assert_finite(*grads)
    assert_close(grads[2 * order.index(1)], torch.ones_like(heavy))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_anchored_equals_the_oracle(dtype: torch.dtype) -> None:
    logit, value = torch.randn(SLOTS, HEADS, dtype=dtype), torch.randn(SLOTS, HEADS, VDIM, dtype=dtype)

    def run(content: Tensor, log_mass: Tensor, s0: Tensor, a: Tensor, op=ops.anchored) -> Tensor:  # type: ignore[no-untyped-def]
        return op(SlotState(content, log_mass), s0, a)

    inputs = (*random_states(1, dtype), logit, value)
    assert_same(run, lambda *t: run(*t, op=reference.anchored), *inputs)
    assert torch.autograd.gradcheck(run, [tensor.double().requires_grad_() for tensor in inputs])


@pytest.mark.parametrize("feature", ["anchor_weight", "log_odds", "softplus_odds"])
def test_features_of_the_mass_equal_the_oracle(feature: str) -> None:
    def run(log_mass: Tensor, s0: Tensor, module=ops) -> Tensor:  # type: ignore[no-untyped-def]
        return getattr(module, feature)(SlotState(log_mass.unsqueeze(-1), log_mass), s0)

    inputs = (random_states(1)[1], torch.randn(SLOTS, HEADS, dtype=torch.float64))
    assert_same(run, lambda *t: run(*t, module=reference), *inputs)


def test_anchored_is_attention_over_the_nodes_and_one_more() -> None:
    """Adding the anchor as a node with its score and value gives the same result as ``eq:anchored``."""
    batch = Ragged((13,), True, seed=2)
    query, key, value = write_inputs(batch, "separate heads")
    s0, a = batch.randn(SLOTS, HEADS, salt=8), batch.randn(SLOTS, HEADS, VDIM, salt=9)
    scores = torch.cat([torch.einsum("mhd,nhd->nmh", query, key), s0.unsqueeze(0)])
    values = torch.cat([value.unsqueeze(1).expand(-1, SLOTS, -1, -1), a.unsqueeze(0)])
    expected = (scores.softmax(dim=0).unsqueeze(-1) * values).sum(dim=0)
    state = ops.write(query, key, value)
    assert_close(ops.anchored(state, s0, a)[0], expected)
    assert_close(ops.anchor_weight(state, s0)[0], scores.softmax(dim=0)[-1])


def empty_state() -> tuple[SlotState, Tensor]:
    log_mass = torch.full((1, SLOTS, HEADS), float("-inf"), requires_grad=True)
    return SlotState(torch.zeros(1, SLOTS, HEADS, VDIM), log_mass), log_mass


@pytest.mark.parametrize("gap", [10.0, 20.0, 60.0])
def test_a_small_mass_beside_an_anchor_keeps_its_digits_and_its_gradient(gap: float) -> None:
    content = torch.ones(1, 1, 1, 1, requires_grad=True)
    state = ops.SlotState(content, torch.full((1, 1, 1), -gap))
    z = ops.anchored(state, torch.zeros(1, 1), torch.zeros(1, 1, 1))
    (slope,) = torch.autograd.grad(z.sum(), content)
    expected = pytest.approx(1 / (1 + math.exp(gap)), rel=1e-5)
    assert z.item() == expected
    assert slope.item() == expected


def test_an_empty_set_gives_the_anchor_and_finite_gradients() -> None:
    state, log_mass = empty_state()
    s0 = torch.randn(SLOTS, HEADS, requires_grad=True)
    a = torch.randn(SLOTS, HEADS, VDIM, requires_grad=True)
    z = ops.anchored(state, s0, a)
    surprise = ops.softplus_odds(state, s0)
    (z.sum() + surprise.sum() + ops.anchor_weight(state, s0).sum()).backward()
    assert torch.equal(z[0], a)
    assert not bool(surprise.any())
    assert bool((ops.anchor_weight(state, s0) == 1).all())
    assert bool(ops.log_odds(state, s0).isneginf().all())
    assert_finite(log_mass.grad, s0.grad, a.grad)


@given(st.integers(1, 1000))
def test_softplus_odds_of_matching_logits_is_log_one_plus_count(count: int) -> None:
    state = SlotState(torch.zeros(1, 1, 1, 1).double(), torch.full((1, 1, 1), math.log(count), dtype=torch.float64))
    surprise = ops.softplus_odds(state, torch.zeros(1, 1).double())
    assert surprise.item() == pytest.approx(math.log(1 + count), abs=1e-12)


@pytest.mark.parametrize("odds", [-1e4, -30.0, 0.0, 30.0, 1e4])
def test_mass_features_agree_with_the_anchor_weight_at_any_size(odds: float) -> None:
    state = SlotState(torch.zeros(1, 1, 1, 1), torch.full((1, 1, 1), odds, requires_grad=True))
    s0 = torch.zeros(1, 1)
    assert ops.log_odds(state, s0).item() == odds
    exact = max(odds, 0.0) + math.log1p(math.exp(-abs(odds)))
    surprise = ops.softplus_odds(state, s0)
    assert surprise.item() == pytest.approx(exact, rel=1e-5)
    (slope,) = torch.autograd.grad(surprise.sum(), state.log_mass)
    assert_close(slope, 1 - ops.anchor_weight(state, s0))


def test_total_is_the_unnormalised_sum() -> None:
    batch = Ragged((13, 5), False, seed=2)
    query, key, value = write_inputs(batch, "separate heads")
    total = ops.write(query, key, value, batch.index()).total
    weights = torch.einsum("mhd,nhd->nmh", query, key).exp()
    expected = torch.zeros_like(total).index_add(0, batch.index(), torch.einsum("nmh,nhd->nmhd", weights, value))
    assert_close(total, expected)
