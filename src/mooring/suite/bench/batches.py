"""Small batches of molecules: the default module against common alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv

from mooring.nn import SlotVirtualNode
from mooring.suite.bench.shapes import Setting, get_shape

MOLECULES = ("molecules-32", "molecules-64", "molecules-256", "molecules-512")
WIDTHS, THREADS, SLOTS = (64, 128), (1, 2), 8
DEFAULT, PADDED = "slots, FiLM", "plain padded"
PEERS_OF_BATCHES = (DEFAULT, PADDED, "GINEConv", "OGB-style VN", "GPSConv multihead")


class PaddedSlots(nn.Module):
    """:class:`~mooring.nn.SlotVirtualNode` in plain PyTorch: pad, ``einsum``, ``logsumexp``, and autograd.

    Same parameters and same outputs, without plan, checks, masks or a choice of order.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.memory = SlotVirtualNode(setting.dim, setting.slots, setting.heads)

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        write, update, read, film = self.memory.write, self.memory.update, self.memory.read, self.memory.integrate
        assert read is not None
        heads, dim = self.memory.heads, self.memory.channels // self.memory.heads
        sizes = torch.bincount(batch, minlength=num_graphs)
        length = int(sizes.max())
        first = (torch.arange(num_graphs, device=x.device) * length - sizes.cumsum(0) + sizes).index_select(0, batch)
        place = torch.arange(x.size(0), device=x.device) + first
        h = x.new_zeros(num_graphs * length, x.size(1)).index_copy(0, place, x).view(num_graphs, length, -1)
        absent = torch.arange(length, device=x.device) >= sizes.unsqueeze(1)

        assert write.addresses is not None
        address, value = nn.functional.layer_norm(h, h.shape[-1:]), write.lin_value(h).unflatten(-1, (heads, dim))
        shared = torch.einsum("mhc,glc->gmhl", write.addresses.table(), address)
        scores = shared.masked_fill(absent[:, None, None], float("-inf"))
        log_mass = scores.logsumexp(-1)
        content = torch.einsum("gmhl,glhd->gmhd", (scores - log_mass.unsqueeze(-1)).exp(), value)

        u = update.norm_in(update.lin_out(content.flatten(2)))
        slots = update.norm_out(u + update.feed_forward(u))
        slots = slots + update.mass_mlp(nn.functional.softplus(log_mass - update.anchor_logit))

        value = read.lin_value(slots).unflatten(-1, (heads, dim))
        context = read.lin_out(torch.einsum("gmhl,gmhd->glhd", shared.softmax(1), value).flatten(2))
        hidden = nn.functional.gelu(film.lin_node(h) + context)
        gamma, beta = film.lin_film(hidden).tanh().chunk(2, -1)
        out: Tensor = (1 + 0.5 * gamma) * h + beta
        return out.flatten(0, 1).index_select(0, place)


class LocalLayer(nn.Module):
    """GINE layer over chains of bonds, two directed edges per bond: the local work of a model with a memory."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        dim = setting.dim
        self.conv = GINEConv(nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim)))
        self.edges: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        if self.edges is None:
            start = (batch[1:] == batch[:-1]).nonzero().squeeze(1)
            forward = torch.stack([start, start + 1])
            bonds = torch.cat([forward, forward.flip(0)], dim=1)
            self.edges = bonds, torch.randn(bonds.size(1), x.size(1), device=x.device)
        return self.conv(x, *self.edges)


def compare_batches(shapes: Sequence[str], peers: Sequence[str], base: Setting, repeats: int) -> list[dict[str, Any]]:
    """Return one row per batch, width and number of threads: training times relative to the default module."""
    from mooring.suite.bench.compare import time_peers

    before, rows = torch.get_num_threads(), []
    try:
        for threads in THREADS:
            torch.set_num_threads(threads)
            for width in WIDTHS:
                setting = replace(base, dim=width, slots=SLOTS)
                for shape in shapes:
                    batch = get_shape(shape).batch()
                    times = time_peers(batch, peers, setting, repeats)[0]["training"]
                    row: dict[str, Any] = {"graphs": int(batch[-1]) + 1, "nodes": batch.numel()}
                    row |= {"width": width, "threads": threads}
                    ours = times[DEFAULT]
                    row |= {
                        f"{name}_over_slots": times[name].minimum / ours.minimum for name in peers if name != DEFAULT
                    }
                    row["noise"] = ours.median / ours.minimum
                    rows.append(row)
    finally:
        torch.set_num_threads(before)
    return rows
