"""An option that is set and has no effect is named; one that has an effect is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.suite.train import RunRequest, get_experiment, run_one
from mooring.suite.train.effect import idle_options
from mooring.suite.train.experiment import effective_options

OPTIONS = {
    "temperature": 0.7,
    "init_std": 0.25,
    "mass": "softplus",
    "split": False,
    "integrate": "residual",
    "anchor_init": 1.5,
    "mass_map": "linear",
    "update_norm": "batch",
    "content_dropout": 0.5,
    "dropout": 0.5,
    "competition": True,
}
# What each model sets itself or has no place for; all others obey every option.
IDLE = {
    "mpnn": set(OPTIONS),
    "vn": set(OPTIONS),
    "anchored": set(),
    "cross-attn": {"mass", "split", "anchor_init", "mass_map"},
    "moored": {"mass", "anchor_init", "mass_map", "competition"},
    "gmt": {"mass", "split", "anchor_init", "mass_map", "competition"},
}


@pytest.mark.parametrize("model", IDLE)
def test_options_without_effect_are_found(model: str) -> None:
    cls = get_experiment("two-radius")
    preset = cls.presets["tiny"]
    # There is no content to hide where there is no mass beside it: such a run is refused.
    options = {name: OPTIONS[name] for name in OPTIONS if name != "content_dropout" or "split" not in IDLE[model]}
    found = {
        name for name in options if idle_options(cls(preset.but(**{name: OPTIONS[name]}), model, 0), preset, [name])
    }
    assert found == IDLE[model] & options.keys()


def test_several_options_are_told_apart() -> None:
    cls = get_experiment("two-radius")
    preset = cls.presets["tiny"]
    changes = {"anchor_init": 1.5, "temperature": 0.7, "epochs": 2, "slots": preset.but().memory.slots}  # type: ignore[attr-defined]
    assert idle_options(cls(preset.but(**changes), "moored", 0), preset, changes) == ["anchor_init"]


def test_an_option_that_others_need_has_an_effect() -> None:
    cls = get_experiment("two-radius")
    preset = cls.presets["tiny"].but(split=False)
    changes = {"split": True, "content_dropout": 0.5}
    assert idle_options(cls(preset.but(**changes), "anchored", 0), preset, changes) == []


def test_a_run_says_so_once_and_trains_as_without(tmp_path: Path) -> None:
    plain = run_one(RunRequest("two-radius", "moored", 0, "tiny", out=tmp_path))
    with pytest.warns(UserWarning, match=r"^set without effect: anchor_init\. 'moored' has no such option or sets it"):
        same = run_one(RunRequest("two-radius", "moored", 0, "tiny", {"anchor_init": "5"}, tmp_path))
    assert same.metrics == plain.metrics
    assert same.config["anchor_init"] == 5.0
    assert same.changed == {"anchor_init": 0.0}
    assert plain.changed == {}
    # The config has what was asked for, the options what was built.
    assert plain.config["competition"] is False
    assert plain.options is not None
    assert plain.options["competition"] is True
    assert same.options == plain.options


@pytest.mark.parametrize("model", [name for name, idle in IDLE.items() if idle != set(OPTIONS)])
def test_recorded_options_are_those_of_the_module_as_built(model: str) -> None:
    cls = get_experiment("two-radius")
    preset = cls.presets["tiny"]

    def built(**changes: Any) -> dict[str, Any]:
        return effective_options(cls(preset.but(**changes), model, 0).build())

    usual = built()
    for name in OPTIONS.keys() - {"content_dropout", "split"}:
        expected = {} if name in IDLE[model] else {name: OPTIONS[name]}
        assert built(**{name: OPTIONS[name]}) == usual | expected
    assert effective_options(cls(preset, "vn", 0).build()) == {}


def test_a_task_without_a_memory_has_no_such_options() -> None:
    cls = get_experiment("motifs")
    preset = cls.presets["tiny"]
    assert idle_options(cls(preset.but(slots=3), "mean", 0), preset, {"slots": 3}) == []
