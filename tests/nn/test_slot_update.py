"""SlotUpdate: content passes LayerNorm, the mass is added afterwards."""

from typing import Any

import pytest
import torch

from mooring.nn import SlotUpdate
from mooring.nn.masked_batch_norm import MaskedBatchNorm
from mooring.nn.slot_update import LOG_ODDS_FLOOR
from mooring.ops import SlotState
from support import assert_close, assert_finite

from modules import CHANNELS, HEADS, SLOTS  # isort: skip

GRAPHS = 5


def state(mass: float = 0.0) -> SlotState:
    torch.manual_seed(1)
    content = torch.randn(GRAPHS, SLOTS, HEADS, CHANNELS // HEADS)
    return SlotState(content, torch.randn(GRAPHS, SLOTS, HEADS) + mass)


@pytest.mark.parametrize("mass", ["softplus", "log_odds"])
def test_the_mass_survives_the_normalisation(mass: str) -> None:
    """It is added after both LayerNorms, so its map is not rescaled."""
    update = SlotUpdate(CHANNELS, SLOTS, HEADS, mass=mass)  # type: ignore[arg-type]
    with torch.no_grad():
        update.anchor_logit.normal_()
    for parts in ((0.0, 1.0), (0.0, 100.0)):
        little, much = (state(part) for part in parts)
        added = update.mass_mlp(update.mass_feature(much)) - update.mass_mlp(update.mass_feature(little))
        assert float(added.detach().abs().max()) > 1e-3
        assert_close(update(much) - update(little), added, scale=10.0)
    blind = SlotUpdate(CHANNELS, SLOTS, HEADS, anchored=False)
    assert torch.equal(blind(state(1.0)), blind(state()))


@pytest.mark.parametrize(
    ("anchored", "mass", "split"),
    [(True, "softplus", True), (True, "log_odds", True), (True, "softplus", False), (False, "softplus", True)],
)
def test_an_empty_set_is_finite(anchored: bool, mass: str, split: bool) -> None:
    update = SlotUpdate(CHANNELS, SLOTS, HEADS, anchored=anchored, mass=mass, split=split)  # type: ignore[arg-type]
    content = torch.zeros(GRAPHS, SLOTS, HEADS, CHANNELS // HEADS, requires_grad=True)
    log_mass = torch.full((GRAPHS, SLOTS, HEADS), float("-inf"), requires_grad=True)
    memory = update(SlotState(content, log_mass))
    memory.square().sum().backward()
    assert_finite(memory, content.grad)
    if anchored:
        assert_finite(log_mass.grad, update.anchor_logit.grad, update.anchor_value.grad)
        features = update.mass_feature(SlotState(content, log_mass))
        assert bool((features == (0.0 if mass == "softplus" else LOG_ODDS_FLOOR)).all())


@pytest.mark.parametrize("mass", ["softplus", "log_odds"])
def test_every_slot_and_head_measures_by_its_own_anchor(mass: str) -> None:
    """Moving one anchor moves one feature."""
    update = SlotUpdate(CHANNELS, SLOTS, HEADS, mass=mass)  # type: ignore[arg-type]
    before = update.mass_feature(state()).detach()
    for slot in range(SLOTS):
        for head in range(HEADS):
            with torch.no_grad():
                update.anchor_logit.zero_()[slot, head] = 1.5
            moved = (update.mass_feature(state()).detach() != before).all(dim=0)
            assert moved.nonzero().tolist() == [[slot, head]]


def test_private_anchors_tell_empty_slots_apart() -> None:
    empty = SlotState(torch.zeros(1, SLOTS, HEADS, CHANNELS // HEADS), torch.full((1, SLOTS, HEADS), float("-inf")))
    memory = SlotUpdate(CHANNELS, SLOTS, HEADS)(empty)[0].detach()
    assert float((memory[0] - memory[1]).abs().max()) > 1e-3


def test_identity_is_the_residual_of_the_slot_states() -> None:
    update = SlotUpdate(CHANNELS, SLOTS, HEADS)
    shift = torch.randn(SLOTS, CHANNELS)
    assert_close(update(state(), torch.zeros(SLOTS, CHANNELS)), update(state()))
    assert float((update(state(), shift) - update(state())).detach().abs().max()) > 1e-3


@pytest.mark.usefixtures("as_users_run_it")
def test_unknown_mass() -> None:
    with pytest.raises(ValueError, match=r"^SlotUpdate: mass is 'count' but 'softplus' or 'log_odds' was expected\.$"):
        SlotUpdate(CHANNELS, SLOTS, HEADS, mass="count")  # type: ignore[arg-type]


def test_anchors_start_at_anchor_init_also_after_a_reset() -> None:
    update = SlotUpdate(CHANNELS, SLOTS, HEADS, anchor_init=2.5)
    assert torch.equal(update.anchor_logit.detach(), torch.full((SLOTS, HEADS), 2.5))
    torch.nn.init.zeros_(update.anchor_logit)
    update.reset_parameters()
    assert torch.equal(update.anchor_logit.detach(), torch.full((SLOTS, HEADS), 2.5))


def test_a_linear_mass_map_goes_on_as_a_line() -> None:
    update = SlotUpdate(CHANNELS, SLOTS, HEADS, mass="log_odds", mass_map="linear")
    near, far, further = (update(state(mass)) for mass in (0.0, 5.0, 10.0))
    torch.testing.assert_close(further - far, far - near, rtol=1e-4, atol=1e-5)
    bent = SlotUpdate(CHANNELS, SLOTS, HEADS, mass="log_odds")
    near, far, further = (bent(state(mass)) for mass in (0.0, 5.0, 10.0))
    assert not torch.allclose(further - far, far - near, rtol=1e-2)


def test_hidden_content_leaves_the_mass_of_whole_sets() -> None:
    update = SlotUpdate(CHANNELS, SLOTS, HEADS, content_dropout=0.5)
    torch.manual_seed(3)
    trained = update(state())
    mass = update.mass_mlp(update.mass_feature(state()))
    hidden = torch.tensor([torch.equal(trained[graph], mass[graph]) for graph in range(GRAPHS)])
    assert hidden.any()
    assert not hidden.all()
    whole = update.eval()(state())
    assert_close(trained[~hidden], whole[~hidden])
    assert not torch.isclose(whole, mass).all(dim=(1, 2)).any()


@pytest.mark.parametrize("share", [0.1, 0.8])
def test_the_share_of_hidden_sets_is_content_dropout(share: float) -> None:
    update = SlotUpdate(CHANNELS, SLOTS, HEADS, content_dropout=share)
    sets = 2000
    many = SlotState(torch.randn(sets, SLOTS, HEADS, CHANNELS // HEADS), torch.zeros(sets, SLOTS, HEADS))
    mass = update.mass_mlp(update.mass_feature(many))
    hidden = torch.isclose(update(many), mass).all(dim=2).all(dim=1)
    # Five deviations of the binomial share.
    assert abs(float(hidden.float().mean()) - share) < 5 * (share * (1 - share) / sets) ** 0.5
    assert torch.equal(hidden, torch.isclose(update.train()(many), mass).all(dim=2).all(dim=1)) is False, "drawn anew"
    assert not bool(torch.isclose(update.eval()(many), mass).all(dim=2).all(dim=1).any()), "only in training"


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"mass_map": "cubic"}, "'mlp' or 'linear' was expected"),
        ({"content_dropout": 1.0}, r"a share in \[0, 1\) was expected"),
        ({"content_dropout": 0.5, "anchored": False}, "without an anchor there is no mass"),
        ({"content_dropout": 0.5, "split": False}, "without split channels there is no mass"),
    ],
)
def test_invalid_options_raise(arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        SlotUpdate(CHANNELS, SLOTS, HEADS, **arguments)  # type: ignore[arg-type]


def filled(graphs: int, empty: int = 0) -> SlotState:
    """Return states of graphs with writes, then of graphs without."""
    generator = torch.Generator().manual_seed(5)
    content = torch.randn(graphs, SLOTS, HEADS, CHANNELS // HEADS, generator=generator)
    mass = torch.randn(graphs, SLOTS, HEADS, generator=generator)
    none = torch.full((empty, SLOTS, HEADS), -torch.inf)
    return SlotState(torch.cat([content, torch.zeros(empty, *content.shape[1:])]), torch.cat([mass, none]))


def across_graphs() -> SlotUpdate:
    torch.manual_seed(1)
    return SlotUpdate(CHANNELS, SLOTS, HEADS, norm="batch")


def test_a_norm_over_graphs_is_batch_norm_of_every_channel_of_every_slot() -> None:
    ours, theirs = MaskedBatchNorm(SLOTS, CHANNELS), torch.nn.BatchNorm1d(SLOTS * CHANNELS)
    for weight in (ours.weight, ours.bias):
        torch.nn.init.normal_(weight)
    theirs.load_state_dict(
        {"weight": ours.weight.flatten(), "bias": ours.bias.flatten()}
        | {"running_mean": ours.mean.flatten(), "running_var": ours.variance.flatten()}
        | {"num_batches_tracked": torch.tensor(0)}
    )
    for graphs in (2, 7, 5):
        u = torch.randn(graphs, SLOTS, CHANNELS) * 3 + 1
        assert_close(ours(u, torch.ones(graphs, dtype=torch.bool)).flatten(1), theirs(u.flatten(1)))
        assert_close(ours.mean.flatten(), theirs.running_mean)
        assert_close(ours.variance.flatten(), theirs.running_var)
    assert_close(ours.eval()(u, torch.ones(5, dtype=torch.bool)).flatten(1), theirs.eval()(u.flatten(1)))


def test_a_norm_over_graphs_does_not_see_those_that_nothing_was_written_to() -> None:
    few, many = across_graphs(), across_graphs()
    assert_close(few(filled(6)), many(filled(6, empty=9))[:6])
    assert_close(few.norm_out.variance, many.norm_out.variance)
    empty = many(filled(6, empty=9))[6:]
    assert empty.isfinite().all()
    assert_close(empty, empty[:1].expand_as(empty))


@pytest.mark.parametrize("given", [filled(1), filled(1, empty=3), filled(0, empty=2)])
def test_fewer_than_two_graphs_are_normalised_by_running_statistics(given: SlotState) -> None:
    update = across_graphs()
    update(filled(6))
    before = update.norm_in.mean.clone()
    assert before.abs().max() > 0
    trained = update(given)
    assert torch.equal(update.norm_in.mean, before)
    assert_close(trained, update.eval()(given))


def test_in_evaluation_a_norm_over_graphs_does_not_depend_on_the_batch() -> None:
    update = across_graphs()
    update(filled(6))
    whole = filled(6)
    alone = SlotState(whole.content[2:3], whole.log_mass[2:3])
    assert not torch.allclose(update(whole)[2:3], update.eval()(whole)[2:3])
    assert_close(update(whole)[2:3], update(alone))


def test_a_norm_over_graphs_separates_contents_that_hardly_differ() -> None:
    base = torch.randn(1, SLOTS, HEADS, CHANNELS // HEADS)
    near = SlotState(base + 1e-2 * filled(8).content, torch.zeros(8, SLOTS, HEADS))

    def spread(norm: Any) -> float:
        torch.manual_seed(1)
        return float(SlotUpdate(CHANNELS, SLOTS, HEADS, norm=norm)(near).detach().std(dim=0).mean())

    assert spread("batch") > 20 * spread("layer")


def test_a_norm_over_graphs_starts_again() -> None:
    update = across_graphs()
    update(filled(6))
    update.reset_parameters()
    assert torch.equal(update.norm_in.mean, torch.zeros(SLOTS, CHANNELS))
    assert torch.equal(update.norm_out.variance, torch.ones(SLOTS, CHANNELS))


def test_a_norm_over_graphs_in_half_precision_has_finite_gradients() -> None:
    torch.manual_seed(0)
    norm = MaskedBatchNorm(SLOTS, CHANNELS).half()
    u = (1e-3 * torch.randn(GRAPHS, SLOTS, CHANNELS)).half().requires_grad_()
    out = norm(u, torch.ones(GRAPHS, dtype=torch.bool))
    assert_finite(*torch.autograd.grad(out.float().square().sum(), [u, *norm.parameters()]))
    assert out.dtype == torch.float16
    assert norm.mean.dtype == torch.float16
