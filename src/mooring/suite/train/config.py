"""Configs: frozen dataclasses in which an unknown or ill-typed field is an error; pydantic checks the types.

A config may have sections, which are frozen dataclasses too and have a default. JSON and the command line list the
fields of a section beside those of the config, without the names in the config's class attribute ``HIDDEN``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from mooring.named import suggest
from mooring.nn import MemoryOptions

Config = TypeVar("Config")
# The generators of all libraries take seeds of 32 bits.
LARGEST_SEED = 2**32 - 1
MOST_SEEDS = 10_000


class ConfigError(ValueError):
    """A config field that does not exist, has the wrong type, or differs from the one a run was started with."""


class OutOfRange(ConfigError):
    """A value of the right type that no run could use; `reason` is the message without the name of the config."""

    def __init__(self, config: str, reason: str) -> None:
        super().__init__(f"{config}: {reason}")
        self.reason = reason


def strict(cls: type[Config], mapping: Mapping[str, Any], where: str) -> Config:
    """Build the dataclass `cls` from a mapping; strings are parsed by the field's type.

    Args:
        cls: a dataclass.
        mapping: field name to value, e.g. read from JSON or from the command line.
        where: name of the caller, for messages, e.g. ``two-radius 'quick'``.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Example:
    ...     epochs: int
    ...     scales: tuple[int, ...] = (1, 2)
    >>> strict(Example, {"epochs": "3", "scales": "1,5"}, "example")
    Example(epochs=3, scales=(1, 5))
    >>> strict(Example, {"epoch": 3}, "example")
    Traceback (most recent call last):
    mooring.suite.train.config.ConfigError: example: unknown field 'epoch'; did you mean 'epochs'?
    """
    arguments = _arguments(cls, mapping, where, cls)
    for name, leaf in leaves(cls).items():  # type: ignore[arg-type]
        if leaf.default is dataclasses.MISSING and name not in mapping:
            raise ConfigError(f"{where}: missing field {name!r}, which has no default.")
    with _located(where):
        return cls(**arguments)


def override(config: Config, changes: Mapping[str, Any], where: str) -> Config:
    """Return `config` with some fields replaced, as strictly as :func:`strict`."""
    arguments = _arguments(type(config), changes, where, config)
    with _located(where):
        return dataclasses.replace(config, **arguments)  # type: ignore[type-var]


def _arguments(cls: type, values: Mapping[str, Any], where: str, base: object) -> dict[str, Any]:
    """Return the parsed values of fields, those of a section as the section of `base` with them."""
    known = leaves(cls)
    arguments: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if name not in known:
            meant = suggest(name, known, f"the fields are {', '.join(known)}.")
            raise ConfigError(f"{where}: unknown field {name!r}; {meant}")
        kind, _, section = known[name]
        try:
            (arguments if section is None else sections.setdefault(section, {}))[name] = _parsed(value, kind)
        except (TypeError, ValueError):
            raise ConfigError(f"{where}: field {name!r} expects {_in_words(kind)}, got {value!r}.") from None
    parts = {section: dataclasses.replace(getattr(base, section), **part) for section, part in sections.items()}
    return arguments | parts


@contextlib.contextmanager
def _located(where: str) -> Iterator[None]:
    """Begin the message of an OutOfRange with the caller instead of the config's name."""
    try:
        yield
    except OutOfRange as error:
        raise ConfigError(f"{where}: {error.reason}") from None


# Ranges of config fields, as text and as a test.
Range = tuple[str, Callable[[float], bool]]
RANGES: Mapping[str, Range] = {
    "at_least_one": ("1 or more", lambda value: value >= 1),
    "above_zero": ("a number above 0", lambda value: 0 < value < math.inf),
    "not_negative": ("0 or a number above it", lambda value: 0 <= value < math.inf),
}
NOT_NAN: Range = ("a number", lambda value: value == value)


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """The config of every run; each task subclasses it and adds fields, or sections with fields.

    Args:
        epochs: largest number of epochs (:meth:`Experiment.should_stop` may end a run earlier).
        steps_per_epoch: optimizer steps between two evaluations.
        learning_rate: AdamW's learning rate.
        memory_lr_scale: factor on it for the parameters under ``net.memory``.
        weight_decay: AdamW's decoupled weight decay.
        clip_norm: largest gradient norm; None leaves gradients alone.
    """

    epochs: int
    steps_per_epoch: int
    learning_rate: float
    memory_lr_scale: float = 1.0
    weight_decay: float = 0.0
    clip_norm: float | None = 5.0

    #: Fields of sections that are neither recorded nor set by name.
    HIDDEN: ClassVar[tuple[str, ...]] = ()
    #: Fields that must be at least 1, above 0, and at least 0. A subclass lists its new fields, and fields of its base
    #: that get another range. None is always allowed.
    at_least_one: ClassVar[tuple[str, ...]] = ("epochs", "steps_per_epoch")
    above_zero: ClassVar[tuple[str, ...]] = ("learning_rate", "clip_norm")
    not_negative: ClassVar[tuple[str, ...]] = ("memory_lr_scale", "weight_decay")

    def __post_init__(self) -> None:
        self.check_ranges()

    def but(self: Config, **changes: Any) -> Config:
        """Return the config with some fields changed, also fields of sections: ``config.but(epochs=3, slots=5)``."""
        return override(self, changes, type(self).__name__)

    def check_ranges(self) -> None:
        """Raise OutOfRange for a value that no run could use."""
        rules: dict[str, str] = {}
        for cls in reversed(type(self).__mro__):
            for rule in RANGES:
                rules |= dict.fromkeys(vars(cls).get(rule, ()), rule)
        for name, value in flat(self).items():
            expected, holds = RANGES[rules[name]] if name in rules else NOT_NAN
            if value is not None and not holds(value):
                raise OutOfRange(type(self).__name__, f"{name}={value}, expected {expected}.")


@dataclasses.dataclass(frozen=True)
class MemoryConfig(TrainConfig):
    """A :class:`TrainConfig` with the options of the global module as a section.

    Args:
        memory: see :class:`~mooring.nn.MemoryOptions`; the task sets the widths with ``memory.at(channels)``.
    """

    memory: MemoryOptions = MemoryOptions()

    at_least_one: ClassVar[tuple[str, ...]] = ("slots", "heads", "hidden_channels", "update_channels")
    above_zero: ClassVar[tuple[str, ...]] = ("temperature",)
    not_negative: ClassVar[tuple[str, ...]] = ("init_std",)


@dataclasses.dataclass(frozen=True)
class FiniteConfig(TrainConfig):
    """A :class:`TrainConfig` with a finite training set.

    Args:
        batch_size: graphs per step.
        train_graphs: size of the training set.
        warmup_epochs: epochs over which the learning rate rises, before it falls as a cosine.
    """

    batch_size: int = 16
    train_graphs: int = 4000
    warmup_epochs: float = 1.0

    at_least_one: ClassVar[tuple[str, ...]] = ("batch_size", "train_graphs")
    not_negative: ClassVar[tuple[str, ...]] = ("warmup_epochs",)

    def check_ranges(self) -> None:
        super().check_ranges()
        if self.steps_per_epoch * self.batch_size > self.train_graphs:
            raise OutOfRange(
                type(self).__name__,
                f"{self.steps_per_epoch} steps of {self.batch_size} graphs are more than "
                f"train_graphs={self.train_graphs}, and an epoch shows a graph once. Lower one of them.",
            )


def parse_overrides(pairs: Iterable[str], where: str = "override") -> dict[str, str]:
    """Split ``field=value`` strings; the values are parsed later, by the field's type.

    >>> parse_overrides(["epochs=3", "clip_norm=none"])
    {'epochs': '3', 'clip_norm': 'none'}
    """
    changes: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            raise ConfigError(f"{where}: got {pair!r}, expected field=value, e.g. epochs=3.")
        if name in changes:
            raise ConfigError(f"{where}: field {name!r} is given twice. Keep one of them.")
        changes[name] = value
    return changes


def parse_seeds(text: str) -> list[int]:
    """Return the seeds that a text such as ``"0"``, ``"0,3"`` or ``"0-4"`` names.

    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            span = range(int(first), int(last if dash else first) + 1)
        except ValueError:
            raise ValueError(f"run: --seeds is {text!r}; expected numbers as in 0, 0,3 or 0-4.") from None
        if not span:
            raise ValueError(
                f"run: --seeds is {text!r}; {part.strip()} counts down and is empty. Write {int(last)}-{int(first)}."
            )
        if span[-1] > LARGEST_SEED or len(seeds) + len(span) > MOST_SEEDS:
            raise ValueError(
                f"run: --seeds is {text!r}; expected seeds up to {LARGEST_SEED}, {MOST_SEEDS:,} of them at most."
            )
        seeds += span
    return seeds


class Leaf(NamedTuple):
    """A field of a config or of a section: its type, its default (or ``MISSING``), and its section."""

    kind: Any
    default: Any
    section: str | None


@functools.cache
def leaves(cls: type) -> Mapping[str, Leaf]:
    """Return the fields of a config class and of its sections by name.

    Raises:
        TypeError: If two of them have the same name.
    """
    hints, hidden = get_type_hints(cls), getattr(cls, "HIDDEN", ())
    every: dict[str, Leaf] = {}
    for field in dataclasses.fields(cls):
        inner = {field.name: Leaf(hints[field.name], field.default, None)}
        if dataclasses.is_dataclass(hints[field.name]):
            inner = {
                name: Leaf(leaf.kind, getattr(field.default, name), field.name)
                for name, leaf in leaves(hints[field.name]).items()
                if name not in hidden
            }
        for name in inner.keys() & every.keys():
            owners = [f"in {leaf.section!r}" if leaf.section else "its own" for leaf in (every[name], inner[name])]
            raise TypeError(
                f"{cls.__name__}: two fields are called {name!r}, {' and '.join(owners)}, and both would be written "
                "under that name. Rename one, or list the field of the section in HIDDEN."
            )
        every |= inner
    return every


def flat(config: Any) -> dict[str, Any]:
    """Return every field of a config and of its sections by name."""
    cls: type = type(config)
    return {
        name: getattr(getattr(config, leaf.section) if leaf.section else config, name)
        for name, leaf in leaves(cls).items()
    }


def to_json(config: Any) -> dict[str, Any]:
    """Return a config as JSON stores it: tuples become lists, so that two configs compare equal after a round trip."""
    return json.loads(json.dumps(flat(config)))


def defaults(cls: type) -> dict[str, Any]:
    """Return the fields of a config class that have a default, with it, as JSON stores them."""
    values = {name: leaf.default for name, leaf in leaves(cls).items() if leaf.default is not dataclasses.MISSING}
    return json.loads(json.dumps(values))


def _parsed(value: Any, kind: Any) -> Any:
    """Return the value, or the value that a text represents, if it is of a type; ValidationError otherwise."""
    adapter = TypeAdapter(kind)
    if isinstance(value, str):
        with contextlib.suppress(ValidationError):
            return adapter.validate_python(value, strict=True)
        many = any(get_origin(option) is tuple for option in (kind, *get_args(kind))) and value.lower() != "none"
        value = [_scalar(item) for item in value.split(",") if item.strip()] if many else _scalar(value)
    # Through JSON, in which a list is a tuple and an int may be a float, but a bool is not a number.
    return adapter.validate_json(json.dumps(value), strict=True)


def _scalar(text: str) -> Any:
    """Return the number, flag or None that a text represents; other texts as they are.

    >>> _scalar("3"), _scalar("1e-3"), _scalar("False"), _scalar("none"), _scalar("sum")
    (3, 0.001, False, None, 'sum')
    """
    named = {"none": None, "true": True, "false": False}
    if text.strip().lower() in named:
        return named[text.strip().lower()]
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return number(text)
    return text


def _in_words(kind: Any) -> str:
    """Return a field's type in words.

    >>> from typing import Literal
    >>> _in_words(int | None), _in_words(Literal["mean", "sum"]), _in_words(tuple[int, ...])
    ('int or none', 'mean or sum', 'int between commas')
    """
    options = [_in_words(option) for option in get_args(kind) if option is not ...]
    if get_origin(kind) is tuple:
        return f"{', '.join(dict.fromkeys(options))} between commas"
    return " or ".join(options) or ("none" if kind is type(None) else getattr(kind, "__name__", str(kind)))
