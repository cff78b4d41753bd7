"""PyG finds ``SlotAggregation`` by name: ``aggregation_resolver("slot", ...)``, ``aggr="slot"`` in any convolution.

PyG's resolver looks through the classes in ``torch_geometric.nn.aggr`` and has no registry beside them, so the name is
put there: at once where PyG is loaded, else when it loads, since ``import mooring`` must not wait for it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

HOME = "torch_geometric.nn.aggr"


def register() -> None:
    """Make the name known to PyG, now or once PyG is imported."""
    if HOME in sys.modules:
        _add(sys.modules[HOME])
    elif not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())


class _Watch:
    """Finds nothing itself: it waits until one module is imported and then adds the name to it."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != HOME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run: Any = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                _add(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _add(home: Any) -> None:
    class SlotAggregation(home.Aggregation):
        """Builds a :class:`mooring.nn.SlotAggregation`, so that its import can wait until it is needed."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            from mooring.nn import SlotAggregation as Wanted

            return Wanted(*args, **kwargs)

    if not hasattr(home, "SlotAggregation"):
        home.SlotAggregation = SlotAggregation
