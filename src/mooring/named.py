"""Names: ``package.module:Name`` for a user's own code, suggestions for unknown names, and names imported late."""

from __future__ import annotations

import difflib
import importlib
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# From this similarity on two names look alike; it is difflib's own default.
ALIKE = 0.6


def import_object(target: str, who: str) -> Any:
    """Import ``package.module:Name`` and return it. Importing a module runs its code.

    Args:
        target: Module and attribute; dots after the colon reach into classes.
        who: Name of the caller, for messages.

    Raises:
        ValueError: With the reason, whatever the module's code raised.

    >>> import_object("math:sqrt", "example")(9.0)
    3.0
    """
    module_name, colon, attribute = target.partition(":")
    # A leading dot asks for a relative import, and there is nothing to be relative to.
    if not colon or not all(part.isidentifier() for part in [*module_name.split("."), *attribute.split(".")]):
        raise ValueError(
            f"{who}: {target!r} is not of the form package.module:Name, e.g. torch_geometric.nn:SumAggregation."
        )
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise ValueError(
                f"{who}: cannot import {module_name!r} of {target!r}: {error}. Put its folder on PYTHONPATH, or call "
                "the command in that folder."
            ) from error
        raise ValueError(_failed(who, module_name, error)) from error
    except (Exception, SystemExit) as error:  # foreign code: anything may come out of it
        raise ValueError(_failed(who, module_name, error)) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            hint = suggest(part, dir(found), "check the name.")
            raise ValueError(f"{who}: {module_name} has no {attribute!r}; {hint}")
        found = getattr(found, part)
    return found


def late(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``, which imports its names on first use.

    Args:
        package: its ``__name__``.
        homes: the module of each name, relative to the package.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return find


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `name`, or None if none is.

    Words count beside letters: ``global_lr`` shares one with ``memory_lr_scale``.

    >>> did_you_mean("global_lr", ["epochs", "memory_lr_scale"])
    'memory_lr_scale'
    """

    def likeness(other: str) -> tuple[float, float]:
        words, others = (set(re.split(r"[^a-z0-9]+", text.lower())) - {""} for text in (name, other))
        letters = difflib.SequenceMatcher(None, name.lower(), other.lower()).ratio()
        shared = len(words & others) / max(1, len(words | others))
        return letters + shared, max(letters, 1.0 if shared else 0.0)

    best = max(known, key=likeness, default=None)
    return best if best is not None and likeness(best)[1] >= ALIKE else None


def suggest(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the end of a message about an unknown name: the name that was meant, or `otherwise`.

    >>> suggest("epoch", ["epochs", "seed"], "the fields are epochs, seed.")
    "did you mean 'epochs'?"
    """
    guess = did_you_mean(name, known)
    return otherwise if guess is None else f"did you mean {guess!r}?"


def _failed(who: str, module_name: str, error: BaseException) -> str:
    """Return the message for an error raised by the module itself, with the place."""
    said = (str(error).splitlines() or [""])[0]
    if isinstance(error, SyntaxError):
        place = f"{error.filename}, line {error.lineno}"
    else:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename}, line {last.lineno}"
    return f"{who}: cannot import {module_name!r}: {type(error).__name__}: {said} ({place})."
