"""Everything that trains, measures, reports or talks to a terminal: ``pip install 'mooring[suite]'``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's ``__getattr__``: its names are imported when first asked for, so that importing it costs nothing.

    Args:
        package: its ``__name__``.
        homes: the module of each name, relative to the package.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return find
