"""Builds a module from its name, for the command line."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, cast

from torch import nn

from mooring import zoo
from mooring.audit.finding import first_line
from mooring.named import import_object

# Constructor arguments that mean the width of the node features.
CHANNEL_NAMES = (
    "channels",
    "in_channels",
    "out_channels",
    "hidden_channels",
    "node_channels",
    "dim",
    "in_dim",
    "out_dim",
    "hidden_dim",
    "input_dim",
    "output_dim",
    "emb_dim",
    "embed_dim",
    "d_model",
    "hidden_size",
)


def resolve(target: str, channels: int = 16, kwargs: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """Import ``package.module:Name``, which runs that module's code, and, if it is a class, build it.

    A builder of the zoo, which takes a :class:`~mooring.zoo.MemorySpec`, is called with one; ``kwargs`` are its fields.
    Of any other class, arguments named like a width get ``channels``; the others come from ``kwargs``. A value of the
    form ``package.module:Name`` is itself resolved, so that a module can be handed to a module.

    >>> resolve("torch_geometric.nn:GraphMultisetTransformer", 8, {"k": 3})
    GraphMultisetTransformer(8, k=3, heads=1, layer_norm=False, dropout=0.0)
    """
    kwargs = dict(kwargs or {})
    found = import_object(target, "audit")
    if not callable(found):
        raise ValueError(f"audit: {target} is {type(found).__name__}, expected a module, a class or a function.")
    if not isinstance(found, nn.Module) and zoo.takes_spec(found):
        return _from_spec(found, target, channels, kwargs)
    if not inspect.isclass(found):
        if kwargs:
            raise ValueError(f"audit: {target} is not a class, so it takes no arguments; got {', '.join(kwargs)}.")
        return cast(Callable[..., Any], found)
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(found).parameters.items()
        if name not in ("self", "cls")
    }
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in kwargs:
        if name not in parameters and not open_ended:
            close = get_close_matches(name, parameters, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(parameters)}."
            raise ValueError(f"audit: {target} has no argument {name!r}; {hint}")
    arguments = {name: _value(value, channels) for name, value in kwargs.items()}
    missing = []
    for name, parameter in parameters.items():
        required = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        )
        if not required or name in arguments:
            continue
        if name in CHANNEL_NAMES:
            arguments[name] = channels
        else:
            missing.append(name)
    if missing:
        flags = " ".join(f"--arg {name}=VALUE" for name in missing)
        raise ValueError(
            f"audit: {target} needs {', '.join(missing)}. Pass {flags} (in Python: kwargs={{{missing[0]!r}: ...}})."
        )
    return _built(found, target, arguments)


def _from_spec(found: Callable[..., Any], target: str, channels: int, kwargs: Mapping[str, Any]) -> Callable[..., Any]:
    known = [field.name for field in fields(zoo.MemorySpec)]
    for name in kwargs:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}."
            raise ValueError(f"audit: {target} takes a MemorySpec, which has no field {name!r}; {hint}")
    return _built(lambda **given: found(zoo.MemorySpec(**given)), target, {"channels": channels, **kwargs})


def _built(found: Callable[..., Any], target: str, arguments: Mapping[str, Any]) -> Callable[..., Any]:
    try:
        return cast(Callable[..., Any], found(**arguments))
    except Exception as error:
        given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        raise ValueError(f"audit: {target}({given}) could not be built: {first_line(error)}") from error


def parse_arguments(pairs: Iterable[str]) -> dict[str, Any]:
    """Read ``name=value`` pairs; values are Python literals, and anything else is a string.

    >>> parse_arguments(["heads=4", "conv=None", "norm=layer_norm"])
    {'heads': 4, 'conv': None, 'norm': 'layer_norm'}
    """
    arguments: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"audit: --arg {pair!r} is not of the form name=value, e.g. --arg heads=4.")
        try:
            arguments[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            arguments[name] = text
    return arguments


def _value(value: Any, channels: int) -> Any:
    if isinstance(value, str) and ":" in value:
        return resolve(value, channels)
    return value
