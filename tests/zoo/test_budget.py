"""Equal budgets, by one rule."""

from dataclasses import replace

import pytest
import torch

from mooring import zoo
from mooring.zoo.budget import WithNodeMLP, count
from support import assert_close
from zoo.rivals import ADDRESSED, NAMES, SPEC, build, call

# The paper's Two-Radius, the motif census and the link sets; and half of the first, where slots weigh more.
BUDGETS = {
    "two-radius": zoo.MemorySpec(channels=128, slots=12, temperature=0.35, address_channels=128, mass="log_odds"),
    "small": zoo.MemorySpec(channels=64, slots=12),
}


@pytest.mark.parametrize("spec", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("name", NAMES)
def test_every_module_meets_the_budget(name: str, spec: zoo.MemorySpec) -> None:
    module = zoo.matched(name, spec)
    assert module is not None
    assert count(module) == pytest.approx(zoo.size("anchored", spec), rel=0.05)


def test_the_budget_can_be_given_and_random_numbers_stay() -> None:
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    assert zoo.size("performer", SPEC) > 0
    assert torch.equal(before, torch.random.get_rng_state())
    module = zoo.matched("vn", SPEC, budget=5_000)
    assert module is not None
    assert count(module) == pytest.approx(5_000, rel=0.05)
    assert zoo.matched("none", SPEC) is None


def test_the_reference_is_left_as_it_is() -> None:
    assert type(zoo.matched("anchored", SPEC)) is type(zoo.build("anchored", SPEC))


def test_one_that_cannot_shrink_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'isab' has at least .* Raise the budget"):
        zoo.matched("isab", SPEC, budget=100)


def test_the_added_mlp_sees_targets_only_and_one_at_a_time() -> None:
    spec = replace(ADDRESSED, init_std=0.5)
    torch.manual_seed(0)
    module = WithNodeMLP(build("vn"), spec.channels, 11, init_std=0.5).double()
    given = call(spec)
    targets = torch.arange(len(given.x)) % 2 == 0
    out, memory = given.to(module, targets=targets, return_state=True)
    assert torch.equal(out[~targets], given.x[~targets])
    inside = given.to(module.module, targets=targets)
    assert_close(out[targets], (inside + module.lin_out(torch.nn.functional.gelu(module.lin_in(inside))))[targets])
    assert memory.slots.size(0) == 3  # type: ignore[attr-defined]
    module.reset_parameters()
    assert not torch.allclose(given.to(module), out)
