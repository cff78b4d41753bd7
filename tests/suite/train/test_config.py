from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pytest

from mooring.suite.train.config import (
    ConfigError,
    TrainConfig,
    defaults,
    flat,
    override,
    parse_overrides,
    parse_seeds,
    strict,
    to_json,
)
from mooring.suite.train.experiment import get_experiment

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


@pytest.mark.parametrize(
    ("text", "seeds"), [("0", [0]), ("0,3", [0, 3]), ("2-4", [2, 3, 4]), ("0-1, 7", [0, 1, 7]), ("5-5", [5])]
)
def test_seeds_are_read(text: str, seeds: list[int]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5-2", r"5-2 counts down and is empty\. Write 2-5"),
        ("0,9-8", "9-8 counts down"),
        ("", "expected numbers as in"),
        ("-1", "expected numbers as in"),
        ("1.5", "expected numbers as in"),
        ("0-", "expected numbers as in"),
        ("0:4", "expected numbers as in"),
        ("99999999999", "expected seeds up to"),
        ("0-999999999", "10,000 of them at most"),
    ],
)
def test_seeds_that_would_run_nothing_or_everything_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_seeds(text)


def test_defaults_are_those_that_json_stores() -> None:
    assert defaults(Wide)["scales"] == [1, 2, 3]
    assert "epochs" not in defaults(Wide)


@dataclass(frozen=True)
class Part:
    slots: int = 12
    spread: float | None = 0.5
    channels: int = 8


@dataclass(frozen=True)
class Whole(TrainConfig):
    channels: int = 32
    memory: Part = Part(slots=7)
    last: int = 1

    HIDDEN: ClassVar[tuple[str, ...]] = ("channels",)
    at_least_one: ClassVar[tuple[str, ...]] = (*TrainConfig.at_least_one, "slots")


WHOLE = Whole(epochs=3, steps_per_epoch=5, learning_rate=0.01)


def test_a_part_is_written_and_read_flat() -> None:
    written = to_json(WHOLE)
    assert list(written)[-4:] == ["channels", "slots", "spread", "last"]
    assert (written["channels"], written["slots"], written["spread"]) == (32, 7, 0.5)
    assert strict(Whole, written, WHERE) == WHOLE
    del written["slots"]
    assert strict(Whole, written, WHERE) == WHOLE


def test_a_parts_fields_are_set_by_name() -> None:
    changed = override(WHOLE, parse_overrides(["slots=5", "spread=none", "channels=3", "last=2"]), WHERE)
    assert changed == replace(WHOLE, channels=3, memory=Part(5, None, 8), last=2)
    assert flat(changed)["slots"] == 5
    assert defaults(Whole)["slots"] == 7
    # What the part was given elsewhere stays.
    assert override(replace(WHOLE, memory=Part(3, 0.1, 9)), {"slots": 4}, WHERE).memory == Part(4, 0.1, 9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slot": 5}, "unknown field 'slot'; did you mean 'slots'"),
        ({"memory": Part()}, "unknown field 'memory'"),
        ({"slots": "many"}, "field 'slots' expects int, got 'many'"),
        ({"slots": 0}, "slots=0, expected 1 or more"),
        ({"spread": float("nan")}, "spread=nan, expected a number"),
    ],
)
def test_a_parts_fields_are_as_strict_as_a_configs_own(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{WHERE}: {message}"):
        override(WHOLE, changes, WHERE)


def test_names_are_unique_across_parts() -> None:
    @dataclass(frozen=True)
    class Twice(TrainConfig):
        channels: int = 32
        memory: Part = Part()

    with pytest.raises(TypeError, match=r"Twice: two fields are called 'channels', its own and in 'memory'.*HIDDEN"):
        Twice(epochs=3, steps_per_epoch=5, learning_rate=0.01)
