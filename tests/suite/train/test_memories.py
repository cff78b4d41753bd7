"""Options of the global module: set by name, checked, used by the network, and named if they have no effect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring import zoo
from mooring.nn import MemoryOptions, SlotVirtualNode
from mooring.suite.train import RunRequest, get_experiment, list_experiments, run_one
from mooring.suite.train.config import ConfigError, MemoryConfig, flat, override, to_json
from mooring.suite.train.memories import effective_options, idle_options

MODEL = {"two-radius-original": "gcn+anchored"}
TASKS = [name for name, cls in list_experiments().items() if isinstance(cls.presets["tiny"], MemoryConfig)]


def memories(task: str, config: Any) -> list[SlotVirtualNode]:
    net = get_experiment(task)(config, MODEL.get(task, "anchored"), 0).build()
    return [module for module in net.modules() if isinstance(module, SlotVirtualNode)]


def test_every_task_with_slots_in_its_network_is_here() -> None:
    assert set(TASKS) == set(list_experiments()) - {"motifs"}


@pytest.mark.parametrize("task", TASKS)
def test_options_set_by_name_reach_the_module(task: str) -> None:
    config = override(get_experiment(task).presets["tiny"], {"slots": 3, "integrate": "residual"}, task)
    assert config.memory.slots == flat(config)["slots"] == to_json(config)["slots"] == 3
    found = memories(task, config)
    assert found
    for memory in found:
        assert (memory.slots, memory.channels) == (3, config.channels)
        assert type(memory.integrate).__name__ == "ResidualAdd"


@pytest.mark.parametrize("task", TASKS)
def test_widths_are_the_tasks_and_not_options(task: str) -> None:
    assert "address_channels" not in flat(get_experiment(task).presets["tiny"])
    assert all(memory.channels == 16 for memory in memories(task, override_width(task)))


def override_width(task: str) -> Any:
    return override(get_experiment(task).presets["tiny"], {"channels": 16}, task)


@pytest.mark.parametrize(
    ("field", "value"), [("slots", 0), ("heads", 0), ("update_channels", 0), ("temperature", 0.0), ("init_std", -1.0)]
)
@pytest.mark.parametrize("task", TASKS)
def test_options_no_module_could_use_are_refused(task: str, field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"^{task}: {field}=\S+, expected"):
        override(get_experiment(task).presets["tiny"], {field: value}, task)


def test_but_changes_options_and_fields_and_leaves_the_config_as_it_was() -> None:
    config = MemoryConfig(epochs=3, steps_per_epoch=5, learning_rate=0.1, memory=MemoryOptions(slots=7, heads=2))
    changed = config.but(epochs=2, slots=5)
    assert changed == MemoryConfig(2, 5, 0.1, memory=MemoryOptions(slots=5, heads=2))
    assert config.memory.slots == 7
    with pytest.raises(ConfigError, match=r"^MemoryConfig: unknown field 'slotz'; did you mean 'slots'\?"):
        config.but(slotz=3)


def order(task: str, model: str) -> int:
    cls = get_experiment(task)
    return int(cls(cls.presets["tiny"], model, 0).describe()["order"])


@pytest.mark.parametrize(
    ("task", "models"),
    [
        ("two-radius", ["mpnn-additive", "mpnn-summed", "mpnn", "vn", "vn-sum", "cross-attn", "anchored"]),
        ("two-radius-permutation", ["mpnn", "vn", "cross-attn", "anchored", "mooring.nn:VirtualNode"]),
        ("two-radius-original", ["gcn", "gin", "gat", "gcn+vn-sum", "gat+vn-sum", "gcn+anchored"]),
        ("two-radius-leaderboard", zoo.names()),
        ("motifs-leaderboard", zoo.names()),
        ("motifs", ["mean", "max", "pna", "sum", "cross-attn", "anchored"]),
        ("linksets", ["none", "vn", "vn-sum", "cross-attn", "anchored"]),
    ],
)
def test_models_come_in_the_order_of_tables(task: str, models: list[str]) -> None:
    places = [order(task, model) for model in models]
    assert places == sorted(set(places))


@pytest.mark.parametrize(
    ("task", "model", "title"),
    [
        ("two-radius", "mpnn-summed", "MPNN, embeddings added"),
        ("two-radius", "anchored", "Anchored Cross-Attn VN"),
        ("two-radius", "mooring.nn:VirtualNode", "mooring.nn:VirtualNode"),
        ("two-radius-original", "gcn", "GCN"),
        ("two-radius-original", "gcn+vn-sum", "GCN+VN, sum"),
        ("two-radius-original", "gcn+anchored", "GCN+Anchored"),
        ("two-radius-original", "gcn+cross-attn", "GCN+Cross-Attn"),
        ("motifs", "sum-log", "Sum pool, log head"),
        ("motifs-leaderboard", "gmt", "gmt"),
        ("linksets", "none", "No memory"),
    ],
)
def test_tables_know_a_model_by_its_title(task: str, model: str, title: str) -> None:
    cls = get_experiment(task)
    assert cls(cls.presets["tiny"], model, 0).describe()["title"] == title


@pytest.mark.parametrize("task", ["two_radius", "motifs", "linksets", "meshes"])
def test_data_come_without_trainer_and_models(task: str) -> None:
    code = f"import sys, mooring.suite.{task}.data; print(*sys.modules)"
    source = Path(sys.modules["mooring"].__file__ or "").parent.parent
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(source)}, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert f"mooring.suite.{task}.data" in loaded
    assert not loaded & {"lightning", "mooring.nn", "mooring.zoo", "mooring.suite.train"}


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
