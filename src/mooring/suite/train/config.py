"""Strict configs: frozen dataclasses in which an unknown or ill-typed field is an error, never silently dropped.

A config may have sections, which are frozen dataclasses too. JSON and the command line list the fields of a section
beside those of the config, without the names in the config's class attribute ``HIDDEN``. Pydantic checks the types.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from mooring.named import suggest

Config = TypeVar("Config")
# The generators of all libraries take seeds of 32 bits.
LARGEST_SEED = 2**32 - 1
# More runs than anyone could want; a list of many more would fill the memory.
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
    values = _checked(cls, mapping, where)
    known = leaves(cls)  # type: ignore[arg-type] # to mypy no type[T] is hashable
    missing = [name for name, leaf in known.items() if leaf.default is dataclasses.MISSING and name not in values]
    if missing:
        raise ConfigError(f"{where}: missing field {missing[0]!r}, which has no default.")
    return _made(lambda: cls(**_by_section(cls, values, cls)), where)


def override(config: Config, changes: Mapping[str, Any], where: str) -> Config:
    """Return `config` with some fields replaced, as strictly as :func:`strict`."""
    values = _checked(type(config), changes, where)
    return _made(lambda: dataclasses.replace(config, **_by_section(type(config), values, config)), where)  # type: ignore[type-var]


def parse_overrides(pairs: Iterable[str], where: str = "override") -> dict[str, str]:
    """Split ``field=value`` strings; the values are parsed later, by the field's type.

    >>> parse_overrides(["epochs=3", "clip_norm=none"])
    {'epochs': '3', 'clip_norm': 'none'}
    """
    changes: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{where}: got {pair!r}, expected field=value, e.g. epochs=3.")
        if name.strip() in changes:
            raise ConfigError(f"{where}: field {name.strip()!r} is given twice. Keep one of them.")
        changes[name.strip()] = value.strip()
    return changes


def parse_seeds(text: str) -> list[int]:
    """Return the seeds that a text as ``"0"``, ``"0,3"`` or ``"0-4"`` names.

    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    seeds: list[int] = []
    for part in text.split(","):
        first_text, dash, last_text = part.partition("-")
        try:
            first, last = int(first_text), int(last_text if dash else first_text)
        except ValueError:
            raise ValueError(f"run: --seeds is {text!r}; expected numbers as in 0, 0,3 or 0-4.") from None
        if last < first:
            raise ValueError(
                f"run: --seeds is {text!r}; {part.strip()} counts down and is empty. Write {last}-{first}."
            )
        if last > LARGEST_SEED or last - first >= MOST_SEEDS:
            raise ValueError(
                f"run: --seeds is {text!r}; expected seeds up to {LARGEST_SEED}, {MOST_SEEDS:,} of them at most."
            )
        seeds += range(first, last + 1)
    if len(seeds) > MOST_SEEDS:
        raise ValueError(f"run: --seeds names {len(seeds):,} seeds; expected {MOST_SEEDS:,} at most.")
    return seeds


def flat(config: Any) -> dict[str, Any]:
    """Return every field of a config and of its sections by name."""
    cls: type = type(config)
    return {
        name: flat(getattr(config, leaf.section))[name] if leaf.section else getattr(config, name)
        for name, leaf in leaves(cls).items()
    }


def to_json(config: Any) -> dict[str, Any]:
    """Return a config as JSON stores it: tuples become lists, so that two configs compare equal after a round trip."""
    return json.loads(json.dumps(flat(config)))


def defaults(cls: type) -> dict[str, Any]:
    """Return the fields of a config class that have a default, with it, as JSON stores them."""
    values = {name: leaf.default for name, leaf in leaves(cls).items() if leaf.default is not dataclasses.MISSING}
    return json.loads(json.dumps(values))


def _made(make: Callable[[], Config], where: str) -> Config:
    """Make the config and raise the errors of its checks in the name of the caller."""
    try:
        return make()
    except OutOfRange as error:
        raise ConfigError(f"{where}: {error.reason}") from None


def _checked(cls: type, mapping: Mapping[str, Any], where: str) -> dict[str, Any]:
    known = leaves(cls)
    for name in mapping:
        if name not in known:
            meant = suggest(name, known, f"the fields are {', '.join(known)}.")
            raise ConfigError(f"{where}: unknown field {name!r}; {meant}")
    return {name: _field_value(name, value, known[name].kind, where) for name, value in mapping.items()}


def _by_section(cls: type, values: Mapping[str, Any], base: Any) -> dict[str, Any]:
    """Return the arguments of a config's constructor: its fields, and its sections with theirs.

    Args:
        cls: the config's class.
        values: values by flat name.
        base: the config that a section's other values come from, or the class for the defaults.
    """
    arguments: dict[str, Any] = {}
    changes: dict[str, dict[str, Any]] = {name: {} for name in _sections(cls)}
    for name, value in values.items():
        section = leaves(cls)[name].section
        (changes[section] if section else arguments)[name] = value
    for name, (kind, default) in _sections(cls).items():
        section = default if base is cls else getattr(base, name)
        if section is dataclasses.MISSING:
            arguments[name] = kind(**_by_section(kind, changes[name], kind))
        else:
            arguments[name] = dataclasses.replace(section, **_by_section(kind, changes[name], section))
    return arguments


def _field_value(name: str, value: Any, kind: Any, where: str) -> Any:
    try:
        return _coerce(value, kind)
    except (TypeError, ValueError):
        raise ConfigError(f"{where}: field {name!r} expects {_in_words(kind)}, got {value!r}.") from None


def _in_words(kind: Any) -> str:
    """Return a field's type in words.

    >>> _in_words(int | None), _in_words(Literal["mean", "sum"]), _in_words(tuple[int, ...])
    ('int or none', 'mean or sum', 'int between commas')
    """
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(map(str, options))
    if origin in (Union, types.UnionType):
        return " or ".join(map(_in_words, options))
    if origin is tuple:
        items = dict.fromkeys(_in_words(option) for option in options if option is not ...)
        return f"{', '.join(items)} between commas"
    return "none" if kind is type(None) else getattr(kind, "__name__", str(kind))


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A field of a config or of a section: its type, its default (or ``MISSING``), and its section."""

    kind: Any
    default: Any
    section: str | None


@functools.cache
def leaves(cls: type) -> Mapping[str, Leaf]:
    """Return the fields of a config class and of its sections by name.

    Raises:
        TypeError: If two of them have the same name, or ``HIDDEN`` names a field that no section has.
    """
    sections = _sections(cls)
    hidden = getattr(cls, "HIDDEN", ())
    unknown = [name for name in hidden if not any(name in leaves(kind) for kind, _ in sections.values())]
    if unknown:
        raise TypeError(f"{cls.__name__}: HIDDEN has {unknown[0]!r}, which no section has as a field. Delete it there.")
    every: dict[str, Leaf] = {}
    for name, (kind, default) in _fields(cls).items():
        if name not in sections:
            inner = {name: Leaf(kind, default, None)}
        else:
            values = {} if default is dataclasses.MISSING else flat(default)
            inner = {
                leaf: Leaf(of_section.kind, values.get(leaf, of_section.default), name)
                for leaf, of_section in leaves(kind).items()
                if leaf not in hidden
            }
        for leaf in inner.keys() & every.keys():
            owners = [f"in {owner.section!r}" if owner.section else "its own" for owner in (every[leaf], inner[leaf])]
            raise TypeError(
                f"{cls.__name__}: two fields are called {leaf!r}, {' and '.join(owners)}, and both would be written "
                "under that name. Rename one, or list the field of the section in HIDDEN."
            )
        every |= inner
    return every


def _sections(cls: type) -> dict[str, tuple[Any, Any]]:
    """Return class and default of the fields that are sections."""
    return {name: field for name, field in _fields(cls).items() if dataclasses.is_dataclass(field[0])}


@functools.cache
def _fields(cls: type) -> dict[str, tuple[Any, Any]]:
    """Return type and default of the fields that the constructor takes."""
    hints = get_type_hints(cls)
    return {
        field.name: (
            hints[field.name],
            field.default if field.default_factory is dataclasses.MISSING else field.default_factory(),
        )
        for field in dataclasses.fields(cls)
        if field.init
    }


def _coerce(value: Any, kind: Any) -> Any:
    """Return the value, or the value that a text stands for, if it is of a type; ValidationError otherwise."""
    adapter = TypeAdapter(kind)
    if isinstance(value, str):
        try:
            return adapter.validate_python(value, strict=True)
        except ValidationError:
            options = (kind, *get_args(kind))
            many = any(get_origin(option) is tuple for option in options) and value.lower() != "none"
            value = [_scalar(item) for item in value.split(",") if item.strip()] if many else _scalar(value)
    # Through JSON, in which a list is a tuple and an int may be a float, but a bool is no number.
    return adapter.validate_json(json.dumps(value), strict=True)


def _scalar(text: str) -> Any:
    """Return the number, flag or None that a text stands for; other texts as they are.

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
