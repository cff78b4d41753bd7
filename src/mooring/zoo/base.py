"""Shared base of the rivals: a forward pass with source and target masks, slots, and broadcasts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from mooring.nn import MemorySpec, SlotMemory, SlotVirtualNode
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

    def mean(self) -> SlotState:
        """Return mean and log count of each graph's rows, as the state of one slot and one head."""
        return self.pooled(self.x)

    def pooled(self, values: Float[Tensor, "rows width"]) -> SlotState:
        """Return mean and log count of other values of the rows."""
        return pooled_mean(values, self.index, log_weight=self.log_weight, num_graphs=self.num_graphs)


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

    A rival replaces ``self.write``, ``self.update`` or ``self.read`` after this constructor. A custom write receives
    ``self.write.addresses``, which the read shares, and ``write_options``; a custom update receives ``update_options``.
    So a rival uses every option of the spec as the reference does, except those in ``ignores``.

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


def write_options(spec: MemorySpec) -> dict[str, Any]:
    """Return the options of a spec for any write."""
    return {"temperature": spec.temperature, "competition": spec.competition}


def update_options(spec: MemorySpec, hidden_channels: int | None = None) -> dict[str, Any]:
    """Return the options of a spec for any update; ``hidden_channels`` is the width if the spec has none."""
    hidden = hidden_channels if spec.update_channels is None else spec.update_channels
    return {"hidden_channels": hidden, "norm": spec.update_norm}


class Locate(nn.Module):
    r"""Rows -> features with their address added, :math:`x + W a`, like a positional encoding in a Transformer.

    For modules that route by content only; the identity without addresses.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__()
        width = spec.address_channels
        self.lin = None if width is None else nn.Linear(width, spec.channels, bias=False)

    def reset_parameters(self) -> None:
        reset(self.lin)

    def forward(self, rows: Rows) -> Float[Tensor, "rows channels"]:
        if self.lin is None:
            return rows.x
        return rows.x + self.lin(rows.address)


class AddedBroadcast(nn.Module):
    r"""Separable decoder: :math:`h_j + \epsilon \operatorname{MLP}(z)`, the same update for every node.

    Paper: ``eq:separable-broadcast``; by ``prop:separable`` no lookup can be built on it.

    Args:
        channels: width of the nodes. state_channels: width of the state. hidden: hidden width. scale: the paper's 0.2.
    """

    def __init__(self, channels: int, state_channels: int, hidden: int, scale: float = 0.2) -> None:
        super().__init__()
        self.scale = scale
        self.mlp = nn.Sequential(nn.Linear(state_channels, hidden), nn.GELU(), nn.Linear(hidden, channels))

    def reset_parameters(self) -> None:
        reset(self.mlp)

    def forward(self, readers: Rows, state: Tensor) -> Tensor:
        return readers.x + self.scale * self.mlp(state)[readers.index]


class JointBroadcast(nn.Module):
    r"""Non-separable decoder: :math:`h_j + \epsilon \operatorname{MLP}([h_j, z])`.

    The decoder of :class:`~mooring.nn.VirtualNode`, for a state of any width.

    Args: as :class:`AddedBroadcast`, and depth: hidden layers of the MLP.
    """

    def __init__(self, channels: int, state_channels: int, hidden: int, scale: float = 0.2, depth: int = 1) -> None:
        super().__init__()
        self.scale = scale
        self.lin_node = nn.Linear(channels, hidden)
        self.lin_state = nn.Linear(state_channels, hidden, bias=False)
        self.lin_hidden = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(depth - 1))
        self.lin_out = nn.Linear(hidden, channels)

    def reset_parameters(self) -> None:
        for lin in (self.lin_node, self.lin_state, *self.lin_hidden, self.lin_out):
            reset(lin)

    def forward(self, readers: Rows, state: Tensor) -> Tensor:
        hidden = nn.functional.gelu(self.lin_node(readers.x) + self.lin_state(state)[readers.index])
        for lin in self.lin_hidden:
            hidden = nn.functional.gelu(lin(hidden))
        return readers.x + self.scale * self.lin_out(hidden)
