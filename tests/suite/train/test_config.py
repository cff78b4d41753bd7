from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from mooring.suite.train.config import ConfigError, differing_field, override, parse_overrides, strict, to_json
from mooring.suite.train.experiment import TrainConfig, get_experiment

WHERE = "two-radius 'quick'"
CONFIG = TrainConfig(epochs=3, steps_per_epoch=5, learning_rate=0.01)


@dataclass(frozen=True)
class Wide(TrainConfig):
    scales: tuple[int, ...] = (1, 2, 3)
    collapsed: bool = True
    pool: Literal["mean", "sum"] = "mean"
    pair: tuple[int, float] = (1, 2.0)


WIDE = Wide(epochs=3, steps_per_epoch=5, learning_rate=0.01)


def test_unknown_field_names_the_likely_one() -> None:
    with pytest.raises(ConfigError) as caught:
        override(CONFIG, {"global_lr": "0.1"}, WHERE)
    assert str(caught.value) == "two-radius 'quick': unknown field 'global_lr'; did you mean 'memory_lr_scale'?"


@pytest.mark.parametrize(("typed", "meant"), [("epoch", "epochs"), ("lr", "memory_lr_scale"), ("clip", "clip_norm")])
def test_a_suggestion_weighs_letters_and_words(typed: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown field '{typed}'; did you mean '{meant}'"):
        override(CONFIG, {typed: "1"}, WHERE)


def test_unknown_field_unlike_any_lists_them_all() -> None:
    with pytest.raises(ConfigError, match="unknown field 'zzz'; the fields are epochs, steps_per_epoch, "):
        strict(TrainConfig, {"zzz": 1}, WHERE)


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("epochs", "7", 7),
        ("learning_rate", "1e-3", 0.001),
        ("learning_rate", 2, 2.0),
        ("clip_norm", "none", None),
        ("clip_norm", "0.5", 0.5),
        ("scales", "1,5", (1, 5)),
        ("scales", [2, 3], (2, 3)),
        ("scales", "", ()),
        ("collapsed", "False", False),
        ("pool", "sum", "sum"),
        ("pair", "3,4", (3, 4.0)),
    ],
)
def test_text_is_parsed_by_the_fields_type(field: str, text: Any, value: Any) -> None:
    parsed = getattr(override(WIDE, {field: text}, WHERE), field)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epochs", "7.5"),
        ("epochs", 7.5),
        ("epochs", True),
        ("learning_rate", "fast"),
        ("learning_rate", None),
        ("scales", "1,x"),
        ("collapsed", "1"),
        ("collapsed", 1),
        ("pool", "max"),
        ("pair", "3"),
    ],
)
def test_ill_typed_values_are_refused(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^two-radius 'quick': field '{field}' expects .*, got "):
        override(WIDE, {field: value}, WHERE)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("epochs", "0"),
        ("steps_per_epoch", "-1"),
        ("learning_rate", "0"),
        ("learning_rate", "-1e-3"),
        ("learning_rate", "nan"),
        ("learning_rate", "inf"),
        ("memory_lr_scale", "-1"),
        ("weight_decay", "-0.1"),
        ("clip_norm", "-1"),
        ("clip_norm", "0"),
        ("clip_norm", "nan"),
    ],
)
def test_values_no_run_could_use_are_refused(field: str, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^two-radius 'quick': {field}=\S+, expected"):
        override(CONFIG, {field: text}, WHERE)
    with pytest.raises(ConfigError, match=rf"^TrainConfig: {field}="):
        TrainConfig(**{**vars(CONFIG), field: float(text)})


@pytest.mark.parametrize(
    ("task", "field", "text"),
    [
        ("two-radius", "assignments", "0"),
        ("two-radius", "validation_batches", "0"),
        ("two-radius", "temperature", "0"),
        ("two-radius", "count_weight", "nan"),
        ("two-radius-leaderboard", "hopeless_after", "0"),
        ("two-radius-original", "batch_size", "-3"),
        ("two-radius-permutation", "graphs", "0"),
        ("motifs", "batch_size", "0"),
        ("motifs-leaderboard", "channels", "0"),
        ("linksets", "batch_size", "0"),
        ("linksets", "larger_graphs", "0"),
    ],
)
def test_every_task_refuses_them_too(task: str, field: str, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{task} 'tiny': {field}=\S+, expected"):
        override(get_experiment(task).presets["tiny"], {field: text}, f"{task} 'tiny'")


def test_missing_field_is_an_error() -> None:
    with pytest.raises(ConfigError, match="missing field 'learning_rate'"):
        strict(TrainConfig, {"epochs": 1, "steps_per_epoch": 2}, WHERE)


def test_json_round_trip() -> None:
    assert strict(Wide, to_json(WIDE), WHERE) == WIDE


@pytest.mark.parametrize("pair", ["epochs", "=3", ""])
def test_overrides_need_a_name_and_a_value(pair: str) -> None:
    with pytest.raises(ConfigError, match="expected field=value"):
        parse_overrides([pair])


def test_an_override_given_twice_is_an_error() -> None:
    with pytest.raises(ConfigError, match="'epochs' is given twice"):
        parse_overrides(["epochs=3", "epochs=5"])


def test_differing_field_finds_changes_additions_and_removals() -> None:
    nan = float("nan")
    assert differing_field({"a": 1, "b": nan}, {"a": 1, "b": nan}) is None
    assert differing_field({"a": 1, "b": 2}, {"a": 1, "b": 3}) == "b"
    assert differing_field({"a": 1}, {"a": 1, "c": 2}) == "c"
    assert differing_field({"a": 1, "c": None}, {"a": 1}) == "c"
