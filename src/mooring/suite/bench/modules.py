"""Contestants that no library has ready-made: our ops without modules, and textbook ways to write and read slots."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch_geometric.nn import GPSConv

from mooring import ops
from mooring.suite.bench.setting import Setting


class WriteRead(nn.Module):
    """Our two ops alone, with the slot tables that a memory would have computed: what the floor is the floor of."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        shape = (setting.slots, setting.heads, setting.dim)
        self.query, self.key = (nn.Parameter(torch.randn(shape) / setting.dim**0.5) for _ in range(2))

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        x = x.unsqueeze(1)
        state = ops.write(self.query, x, x, batch, num_graphs=num_graphs)
        return ops.read(x, self.key, state.content, batch, sum_heads=True).squeeze(1)


class ProjectedSlots(nn.Module):
    """The textbook order: project every node to keys and values, pad, call scaled_dot_product_attention twice."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        dim = setting.dim
        self.heads = setting.heads
        self.slots = nn.Parameter(torch.randn(setting.slots, dim))
        self.write_key_value, self.read_query = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.write_query, self.read_key_value = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)
        self.write_out, self.read_out = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        key, value = (self.split(part) for part in self.write_key_value(x).chunk(2, dim=-1))
        query = self.split(self.write_query(self.slots)).expand(x.size(0), -1, -1, -1)
        written = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None])
        memory = self.slots + self.write_out(written.transpose(1, 2).flatten(2))
        key, value = (self.split(part) for part in self.read_key_value(memory).chunk(2, dim=-1))
        read = nn.functional.scaled_dot_product_attention(self.split(self.read_query(x)), key, value)
        return x + self.read_out(read.transpose(1, 2).flatten(2))

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)


class FlexSlots(ProjectedSlots):
    """The same without padding: all graphs in one row, kept apart by flex_attention's block masks.

    The masks depend on the batch only and are made once, since layers share them.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.attention = torch.compile(flex_attention, dynamic=False)
        self.masks: tuple[BlockMask, BlockMask] | None = None

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:  # type: ignore[override]
        if self.masks is None:
            self.masks = self._masks(batch, num_graphs)
        x = x.unsqueeze(0)
        key, value = (self.split(part) for part in self.write_key_value(x).chunk(2, dim=-1))
        query = self.split(self.write_query(self.slots.repeat(num_graphs, 1)).unsqueeze(0))
        written = self.attention(query, key, value, block_mask=self.masks[0])
        memory = self.slots.repeat(num_graphs, 1) + self.write_out(written.transpose(1, 2).flatten(2))
        key, value = (self.split(part) for part in self.read_key_value(memory).chunk(2, dim=-1))
        read = self.attention(self.split(self.read_query(x)), key, value, block_mask=self.masks[1])
        return (x + self.read_out(read.transpose(1, 2).flatten(2))).squeeze(0)

    def _masks(self, batch: Tensor, num_graphs: int) -> tuple[BlockMask, BlockMask]:
        slots, nodes = self.slots.size(0), batch.numel()

        def slot_sees(b: Tensor, h: Tensor, slot: Tensor, node: Tensor) -> Tensor:
            return slot // slots == batch[node]

        def node_sees(b: Tensor, h: Tensor, node: Tensor, slot: Tensor) -> Tensor:
            return slot // slots == batch[node]

        rows = num_graphs * slots
        return (
            create_block_mask(slot_sees, None, None, rows, nodes, device="cpu"),
            create_block_mask(node_sees, None, None, nodes, rows, device="cpu"),
        )


class DenseAttention(nn.Module):
    """GPSConv's global half alone, without a local layer: dense attention over all pairs of nodes."""

    def __init__(self, setting: Setting, kind: str) -> None:
        super().__init__()
        self.conv = GPSConv(setting.dim, conv=None, heads=setting.heads, norm=None, attn_type=kind)

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        return self.conv(x, torch.empty(2, 0, dtype=torch.long), batch)
