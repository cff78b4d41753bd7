"""Equal budgets, and an end when a run is solved or hopeless."""

import pytest

from mooring import zoo
from mooring.suite.two_radius import LeaderboardExperiment
from mooring.suite.two_radius.experiment import SCREEN


def memory_size(model: str) -> int:
    net = LeaderboardExperiment(SCREEN, model, 0).build()
    return sum(parameter.numel() for name, parameter in net.named_parameters() if name.startswith("memory."))


@pytest.mark.parametrize("model", [name for name in zoo.names() if name != "none"])
def test_budgets_differ_by_a_twentieth_at_most(model: str) -> None:
    assert memory_size(model) == pytest.approx(memory_size("anchored"), rel=0.05)


@pytest.mark.parametrize(
    ("both", "stops"),
    [
        ([0.01] * 9, False),
        ([0.01] * 10, True),
        ([0.01, 0.06, *[0.01] * 11], False),
        ([0.3, 1.0], True),
        ([0.3, 0.999], False),
    ],
)
def test_a_run_ends_when_solved_or_hopeless(both: list[float], stops: bool) -> None:
    experiment = LeaderboardExperiment(SCREEN, "vn", 0)
    assert experiment.should_stop([{"both": value} for value in both]) is stops
