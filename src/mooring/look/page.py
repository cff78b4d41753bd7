"""One self-contained HTML page, and the plain values that it is drawn from."""

from __future__ import annotations

import base64
import html
import math
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import torch
from torch import Tensor

from mooring.look.graphs import Drawn
from mooring.look.record import Call
from mooring.markup import digest, inert, policy
from mooring.nn import SlotMemory

HEIGHT = 820
LARGEST = 65535


class Page:
    """The page of a memory on some graphs, to open in a browser or to show in a notebook.

    Args:
        title: of the page.
        data: what is drawn.
    """

    def __init__(self, title: str, data: Mapping[str, Any]) -> None:
        self.title = title
        self.data = data

    @property
    def html(self) -> str:
        """The page as HTML. Its policy allows this script and this style by their hashes, and no requests."""
        parts = "".join(_asset(f"{name}.js") for name in ("values", "reading", "panel", "page"))
        script = f'"use strict";\n(() => {{\n{parts}}})();'
        style = _asset("page.css")
        return Template(_asset("page.html")).substitute(
            policy=policy([digest(script)], [digest(style)]),
            title=html.escape(self.title),
            style=style,
            script=script,
            data=inert(self.data),
        )

    def save(self, path: str | Path) -> Path:
        """Write the page; a reader of ``path`` sees the old file or the new one, never a part of one."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            beside.write_text(self.html, encoding="utf-8")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        return path

    def _repr_html_(self) -> str:
        """Return the page in a frame for a notebook, which may only run its script and save pictures."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" title="{html.escape(self.title)}" '
            'sandbox="allow-scripts allow-downloads" '
            f'style="width: 100%; height: {HEIGHT}px; border: 0" loading="lazy"></iframe>'
        )

    def __repr__(self) -> str:
        graphs, calls = len(self.data["graphs"]), len(self.data["calls"])
        return (
            f"{type(self).__name__}({self.title!r}, {graphs} graph{'s' * (graphs != 1)}, "
            f"{calls} {'memory' if calls == 1 else 'memories'})"
        )


def _asset(name: str) -> str:
    return (files("mooring.look") / name).read_text(encoding="utf-8")


def pack(
    title: str, calls: Sequence[Call], drawn: Sequence[Drawn], chosen: Sequence[int], total: int, card: Any = None
) -> dict[str, Any]:
    """Return the data of a page as JSON-serialisable values; arrays are 16-bit integers in base64."""
    note = f"{len(chosen)} of the {total} graphs of the batch are on this page."
    return {
        "title": title,
        "note": note if total > len(chosen) else "",
        "graphs": [_graph(number, graph) for number, graph in zip(chosen, drawn, strict=True)],
        "calls": [_call(call, drawn, chosen) for call in calls],
        "card": None if card is None else card.to_record(),
    }


def _graph(number: int, graph: Drawn) -> dict[str, Any]:
    return {
        "name": f"graph {number}",
        "total": graph.total,
        "ids": graph.ids.tolist() if graph.note else None,
        "x": _packed(graph.position),
        "edges": _base64(graph.edges.t()),
        "symbols": graph.symbols,
        "orders": graph.orders,
        "facts": graph.facts,
        "note": graph.note,
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
        "graphs": [_inside(memory, *pair, chosen[0]) for pair in zip(chosen, drawn, strict=True)],
    }


def _heads(memory: SlotMemory) -> int:
    weights = (memory.write_weights, memory.read_weights, memory.anchor_weight)
    return next((int(weight.size(-1)) for weight in weights if weight is not None), 1)


def _inside(memory: SlotMemory, number: int, graph: Drawn, first: int) -> dict[str, Any]:
    """Return the contents of a graph's slots, ``[slots][heads]``, and the weights of its nodes."""
    rows = memory.slots.size(0)
    own_state = memory.state.log_mass.size(1) == memory.slots.size(1)
    weights = {"write": _weights(memory.write_weights, graph.nodes), "read": _weights(memory.read_weights, graph.nodes)}
    if graph.total == 0 and number >= rows:
        # Graph ids alone do not show empty graphs at the end of a batch.
        unknown: list[list[float | None]] = [[None] * _heads(memory)] * memory.slots.size(1)
        held = dict.fromkeys(("log_mass", "content", "moved"), unknown if own_state else None)
        anchor = None if memory.anchor_weight is None else unknown
        return {**weights, **held, "anchor": anchor, "slot": [row[:1] for row in unknown]}
    # A memory that was called without graph ids has one row for all graphs.
    row, reference = (number, min(first, rows - 1)) if rows > 1 else (0, 0)
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
    """Return the distance of each slot's content from that of the first graph, relative to the latter's norm."""
    return (content - reference).norm(dim=-1) / reference.norm(dim=-1).clamp(min=1e-12)


def _weights(weights: Tensor | None, nodes: Tensor) -> str | None:
    # Square roots, so that shares of a thousandth keep three digits in 16 bits.
    return None if weights is None else _packed(weights.cpu()[nodes].float().clamp(min=0.0).sqrt())


def _packed(values: Tensor) -> str:
    """Encode numbers in [0, 1] as 16-bit integers."""
    return _base64((values.nan_to_num(0.0).clamp(0.0, 1.0) * LARGEST).round())


def _base64(values: Tensor) -> str:
    whole = values.detach().cpu().to(torch.int32).flatten()
    low_first = torch.stack([whole & 255, whole >> 8], dim=1).to(torch.uint8)
    return base64.b64encode(bytes(low_first.flatten().tolist())).decode()


def _rows(values: Tensor) -> list[list[float | None]]:
    """Round ``[slots, heads]`` to five digits; NaN and infinity become None."""
    rows = values.detach().cpu().double().tolist()
    return [[float(f"{value:.5g}") if math.isfinite(value) else None for value in row] for row in rows]
