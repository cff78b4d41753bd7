"""The slot's own computation: content through LayerNorm, mass around it."""

import pytest
import torch

from mooring.nn import SlotUpdate
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
    """It is added behind both LayerNorms: what it adds is what its own map makes of it, at any size."""
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


@pytest.mark.parametrize("anchored", [True, False])
@pytest.mark.parametrize("mass", ["softplus", "log_odds"])
@pytest.mark.parametrize("split", [True, False])
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


def test_anchors_start_where_they_are_told_also_after_a_reset() -> None:
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
def test_the_share_of_hidden_sets_is_the_one_asked_for(share: float) -> None:
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
def test_what_cannot_be_is_refused(arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        SlotUpdate(CHANNELS, SLOTS, HEADS, **arguments)  # type: ignore[arg-type]
