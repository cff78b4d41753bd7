"""Shared base of the rivals: a forward pass with source and target masks, slots, and broadcasts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch_geometric.nn.inits import reset
from torch_geometric.utils import to_dense_batch

from mooring import ops
from mooring.nn import Addresses, MemorySpec, SlotMemory, SlotUpdate, SlotVirtualNode, SlotWrite
from mooring.nn.checks import check_address, check_build, check_input, check_return_state
from mooring.nn.masks import hide, readers, sound_nodes, writers
from mooring.nn.memory import refuse_memory
from mooring.nn.spec import check_spec
from mooring.nn.virtual_node import pooled_mean
from mooring.ops import Plan, SlotState
from mooring.ops.checks import check_flag
from mooring.ops.state import statistics_dtype

# Largest relative distance of a multiplicity from a whole number; float32 logarithms are exact to about 1e-6.
WHOLE = 1e-3
# More copies of one node would fill the memory.
MOST_COPIES = 10_000_000


@dataclass(frozen=True)
class Rows:
    """Writing or reading nodes of all graphs in a batch, in any order.

    Args:
        x: node features.
        index: graph ids.
        num_graphs: number of graphs, empty ones included.
        log_weight: finite logarithms of multiplicities; float32 if the features are in half precision.
        address: node addresses, if the task has any.
    """

    x: Float[Tensor, "rows channels"]
    index: Int[Tensor, " rows"]
    num_graphs: int
    log_weight: Float[Tensor, " rows"]
    address: Float[Tensor, "rows address_channels"] | None = None

    def pick(self, rows: Int[Tensor, " picked"]) -> Rows:
        """Select rows, in this order; a row may be selected more than once."""
        return replace(
            self,
            x=self.x.index_select(0, rows),
            index=self.index.index_select(0, rows),
            log_weight=self.log_weight.index_select(0, rows),
            address=None if self.address is None else self.address.index_select(0, rows),
        )

    def hidden(self, seen: Bool[Tensor, " rows"]) -> Rows:
        """Replace the rows that are not ``seen`` by zeros; all rows keep their position."""
        address = None if self.address is None else hide(self.address, seen)
        return replace(self, x=hide(self.x, seen), address=address)

    def copies(self, who: str) -> Rows:
        """Repeat each row by its multiplicity, for third-party code that does not support weights."""
        rows = torch.arange(self.x.size(0), device=self.x.device)
        repeated = self.pick(rows.repeat_interleave(self.counts(who)))
        return replace(repeated, log_weight=torch.zeros_like(repeated.log_weight))

    def counts(self, who: str) -> Int[Tensor, " rows"]:
        """Return the multiplicity of each row; raise if it is not a whole number or too large."""
        exact = self.log_weight.exp()
        counts = exact.round()
        wrong = ((counts - exact).abs() > WHOLE * exact) | (exact > MOST_COPIES)
        if bool(wrong.any()):
            raise ValueError(
                f"{who}: log_weight means {float(exact[wrong][0]):g} copies of a node, but copies are made literally. "
                f"Pass logarithms of whole numbers up to {MOST_COPIES:,}, in float32 or better."
            )
        return counts.long()

    def mean(self, values: Float[Tensor, "rows width"] | None = None) -> SlotState:
        """Return mean and log count of the features, or of other values, as the state of one slot and one head."""
        values = self.x if values is None else values
        return pooled_mean(values, self.index, log_weight=self.log_weight, num_graphs=self.num_graphs)

    def write(self, query: Tensor, key: Tensor, value: Tensor) -> SlotState:
        """Return the state of a write of the rows, see :func:`mooring.ops.write`."""
        return ops.write(query, key, value, self.index, num_graphs=self.num_graphs, log_weight=self.log_weight)


class GlobalModule(nn.Module, ABC):
    """Node features -> node features, in two steps that a rival implements: ``gather`` and ``spread``.

    ``gather`` receives the sources only and ``spread`` the targets only, so a rival cannot get the masks wrong. As in
    :class:`~mooring.nn.SlotVirtualNode`, a non-finite node that does not write does not read either.

    A rival uses the widths, ``slots``, ``heads``, ``temperature`` and ``init_std`` of its spec, if they apply. Other
    options are ignored; they belong to slot memories, see :class:`SlotRival`.

    Args:
        spec: widths and counts, see :class:`~mooring.nn.MemorySpec`.
        address: whether the module uses addresses; otherwise they are ignored.
    """

    takes_memory: ClassVar[bool] = False

    def __init__(self, spec: MemorySpec, *, address: bool = False) -> None:
        super().__init__()
        who = type(self).__name__
        check_spec(who, spec)
        check_build(who, spec.channels, spec.slots, spec.heads)
        self.channels = spec.channels
        self.uses_address = check_flag(who, "address", address)
        self.address_channels = spec.address_channels if self.uses_address else None

    @abstractmethod
    def gather(self, writers: Rows) -> Any:
        """Summarise each graph's sources, for :meth:`spread`."""

    @abstractmethod
    def spread(self, readers: Rows, gathered: Any) -> Float[Tensor, "readers channels"]:
        """Return new features of the targets."""

    def content(self, gathered: Any) -> Tensor | None:
        """Return the summary as ``[graphs, slots, width]``; None if nodes interact without a memory."""
        return gathered if isinstance(gathered, Tensor) else None

    def reset_parameters(self) -> None:
        for module in self.children():
            reset(module)

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        batch: Int[Tensor, " nodes"] | Plan | None = None,
        *,
        address: Float[Tensor, "nodes address_channels"] | None = None,
        sources: Bool[Tensor, " nodes"] | None = None,
        targets: Bool[Tensor, " nodes"] | None = None,
        log_weight: Float[Tensor, " nodes"] | None = None,
        num_graphs: int | None = None,
        ptr: Int[Tensor, " offsets"] | None = None,
        plan: Plan | None = None,
        memory: SlotMemory | None = None,
        return_state: bool | Literal["slots"] = False,
    ) -> Tensor | tuple[Tensor, SlotMemory | None]:
        """Run as :class:`~mooring.nn.SlotVirtualNode`, but raise if ``memory`` of the previous layer is passed.

        The ``state`` of the returned memory is the mean and log count.
        """
        refuse_memory(type(self).__name__, memory)
        return_state = check_return_state(type(self).__name__, return_state)
        masks: dict[str, Any] = {"sources": sources, "targets": targets, "log_weight": log_weight}
        plan = check_input(self, self.channels, x, batch, ptr=ptr, plan=plan, num_graphs=num_graphs, **masks)
        if self.uses_address:
            check_address(type(self).__name__, address, x, self.address_channels)
        # A logarithm in half precision is off by a percent of the multiplicity.
        weight = x.new_zeros(x.size(0)) if log_weight is None else log_weight.to(statistics_dtype(x.dtype))
        nodes = Rows(x, plan.index, plan.num_graphs, weight, address if self.uses_address else None)
        writes = writers(sources, log_weight)
        reads = readers(sound_nodes(x, nodes.address, writes), targets)
        written = nodes if writes is None else nodes.pick(writes.nonzero().squeeze(1))
        gathered = self.gather(written)
        # Mask rows instead of selecting them: the edges of an expander depend on the positions of the targets.
        seen = nodes if reads is None or reads is targets else nodes.hidden(reads)
        if targets is None:
            out = self.spread(seen, gathered).to(x.dtype)
        else:
            rows = targets.nonzero().squeeze(1)
            out = x.index_copy(0, rows, self.spread(seen.pick(rows), gathered).to(x.dtype))
        if reads is not None and reads is not targets:
            out = torch.where(reads.unsqueeze(-1), out, x)
        if not return_state:
            return out
        content = self.content(gathered)
        return out, None if content is None else SlotMemory(written.mean(), content)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels})"


class SlotRival(SlotVirtualNode):
    """A :class:`~mooring.nn.SlotVirtualNode` built from a spec, without an anchor by default.

    A rival replaces ``self.write`` (by a :class:`RivalWrite` that receives ``self.write.addresses``, which the read
    shares), ``self.update`` (by a :class:`RivalUpdate`) or ``self.read`` after this constructor. So it uses every
    option of the spec as the reference does, except those in ``ignores``.

    Args:
        spec: see :class:`~mooring.nn.MemorySpec`.
        changes: arguments of :class:`~mooring.nn.SlotVirtualNode` that override the spec.

    >>> SlotRival(MemorySpec(channels=16, slots=4))
    SlotRival(16, slots=4, heads=4, anchored=False, routing='free')
    """

    # Options of an anchor and its mass, which most rivals do not have.
    ignores: ClassVar[frozenset[str]] = frozenset({"mass", "split", "anchor_init", "mass_map"})

    def __init__(self, spec: MemorySpec, **changes: Any) -> None:
        check_spec(type(self).__name__, spec)
        super().__init__(**spec.arguments(**{"anchored": False, **changes}))

    @classmethod
    def from_spec(cls, spec: MemorySpec, **changes: Any) -> SlotRival:
        return cls(spec, **changes)


class RivalWrite(SlotWrite):
    """Write built from a spec; ``addresses`` are those of the write that it replaces."""

    def __init__(self, spec: MemorySpec, addresses: Addresses | None) -> None:
        sizes = spec.channels, spec.slots, spec.heads
        super().__init__(*sizes, temperature=spec.temperature, competition=spec.competition, addresses=addresses)


class RivalUpdate(SlotUpdate):
    """Update without an anchor, built from a spec; ``hidden_channels`` is its width if the spec has none."""

    def __init__(self, spec: MemorySpec, hidden_channels: int | None = None) -> None:
        hidden = hidden_channels if spec.update_channels is None else spec.update_channels
        sizes = spec.channels, spec.slots, spec.heads
        super().__init__(*sizes, anchored=False, hidden_channels=hidden, norm=spec.update_norm)


def mlp(*widths: int) -> nn.Sequential:
    """Build linear maps between these widths, with GELU between the maps."""
    layers = [layer for pair in pairwise(widths) for layer in (nn.GELU(), nn.Linear(*pair))]
    return nn.Sequential(*layers[1:])


class Locate(nn.Module):
    r"""Rows -> features with their address added, :math:`x + W a`, like a positional encoding in a Transformer.

    For modules that route by content only; the identity without addresses.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__()
        width = spec.address_channels
        self.lin = None if width is None else nn.Linear(width, spec.channels, bias=False)

    def forward(self, rows: Rows) -> Float[Tensor, "rows channels"]:
        return rows.x if self.lin is None else rows.x + self.lin(rows.address)


class Padding:
    """Layout of rows in a block ``[graphs, longest, ...]``; ``longest`` is at least one.

    PyG's ``to_dense_batch`` needs sorted graph ids; these rows are in any order.

    Args:
        rows: the rows to pad.
    """

    def __init__(self, rows: Rows) -> None:
        self.order = rows.index.argsort(stable=True)
        self.index = rows.index.index_select(0, self.order)
        self.num_graphs = rows.num_graphs
        counts = torch.bincount(self.index, minlength=rows.num_graphs)
        self.longest = max(1, int(counts.max())) if rows.num_graphs else 1
        self.present: Bool[Tensor, "graphs longest"] = torch.arange(
            self.longest, device=counts.device
        ) < counts.unsqueeze(1)

    def pad(self, values: Float[Tensor, "rows ..."], fill: float = 0.0) -> Float[Tensor, "graphs longest ..."]:
        # PyG 2.7's to_dense_batch fails without graphs.
        if not self.num_graphs:
            return values.new_full((0, self.longest, *values.shape[1:]), fill)
        ordered = values.index_select(0, self.order)
        block: Tensor = to_dense_batch(
            ordered, self.index, fill_value=fill, max_num_nodes=self.longest, batch_size=self.num_graphs
        )[0]
        return block

    def unpad(self, block: Float[Tensor, "graphs longest ..."]) -> Float[Tensor, "rows ..."]:
        """Return the rows of a block, in their original order."""
        return block[self.present].index_select(0, self.order.argsort())

    def present_or_stand_in(self) -> Bool[Tensor, "graphs longest"]:
        """Return ``present`` plus one row of zeros per graph without rows, so that no softmax is empty."""
        stand_in = torch.zeros_like(self.present)
        stand_in[:, 0] = ~self.present.any(dim=1)
        return self.present | stand_in
