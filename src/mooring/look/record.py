"""Every pass through a memory while a model runs, whether or not the model asks for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from mooring.nn import SlotMemory

# They hand return_state on to the memory inside them. By name: a model without them does not need their modules.
WRAPPERS = {("mooring.nn.slot_conv", "SlotConv"), ("mooring.zoo.budget", "WithNodeMLP")}


@dataclass(frozen=True)
class Call:
    """One pass through one memory.

    Args:
        name: where the module is in the model, ``"memory"`` where it is the model itself.
        kind: the name of the module's class.
        memory: the inside of the pass.
        types: the number of nodes of each type, in the order that the weights have, where there are types.
    """

    name: str
    kind: str
    memory: SlotMemory
    types: dict[str, int] | None = None


def record(model: nn.Module, run: Callable[[], Any]) -> list[Call]:
    """The passes through every memory in ``model`` during ``run()``, in their order.

    Memories are the modules whose forward takes ``return_state``. The model runs in eval mode and without gradients;
    what it returns to its own code stays what it was, and so do its modes and hooks afterwards.

    Args:
        model: a memory, or a model with memories anywhere inside.
        run: calls the model.

    >>> from mooring.nn import SlotVirtualNode
    >>> memory = SlotVirtualNode(8, slots=3)
    >>> record(memory, lambda: memory(torch.randn(5, 8)))[0].memory
    SlotMemory(1 graphs, 3 slots, 8 channels)
    """
    with watched(model) as calls, _evaluation(model), torch.no_grad():
        run()
    return calls


@contextmanager
def watched(model: nn.Module) -> Iterator[list[Call]]:
    """Collect the passes through every memory in ``model`` while the context is open, in the model's own mode."""
    calls: list[Call] = []
    handles = []
    for name, module in memories(model):
        handles += _watch(module, name or "memory", calls)
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def memories(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The memories of a model by their place in it; of memories inside each other the innermost."""
    found = {
        name: module
        for name, module in model.named_modules()
        if "return_state" in inspect.signature(module.forward).parameters and not _wraps(module)
    }
    return [
        (name, module)
        for name, module in found.items()
        if not any(other.startswith(f"{name}." if name else "") for other in found if other != name)
    ]


def _wraps(module: nn.Module) -> bool:
    return any((kind.__module__, kind.__name__) in WRAPPERS for kind in type(module).__mro__)


def _watch(module: nn.Module, name: str, calls: list[Call]) -> list[Any]:
    asked: list[bool] = []

    def ask(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        asked.append(bool(kwargs.get("return_state", False)))
        return args, {**kwargs, "return_state": True}

    def take(_: nn.Module, args: Any, kwargs: dict[str, Any], out: Any) -> Any:
        wanted = asked.pop()
        if not isinstance(out, tuple) or len(out) != 2:
            return out
        if isinstance(out[1], SlotMemory):
            calls.append(Call(name, type(module).__name__, out[1], _types(args, kwargs)))
        return out if wanted else out[0]

    return [
        module.register_forward_pre_hook(ask, with_kwargs=True),
        module.register_forward_hook(take, with_kwargs=True),
    ]


def _types(args: Any, kwargs: dict[str, Any]) -> dict[str, int] | None:
    given = args[0] if args else kwargs.get("x_dict")
    return {name: len(x) for name, x in given.items()} if isinstance(given, Mapping) else None


@contextmanager
def _evaluation(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
