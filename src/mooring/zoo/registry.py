"""Registry of global modules by name, each built from one specification.

To add a module, register a class whose constructor takes a spec, or a function that builds a module from a spec. A
module of the zoo also needs a line in :data:`FILES`:

    @register("my-vn", title="My virtual node", paper="me, 2026")
    class MyVirtualNode(GlobalModule): ...

An unregistered module is named by its import path, ``package.module:Name``.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from torch import nn

from mooring.named import import_object, suggest
from mooring.nn import MemorySpec
from mooring.ops.checks import described

Builder = Callable[[MemorySpec], nn.Module | None]
Built = TypeVar("Built", bound=Builder)

# The names that the files of the zoo register, in the order of tables. A file is imported on first use of one of its
# names.
FILES = (
    ("baselines", "none", "vn", "vn-joint", "vn-sum", "vn-log-sum", "vn-max", "vn-clones", "cross-attn", "anchored"),
    ("baselines", "cross-attn-global-film", "anchored-global-film", "anchored-raw", "moored"),
    ("broadcasts", "vn-independent", "wide-vn-add", "wide-vn-film", "wide-vn-mlp", "wide-vn-film-sum"),
    ("broadcasts", "wide-vn-mlp-sum", "wide-vn-deep-sum", "wide-vn-mask-sum", "wide-vn-bilinear-sum"),
    ("counting", "lse", "shared-anchor", "registers", "sink", "acam", "cpa-add", "cpa-scale"),
    ("slot_softmax", "gmt", "gmt-mass", "slot-attention"),
    ("latents", "isab", "perceiver", "range"),
    ("attention", "transformer", "performer", "exphormer"),
    ("broadcasts", "pna", "deep-sets", "gin-sum"),
    ("slot_softmax", "physics-attention", "physics-slices"),
)
HOMES = {name: f"mooring.zoo.{file}" for file, *names in FILES for name in names}


@dataclass(frozen=True)
class Entry:
    """A registered module.

    Args:
        name: name in commands and records.
        title: description in a few words.
        paper: origin.
        build: builder, called with a spec.
        label: name in tables.
        order: position in tables: the zoo in the order of :data:`FILES`, then others in order of registration, then
            unregistered modules.
    """

    name: str
    title: str
    paper: str
    build: Builder
    label: str
    order: int


_ENTRIES: dict[str, Entry] = {}


def register(name: str, *, title: str, paper: str, label: str | None = None) -> Callable[[Built], Built]:
    """Register a class or function of a spec under ``name``; tables use ``label``, or ``name`` if None."""

    def add(build: Built) -> Built:
        if name in _ENTRIES or HOMES.get(name, build.__module__) != build.__module__:
            raise ValueError(f"zoo: {name!r} is already registered. Pick another name.")
        order = list(HOMES).index(name) if name in HOMES else len(names())
        _ENTRIES[name] = Entry(name, title, paper, build, label or name, order)
        return build

    return add


def names() -> list[str]:
    """Return all registered names: the zoo's, then others in order of registration. Nothing is imported."""
    return [*HOMES, *(name for name in _ENTRIES if name not in HOMES)]


def entry(name: str) -> Entry:
    """Return the entry of a name; raise with a suggestion if the name is unknown.

    A name with a colon is imported and need not be registered:

    >>> entry("mooring.nn:VirtualNode").build(MemorySpec(channels=16))
    VirtualNode(16, pool='mean', copies=1)
    """
    if not isinstance(name, str):
        raise TypeError(
            f"zoo: name is {described(name)}, expected the name of a module. Pass one of zoo.names(), or "
            "package.module:Name."
        )
    if ":" in name:
        return imported_entry(name)
    if name not in names():
        known = ", ".join(names())
        raise ValueError(f"zoo: unknown module {name!r}; {suggest(name, names(), f'there are {known}.')}")
    if name not in _ENTRIES:
        importlib.import_module(HOMES[name])
    return _ENTRIES[name]


def imported_entry(name: str) -> Entry:
    """Return the entry of ``package.module:Name``: a builder, or a class that takes a spec or some of its fields.

    The entry keeps the import path as its name, so that another process can import it too.
    """
    factory = import_object(name, "zoo")
    if not callable(factory) or isinstance(factory, nn.Module):
        raise ValueError(
            f"zoo: {name} is {type(factory).__name__}, expected a class or a function that builds a module from a "
            "MemorySpec."
        )
    builder: Builder = factory
    if not takes_spec(factory):
        arguments = _spec_arguments(factory, name)

        def builder(spec: MemorySpec) -> nn.Module | None:
            return factory(**{field: getattr(spec, field) for field in arguments})

    about = (inspect.getdoc(factory) or "").strip().splitlines()
    return Entry(name, about[0] if about else name, "", builder, name, len(names()))


def takes_spec(factory: Callable[..., Any]) -> bool:
    """Return whether a callable builds a module from a :class:`MemorySpec`: one argument, named or annotated so."""
    parameters = list(_parameters(factory).values())
    if not parameters or any(required(parameter) for parameter in parameters[1:]):
        return False
    annotation = parameters[0].annotation
    named = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return parameters[0].name == "spec" or named.rpartition(".")[2] == MemorySpec.__name__


def _spec_arguments(factory: Callable[..., Any], name: str) -> list[str]:
    """Return the fields of a spec that a callable accepts; raise if it requires anything else."""
    parameters = _parameters(factory)
    known = [field.name for field in fields(MemorySpec)]
    missing = [name for name, parameter in parameters.items() if required(parameter) and name not in known]
    if missing or "channels" not in parameters:
        raise ValueError(
            f"zoo: {name} takes ({', '.join(parameters)}), expected one argument `spec`, or `channels` and other "
            f"fields of MemorySpec. Write a function that takes a spec and builds it."
        )
    return [name for name in known if name in parameters]


def _parameters(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a callable by name; none if it has no signature, like some built-in classes."""
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return {}


def required(parameter: inspect.Parameter) -> bool:
    """Return whether a callable cannot be called without this argument."""
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )


def build(name: str, channels: int | MemorySpec, **options: Any) -> nn.Module | None:
    """Build the module called ``name``; None for ``"none"``, which builds no module.

    Args:
        name: one of :func:`names`, or ``package.module:Name``.
        channels: width of the node features; or a :class:`MemorySpec`, which has all options already.
        options: fields of :class:`MemorySpec`. A module ignores those that it has no place for.

    >>> build("anchored", 16, slots=4)
    SlotVirtualNode(16, slots=4, heads=4, anchored=True, routing='free')
    """
    module_entry = entry(name)
    if isinstance(channels, MemorySpec):
        if options:
            raise TypeError(
                f"zoo: got a MemorySpec and {', '.join(options)} beside it. Put them into the spec, e.g. with "
                "dataclasses.replace, or pass the width in its place."
            )
        return module_entry.build(channels)
    if type(channels) is not int:
        raise TypeError(
            f"zoo: channels is {described(channels)} but a width or a MemorySpec was expected. Pass "
            f"zoo.build({name!r}, 64)."
        )
    known = [field.name for field in fields(MemorySpec) if field.name != "channels"]
    there = f"the options are {', '.join(known)}."
    for option in options:
        if option not in known:
            raise TypeError(f"zoo: {name} has no option {option!r}; {suggest(option, known, there)}")
    return module_entry.build(MemorySpec(channels=channels, **options))
