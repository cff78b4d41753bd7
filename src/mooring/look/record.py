"""Every pass through a memory while a model runs, and a memory in a few numbers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mooring.nn import SlotMemory
from mooring.ops.checks import described

# They hand return_state on to the memory inside them. By name: a model without them does not need their modules.
WRAPPERS = {("mooring.nn.slot_conv", "SlotConv"), ("mooring.zoo.budget", "WithNodeMLP")}


@dataclass(frozen=True)
class Call:
    """One pass through one memory.

    Args:
        name: qualified name of the module in the model; ``"memory"`` if it is the model itself.
        kind: name of the module's class.
        memory: what the module returned as its memory.
        types: number of nodes of each type, in the order of the weights, if there are types.
    """

    name: str
    kind: str
    memory: SlotMemory
    types: dict[str, int] | None = None


def record(model: nn.Module, run: Callable[[], Any]) -> list[Call]:
    """Return the passes through every memory in ``model`` during ``run()``, in order.

    Memories are the modules whose forward takes ``return_state``. The model runs in eval mode and without gradients.
    Its outputs are unchanged, and so are its modes and hooks afterwards.

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
    """Return the memory modules of a model by qualified name; of nested ones, only the innermost."""
    modules = {
        name: module
        for name, module in model.named_modules()
        if "return_state" in inspect.signature(module.forward).parameters
        and not any((kind.__module__, kind.__name__) in WRAPPERS for kind in type(module).__mro__)
    }
    return [
        (name, module)
        for name, module in modules.items()
        if not any(other.startswith(f"{name}." if name else "") for other in modules if other != name)
    ]


def _watch(module: nn.Module, name: str, calls: list[Call]) -> list[Any]:
    """Make a module return its memory, and keep it; the caller receives what it asked for."""
    requests: list[bool] = []

    def request_state(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        requests.append(bool(kwargs.get("return_state", False)))
        return args, {**kwargs, "return_state": True}

    def keep_state(_: nn.Module, args: Any, kwargs: dict[str, Any], out: Any) -> Any:
        requested = requests.pop()
        if not isinstance(out, tuple) or len(out) != 2:
            return out
        if isinstance(out[1], SlotMemory):
            x = args[0] if args else kwargs.get("x_dict")
            types = {name: len(nodes) for name, nodes in x.items()} if isinstance(x, Mapping) else None
            calls.append(Call(name, type(module).__name__, out[1], types))
        return out if requested else out[0]

    return [
        module.register_forward_pre_hook(request_state, with_kwargs=True),
        module.register_forward_hook(keep_state, with_kwargs=True),
    ]


@contextmanager
def _evaluation(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def measure(memory: SlotMemory) -> dict[str, float]:
    r"""Return the numbers of one pass through a memory; those that the module does not have are left out.

    - ``slots_written``, ``slots_read``: :math:`e^H`, with :math:`H` the mean entropy of how a node's writes, or reads,
      are spread over the slots. One: every node uses one slot. The number of slots: all slots are alike, as in a
      virtual node with one state.
    - ``write_entropy``, ``read_entropy``: the same :math:`H`, in nats.
    - ``anchor_share``: mean share of the anchors in their slots. Near one the slots hold nothing; near zero they
      saturate, and only the mass still counts.
    - ``log_mass_min``, ``log_mass_max``: range of the log-masses of slots that something was written to.

    Args:
        memory: what a module returns with ``return_state=True``. With ``return_state="slots"`` there are no weights,
            and only the masses are measured.

    >>> from mooring.nn import SlotVirtualNode
    >>> _, memory = SlotVirtualNode(8, slots=4)(torch.zeros(5, 8), return_state=True)
    >>> round(measure(memory)["slots_written"], 3)
    4.0
    """
    if not isinstance(memory, SlotMemory):
        raise TypeError(
            f"measure: memory is {described(memory)} but a SlotMemory was expected. Pass what return_state=True gives."
        )
    numbers: dict[str, float] = {}
    if memory.anchor_weight is not None and memory.anchor_weight.numel():
        numbers["anchor_share"] = float(memory.anchor_weight.detach().double().mean())
    for verb, past, weights in (("write", "written", memory.write_weights), ("read", "read", memory.read_weights)):
        entropy = None if weights is None else _mean_entropy(weights.detach().double())
        if entropy is not None:
            numbers[f"slots_{past}"] = math.exp(entropy)
            numbers[f"{verb}_entropy"] = entropy
    masses = memory.state.log_mass.detach()
    masses = masses[masses.isfinite()]
    if masses.numel():
        numbers["log_mass_min"], numbers["log_mass_max"] = float(masses.min()), float(masses.max())
    return numbers


def measure_model(model: nn.Module, run: Callable[[], Any]) -> dict[str, float]:
    """Return the numbers of every memory in a model, by ``place/number``.

    Args:
        model: a memory, or a model with memories anywhere inside.
        run: calls the model; as in :func:`~mooring.look.record`, in eval mode and without gradients.

    >>> from mooring.nn import SlotVirtualNode
    >>> model = nn.Sequential(SlotVirtualNode(8, slots=4))
    >>> sorted(measure_model(model, lambda: model(torch.randn(5, 8))))[:2]
    ['0/anchor_share', '0/log_mass_max']
    """
    return by_place(record(model, run))


def by_place(calls: Iterable[Call]) -> dict[str, float]:
    """Return the numbers of passes by ``place/number``; means if a memory was passed several times."""
    by_name: dict[str, list[float]] = {}
    for call in calls:
        for name, number in measure(call.memory).items():
            by_name.setdefault(f"{call.name}/{name}", []).append(number)
    return {name: sum(numbers) / len(numbers) for name, numbers in by_name.items()}


def _mean_entropy(weights: Float[Tensor, "nodes slots heads"]) -> float | None:
    """Return the mean entropy over slots, nodes and heads weighted by their total; None if the total is zero."""
    total = weights.sum(dim=1)
    whole = float(total.sum())
    if not math.isfinite(whole) or whole <= 0.0:
        return None
    share = weights / total.clamp(min=torch.finfo(weights.dtype).tiny).unsqueeze(1)
    entropy = torch.special.entr(share).sum(dim=1)
    return max(0.0, float((total * entropy).sum()) / whole)
