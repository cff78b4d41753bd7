"""Objects by their import name, ``package.module:Name``: how a command is given code of one's own."""

from __future__ import annotations

import importlib
import traceback
from difflib import get_close_matches
from typing import Any


def import_object(target: str, who: str) -> Any:
    """Import ``package.module:Name`` and return it. Importing a module runs its code.

    Args:
        target: Module and attribute; dots after the colon reach into classes.
        who: Who asks, for messages.

    Raises:
        ValueError: With the reason, whatever the module's own code raised.

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
            close = get_close_matches(part, dir(found), n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise ValueError(f"{who}: {module_name} has no {attribute!r}{hint}")
        found = getattr(found, part)
    return found


def _failed(who: str, module_name: str, error: BaseException) -> str:
    """What the module's own code said, and where."""
    said = (str(error).splitlines() or [""])[0]
    if isinstance(error, SyntaxError):
        place = f"{error.filename}, line {error.lineno}"
    else:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename}, line {last.lineno}"
    return f"{who}: cannot import {module_name!r}: {type(error).__name__}: {said} ({place})."
