from __future__ import annotations

from collections.abc import Iterator

import pytest
from toy_experiment import Toy, ToyNet

from mooring import zoo
from mooring.suite.train import experiment, get_experiment, list_experiments, register_experiment
from mooring.suite.train.experiment import LOWEST_RATE, is_memory, registered_experiment, warmup_then_cosine
from mooring.zoo import registry


@pytest.fixture(autouse=True)
def forget_the_toy() -> Iterator[None]:
    yield
    experiment.EXPERIMENTS.pop("toy", None)
    registry._ENTRIES.pop("counted", None)


def test_a_registered_task_is_found_by_name() -> None:
    assert register_experiment(Toy) is Toy
    assert get_experiment("toy") is Toy


def test_a_task_of_ones_own_is_found_by_path() -> None:
    assert get_experiment("toy_experiment:Toy") is Toy
    with pytest.raises(ValueError, match="toy_experiment has no 'Boy'; did you mean 'Toy'"):
        get_experiment("toy_experiment:Boy")
    with pytest.raises(ValueError, match="cannot import 'no_such_module'"):
        get_experiment("no_such_module:Toy")
    with pytest.raises(ValueError, match="toy_experiment:ToyNet is not a class derived from"):
        get_experiment("toy_experiment:ToyNet")


def test_a_registered_name_is_no_path() -> None:
    with pytest.raises(ValueError, match="unknown task 'toy_experiment:Toy'"):
        registered_experiment("toy_experiment:Toy")


def test_the_modules_of_a_run_are_those_of_its_classes_and_of_its_model() -> None:
    zoo.register("counted", title="counted", paper="2026")(ToyNet)
    original = get_experiment("two-radius-original")
    preset = original.presets["tiny"]
    for model, module in {
        "gcn+vn": "mooring.zoo.baselines",
        "gcn+mooring.nn:VirtualNode": "mooring.nn",
        "gcn+counted": "toy_experiment",
    }.items():
        modules = original(preset, model, 0).source_modules()
        assert {module, "mooring.suite.two_radius.labels", "mooring.suite.train.experiment"} <= modules
    assert "toy_experiment" in Toy(Toy.presets["quick"], "linear", 0).source_modules()


def test_an_unknown_task_gets_a_suggestion() -> None:
    register_experiment(Toy)
    with pytest.raises(ValueError, match="unknown task 'toyy'; did you mean 'toy'"):
        get_experiment("toyy")


def test_two_tasks_of_one_name_are_refused() -> None:
    register_experiment(Toy)
    register_experiment(Toy)
    with pytest.raises(ValueError, match="experiment 'toy' is already Toy"):
        register_experiment(type("Other", (Toy,), {}))


def test_every_task_package_is_listed_with_what_a_run_needs() -> None:
    tasks = list_experiments()
    for name, cls in tasks.items():
        assert cls.name == name
        assert cls.models
        assert len({type(preset) for preset in cls.presets.values()}) == 1
    assert experiment._task_modules().keys() <= tasks.keys()


def test_every_task_has_a_preset_of_its_own_to_begin_with() -> None:
    usual = {name: cls.usual_preset() for name, cls in list_experiments().items()}
    assert usual["two-radius"] == usual["motifs"] == usual["linksets"] == "quick"
    assert usual["two-radius-leaderboard"] == usual["motifs-leaderboard"] == "screen"
    assert all(list_experiments()[name].presets[preset] for name, preset in usual.items())
    fallback = type("Other", (Toy,), {"presets": {"first": None, "second": None}})
    assert fallback.usual_preset() == "first"


def test_memory_is_what_lies_under_the_attribute() -> None:
    names = {name for name, _ in ToyNet().named_parameters() if is_memory(name)}
    assert names == {"memory.weight", "memory.bias"}
    assert not is_memory("memory_norm.weight")
    assert not is_memory("local.memory.weight")


EPOCHS, STEPS = 5, 7


def factors(warmup: float) -> list[float]:
    return [
        warmup_then_cosine(epoch, step, epochs=EPOCHS, steps_per_epoch=STEPS, warmup_epochs=warmup)
        for epoch in range(EPOCHS + 1)
        for step in range(STEPS)
    ]


@pytest.mark.parametrize("warmup", [1.0, 2.5])
def test_rises_then_falls(warmup: float) -> None:
    found = factors(warmup)
    top = round(warmup * STEPS + 0.49)
    rise, fall = found[: top + 1], found[top : EPOCHS * STEPS + 1]
    assert rise[0] > 0
    assert rise == sorted(rise)
    assert fall == sorted(fall, reverse=True)
    assert max(found) == pytest.approx(1.0, abs=0.05)
    assert found[EPOCHS * STEPS] == pytest.approx(LOWEST_RATE)


def test_without_warmup_it_starts_at_the_top_and_stays_at_the_bottom() -> None:
    found = factors(0.0)
    assert found[0] == 1.0
    assert all(factor == pytest.approx(LOWEST_RATE) for factor in found[EPOCHS * STEPS :])


def test_a_run_that_is_all_warmup_never_divides_by_nothing() -> None:
    assert factors(float(EPOCHS))[-1] == pytest.approx(LOWEST_RATE)
