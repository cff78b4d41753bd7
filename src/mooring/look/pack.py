"""Calls and graphs -> the plain values that the page is drawn from."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mooring.look.graphs import Drawn
from mooring.look.record import Call
from mooring.nn import SlotMemory

LARGEST = 65535


def pack(
    title: str, calls: Sequence[Call], drawn: Sequence[Drawn], chosen: Sequence[int], total: int, card: Any = None
) -> dict[str, Any]:
    """Everything the page needs, as JSON-able values; arrays are 16-bit integers in base64."""
    rest = total - len(chosen)
    return {
        "title": title,
        "note": f"{len(chosen)} of the {total} graphs of the batch are on this page." if rest else "",
        "graphs": [_graph(number, one) for number, one in zip(chosen, drawn, strict=True)],
        "calls": [_call(one, drawn, chosen) for one in calls],
        "card": None if card is None else card.to_record(),
    }


def _graph(number: int, one: Drawn) -> dict[str, Any]:
    return {
        "name": f"graph {number}",
        "total": one.total,
        "ids": one.ids.tolist() if one.note else None,
        "x": _packed(one.position),
        "edges": _base64(one.edges.t()),
        "symbols": one.symbols,
        "orders": one.orders,
        "facts": one.facts,
        "note": one.note,
    }


def _call(call: Call, drawn: Sequence[Drawn], chosen: Sequence[int]) -> dict[str, Any]:
    memory = call.memory
    slots = memory.slots.size(1)
    return {
        "name": call.name,
        "module": f"{call.kind}({slots} slots)" if slots > 1 else call.kind,
        "slots": slots,
        "heads": _heads(memory),
        "anchored": memory.anchor_weight is not None,
        "graphs": [_inside(memory, one, graph, chosen[0]) for graph, one in zip(chosen, drawn, strict=True)],
    }


def _heads(memory: SlotMemory) -> int:
    for one in (memory.write_weights, memory.read_weights, memory.anchor_weight):
        if one is not None:
            return int(one.size(-1))
    return 1


def _inside(memory: SlotMemory, one: Drawn, graph: int, first: int) -> dict[str, Any]:
    """What one graph's slots hold, and its nodes' weights; values per slot come as ``[slots][heads]``."""
    rows = memory.slots.size(0)
    own_state = memory.state.log_mass.size(1) == memory.slots.size(1)
    weights = {"write": _weights(memory.write_weights, one.nodes), "read": _weights(memory.read_weights, one.nodes)}
    if one.total == 0 and graph >= rows:
        # A model that is given graph ids alone does not know of empty graphs at the end.
        unknown: list[list[float | None]] = [[None] * _heads(memory)] * memory.slots.size(1)
        held = dict.fromkeys(("log_mass", "content", "moved"), unknown if own_state else None)
        anchor = None if memory.anchor_weight is None else unknown
        return {**weights, **held, "anchor": anchor, "slot": [row[:1] for row in unknown]}
    # A memory that was called without graph ids is one for all of them.
    row, reference = (graph, min(first, rows - 1)) if rows > 1 else (0, 0)
    slots = memory.slots[row].float()
    content = memory.state.content.float()
    return {
        **weights,
        "log_mass": _rows(memory.state.log_mass[row]) if own_state else None,
        "anchor": None if memory.anchor_weight is None else _rows(memory.anchor_weight[row]),
        "content": _rows(content[row].norm(dim=-1)) if own_state else None,
        "moved": _rows(_moved(content[row], content[reference])) if own_state else None,
        "slot": _rows(slots.norm(dim=-1, keepdim=True)),
    }


def _moved(content: Tensor, reference: Tensor) -> Tensor:
    """How far each slot's content is from that of the first graph, relative to its length there."""
    return (content - reference).norm(dim=-1) / reference.norm(dim=-1).clamp(min=1e-12)


def _weights(weights: Tensor | None, nodes: Tensor) -> str | None:
    # Square roots, so that shares of a thousandth keep three digits in 16 bits.
    return None if weights is None else _packed(weights.cpu()[nodes].float().clamp(min=0.0).sqrt())


def _packed(values: Tensor) -> str:
    """Numbers from zero to one as 16-bit integers."""
    return _base64((values.nan_to_num(0.0).clamp(0.0, 1.0) * LARGEST).round())


def _base64(values: Tensor) -> str:
    whole = values.detach().cpu().to(torch.int32).flatten()
    low_first = torch.stack([whole & 255, whole >> 8], dim=1).to(torch.uint8)
    return base64.b64encode(bytes(low_first.flatten().tolist())).decode()


def _rows(values: Tensor) -> list[list[float | None]]:
    """``[slots, heads]`` to five digits; None for what is not finite."""
    return [[_short(one) for one in row] for row in values.detach().cpu().double().tolist()]


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
