"""Strict configs: frozen dataclasses in which an unknown or ill-typed field is an error, never silently dropped.

A config may hold parts, frozen dataclasses of their own. In JSON and on the command line the fields of a part stand
beside those of the config, as if they were its own; the names in the config's class attribute ``HIDDEN`` do not appear
there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from mooring.named import suggest

Config = TypeVar("Config")
# The generators of all libraries take seeds of 32 bits.
LARGEST_SEED = 2**32 - 1
# More runs than anyone could want; a list of many more would fill the memory.
MOST_SEEDS = 10_000


class ConfigError(ValueError):
    """A config field that does not exist, has the wrong type, or differs from the one a run was started with."""


class OutOfRange(ConfigError):
    """A value of the right type that no run could use; `what` is the message without who raised it."""

    def __init__(self, who: str, what: str) -> None:
        super().__init__(f"{who}: {what}")
        self.what = what


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
    return _made(lambda: cls(**_by_part(cls, values, cls)), where)


def override(config: Config, changes: Mapping[str, Any], where: str) -> Config:
    """Return `config` with some fields replaced, as strictly as :func:`strict`."""
    values = _checked(type(config), changes, where)
    return _made(lambda: dataclasses.replace(config, **_by_part(type(config), values, config)), where)  # type: ignore[type-var]


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
    """``"0"``, ``"0,3"`` or ``"0-4"`` -> seeds.

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
    """Return every field of a config and of its parts by name."""
    cls: type = type(config)
    return {
        name: flat(getattr(config, leaf.part))[name] if leaf.part else getattr(config, name)
        for name, leaf in leaves(cls).items()
    }


def to_json(config: Any) -> dict[str, Any]:
    """Return a config as JSON stores it: tuples become lists, so that two configs compare equal after a round trip."""
    return json.loads(json.dumps(flat(config)))


def defaults(cls: type) -> dict[str, Any]:
    """Return the fields of a config class that have a default, with it, as JSON stores them."""
    found = {name: leaf.default for name, leaf in leaves(cls).items() if leaf.default is not dataclasses.MISSING}
    return json.loads(json.dumps(found))


def _made(make: Callable[[], Config], where: str) -> Config:
    """Make the config; an error of its own checks is raised in the name of the caller."""
    try:
        return make()
    except OutOfRange as error:
        raise ConfigError(f"{where}: {error.what}") from None


def _checked(cls: type, mapping: Mapping[str, Any], where: str) -> dict[str, Any]:
    known = leaves(cls)
    for name in mapping:
        if name not in known:
            meant = suggest(name, known, f"the fields are {', '.join(known)}.")
            raise ConfigError(f"{where}: unknown field {name!r}; {meant}")
    return {name: _field_value(name, value, known[name].kind, where) for name, value in mapping.items()}


def _by_part(cls: type, values: Mapping[str, Any], base: Any) -> dict[str, Any]:
    """Arguments of a config's constructor: its own values, and its parts with theirs.

    Args:
        cls: the config's class.
        values: values by flat name.
        base: where a part's other values come from: a config, or the class for the defaults.
    """
    own: dict[str, Any] = {}
    changes: dict[str, dict[str, Any]] = {name: {} for name in _parts(cls)}
    for name, value in values.items():
        part = leaves(cls)[name].part
        (changes[part] if part else own)[name] = value
    for name, (kind, default) in _parts(cls).items():
        part = default if base is cls else getattr(base, name)
        if part is dataclasses.MISSING:
            own[name] = kind(**_by_part(kind, changes[name], kind))
        else:
            own[name] = dataclasses.replace(part, **_by_part(kind, changes[name], part))
    return own


def _field_value(name: str, value: Any, kind: Any, where: str) -> Any:
    try:
        return _coerce(value, kind)
    except (TypeError, ValueError):
        raise ConfigError(f"{where}: field {name!r} expects {_in_words(kind)}, got {value!r}.") from None


def _in_words(kind: Any) -> str:
    """A field's type as it would be said.

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
    """A field as JSON and the command line know it: its type, its default (or ``MISSING``), and its part."""

    kind: Any
    default: Any
    part: str | None


@functools.cache
def leaves(cls: type) -> Mapping[str, Leaf]:
    """Return the fields of a config class by name, those of its parts among them.

    Raises:
        TypeError: If two of them have the same name, or ``HIDDEN`` names a field that no part has.
    """
    parts = _parts(cls)
    hidden = getattr(cls, "HIDDEN", ())
    unknown = [name for name in hidden if not any(name in leaves(kind) for kind, _ in parts.values())]
    if unknown:
        raise TypeError(f"{cls.__name__}: HIDDEN has {unknown[0]!r}, which no part has as a field. Delete it there.")
    found: dict[str, Leaf] = {}
    for name, (kind, default) in _fields(cls).items():
        if name not in parts:
            inner = {name: Leaf(kind, default, None)}
        else:
            values = {} if default is dataclasses.MISSING else flat(default)
            inner = {
                leaf: Leaf(own.kind, values.get(leaf, own.default), name)
                for leaf, own in leaves(kind).items()
                if leaf not in hidden
            }
        for leaf in inner.keys() & found.keys():
            owners = [f"in {one.part!r}" if one.part else "its own" for one in (found[leaf], inner[leaf])]
            raise TypeError(
                f"{cls.__name__}: two fields are called {leaf!r}, {' and '.join(owners)}, and both would be written "
                "under that name. Rename one, or list that of the part in HIDDEN."
            )
        found |= inner
    return found


def _parts(cls: type) -> dict[str, tuple[Any, Any]]:
    """The fields that are configs of their own, with class and default."""
    return {name: field for name, field in _fields(cls).items() if dataclasses.is_dataclass(field[0])}


@functools.cache
def _fields(cls: type) -> dict[str, tuple[Any, Any]]:
    """Type and default of the fields that the constructor takes."""
    hints = get_type_hints(cls)
    made = {field.name: field for field in dataclasses.fields(cls) if field.init}
    return {
        name: (hints[name], field.default if field.default_factory is dataclasses.MISSING else field.default_factory())
        for name, field in made.items()
    }


def _coerce(value: Any, kind: Any) -> Any:
    """Turn `value` (or its text) into `kind`; ValueError or TypeError when that is impossible."""
    origin, options = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if type(None) in options and (value is None or str(value).lower() == "none"):
            return None
        return _first_that_fits(value, [option for option in options if option is not type(None)])
    if origin is Literal:
        return _named(value, {str(option): option for option in options})
    if origin is tuple:
        items = [item for item in value.split(",") if item.strip()] if isinstance(value, str) else list(value)
        kinds = [options[0]] * len(items) if options[1:] == (...,) else list(options)
        return tuple(_coerce(item, item_kind) for item, item_kind in zip(items, kinds, strict=True))
    if isinstance(value, str) and kind is bool:
        return _named(value.lower(), {"true": True, "false": False})
    if isinstance(value, str) and kind in (int, float):
        return kind(value)
    # To Python True is an int, but no config means it that way.
    if isinstance(value, bool) and kind is not bool:
        raise TypeError
    if isinstance(value, int) and kind is float:
        return float(value)
    if isinstance(value, kind):
        return value
    raise TypeError


def _named(value: Any, options: Mapping[str, Any]) -> Any:
    if str(value) not in options:
        raise ValueError
    return options[str(value)]


def _first_that_fits(value: Any, kinds: list[Any]) -> Any:
    *others, last = kinds
    for kind in others:
        with contextlib.suppress(TypeError, ValueError):
            return _coerce(value, kind)
    return _coerce(value, last)
