"""A module in one line: the call that would build it."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn


def shown(module: nn.Module, kind: type[nn.Module], first: object, *always: str, **values: Any) -> str:
    """The module as a call of ``kind``: what has no default, what is in ``always``, and what is not the default.

    Args:
        module: a ``kind`` or one of a subclass, whose name is printed.
        kind: the class whose constructor is printed; each of its arguments is an attribute of the same name.
        first: the first argument, which is printed without its name.
        values: what to print in place of attributes.

    >>> from mooring.nn import SlotVirtualNode
    >>> SlotVirtualNode(64, competition=True)
    SlotVirtualNode(64, slots=8, heads=4, anchored=True, competition=True)
    """
    parts = [str(first)]
    for name, parameter in list(inspect.signature(kind).parameters.items())[1:]:
        if parameter.kind is parameter.VAR_KEYWORD:
            parts += [f"{option}={value!r}" for option, value in values.get(name, {}).items()]
            continue
        value = values[name] if name in values else getattr(module, name, parameter.default)
        if name in always or value != parameter.default:
            a_function = callable(value) and not isinstance(value, nn.Module)
            text = getattr(value, "__name__", type(value).__name__) if a_function else repr(value)
            parts.append(f"{name}={text}")
    return f"{type(module).__name__}({', '.join(parts)})"
