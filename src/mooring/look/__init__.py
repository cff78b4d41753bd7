"""One page that shows what a memory does on a graph: ``mooring.look(model, data)``.

The package is callable, so that ``mooring.look(...)`` means the same before and after this module is imported.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from mooring.look.explore import NoMemory, look
from mooring.look.page import Page
from mooring.look.record import Call, measure, measure_model, record

__all__ = ["Call", "NoMemory", "Page", "look", "measure", "measure_model", "record"]


class _Callable(ModuleType):
    """This module, called like its function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Page:
        return look(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
