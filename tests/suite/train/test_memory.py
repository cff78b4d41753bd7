"""Options of the global module in a config: set by name, checked, and at work in the network that is built."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring import zoo
from mooring.nn import MemoryOptions, SlotVirtualNode
from mooring.suite.train import get_experiment
from mooring.suite.train.config import ConfigError, flat, override, to_json
from mooring.suite.train.experiment import MemoryConfig, list_experiments

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
