"""A memory in a few numbers: how much its anchors hold, how many slots are in use, how far its masses reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mooring.look.record import Call, record
from mooring.nn import SlotMemory
from mooring.ops.checks import described


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
    """Return the numbers of passes by ``place/number``; means where a memory was passed several times."""
    found: dict[str, list[float]] = {}
    for call in calls:
        for name, number in measure(call.memory).items():
            found.setdefault(f"{call.name}/{name}", []).append(number)
    return {name: sum(numbers) / len(numbers) for name, numbers in found.items()}


def _mean_entropy(weights: Float[Tensor, "nodes slots heads"]) -> float | None:
    """Mean over nodes and heads of the entropy over slots, nodes counting by their total; None if nothing is there."""
    total = weights.sum(dim=1)
    whole = float(total.sum())
    if not math.isfinite(whole) or whole <= 0.0:
        return None
    share = weights / total.clamp(min=torch.finfo(weights.dtype).tiny).unsqueeze(1)
    entropy = torch.special.entr(share).sum(dim=1)
    return max(0.0, float((total * entropy).sum()) / whole)
