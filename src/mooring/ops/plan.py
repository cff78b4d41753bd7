"""Batch layout: which node belongs to which graph. Computed once and shared by all layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from mooring.ops import checks
from mooring.ops.state import in_mode, is_transformed, untransformed

Kept = TypeVar("Kept")

# Graphs without nodes are left out from this many on, and from this share of all graphs on (one in 32). 100 graphs of
# 20 nodes, 8 slots, width 64, forward and backward: with 4, 16, 32, 100 and 400 more graphs without nodes it takes
# 1.05, 1.10, 1.20, 1.58 and 2.25 times as long; if they are left out, 1.04 times, however many there are.
EMPTY_GRAPHS, EMPTY_SHARE = 8, 32

if TYPE_CHECKING:
    from functools import cached_property as kept
else:

    def kept(compute):
        """Return a property that a plan computes once. Python's own takes a lock, which cannot be traced."""
        name = compute.__name__

        def get(plan):
            return plan._kept[name] if name in plan._kept else plan.keep(name, compute)

        return property(get, doc=compute.__doc__)


class Grid(NamedTuple):
    """A ragged batch as one block ``[graphs, length]``, short graphs padded.

    Args:
        graphs, length: its shape.
        places: the place of each node; None for one graph, which is its own grid.
        constants: the values of the padding, made once per dtype.
    """

    graphs: int
    length: int
    places: Tensor | None
    constants: dict[tuple[str, torch.dtype], Tensor]

    @classmethod
    def of(cls, plan: Plan) -> Grid:
        if plan.batch is None:
            return cls(1, plan.num_nodes, None, {})
        largest, order, rank = plan.largest, plan.order, torch.arange(plan.num_nodes, device=plan.device)
        if order is not None:
            rank = torch.empty_like(rank).index_copy_(0, order, rank)
        skipped = torch.arange(plan.num_graphs, device=plan.device) * largest - plan.offsets[:-1]
        return cls(plan.num_graphs, largest, rank + skipped.index_select(0, plan.batch), {})

    def fill(self, tensor: Tensor, value: float = 0.0) -> Tensor:
        """Return ``[graphs, length, ...]`` of ``[nodes, ...]``, with ``value`` in the padding."""
        if self.places is None:
            return tensor.unsqueeze(0)
        # Unlike a gather, which scatters sums in its backward, a copy has a gather for its backward.
        name, dtype, device = str(value), tensor.dtype, tensor.device
        if (name, dtype) not in self.constants:
            # Outside torch.func and tracing: the plan outlives them.
            self.constants[name, dtype] = untransformed(lambda: torch.full((), value, dtype=dtype, device=device))
        # An expanded number is copied once; a full tensor would be written and then copied.
        blank = self.constants[name, dtype].expand(self.graphs * self.length, *tensor.shape[1:])
        return blank.index_copy(0, self.places, tensor).unflatten(0, (self.graphs, self.length))

    def pick(self, blocks: Tensor) -> Tensor:
        """Return ``[nodes, ...]`` of ``[graphs, length, ...]``."""
        return blocks.squeeze(0) if self.places is None else blocks.flatten(0, 1).index_select(0, self.places)

    def absent(self, like: Tensor) -> Tensor:
        """Return ``[graphs * length, 1]``: zero in the place of a node, ``-inf`` in the padding."""
        if self.places is None:
            return like.new_zeros(1)
        dtype, device = like.dtype, like.device
        if ("absent", dtype) not in self.constants:
            places, rows = self.places, self.graphs * self.length
            self.constants["absent", dtype] = untransformed(
                lambda: torch.full((rows, 1), float("-inf"), dtype=dtype, device=device).index_fill_(0, places, 0.0)
            )
        return self.constants["absent", dtype]


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Which nodes belong to which graph, and everything that follows from it.

    Made by :func:`plan`; accepted wherever a batch vector is. What follows (the order of the nodes, the sizes of the
    graphs, the padded grid, the tiles) is computed when first asked for and kept, so the layers of a model share it.

    Args:
        num_nodes, num_graphs: how many there are; graphs without nodes count.
        batch: graph id of each node, in any order; None when all nodes are one graph.
        ptr: where each graph begins, ``[graphs + 1]``, if that was given: the nodes are then sorted by graph.
        device: where the nodes are.
    """

    num_nodes: int
    num_graphs: int
    batch: Tensor | None
    ptr: Tensor | None
    device: torch.device
    _kept: dict[str, Any] = field(default_factory=dict, init=False)

    def keep(self, name: str, make: Callable[[Plan], Kept]) -> Kept:
        """Return what ``make`` returned for this plan when it was first called under this name.

        Everything that follows from graph ids is computed outside ``torch.func`` and tracing modes, whose tensors must
        not outlive them. Inside a mode, nothing is stored that follows from traced ids or from a number of nodes alone.
        """
        if name not in self._kept:
            if not in_mode():
                self._kept[name] = make(self)
            elif is_transformed() and (self.batch is None or not self.is_concrete):
                return make(self)
            else:
                self._kept[name] = untransformed(lambda: make(self))
        return self._kept[name]

    @kept
    def index(self) -> Int[Tensor, " nodes"]:
        """Graph id of each node; zeros where all nodes are one graph."""
        if self.batch is not None:
            return self.batch
        return torch.zeros(self.num_nodes, dtype=torch.long, device=self.device)

    @kept
    def order(self) -> Int[Tensor, " nodes"] | None:
        """Node ids sorted by graph; None where they are sorted already."""
        if self.batch is None or self.ptr is not None or bool((self.batch[1:] >= self.batch[:-1]).all()):
            return None
        return self.batch.argsort(stable=True)

    @kept
    def offsets(self) -> Int[Tensor, " offsets"]:
        """Where each graph begins among the sorted nodes, and where the last one ends, ``[graphs + 1]``."""
        if self.ptr is not None:
            return self.ptr
        counts = torch.zeros(self.num_graphs + 1, dtype=torch.long, device=self.device)
        return counts.scatter_add_(0, self.index + 1, torch.ones_like(self.index)).cumsum(0)

    @kept
    def sizes(self) -> Int[Tensor, " graphs"]:
        """Nodes of each graph."""
        return self.offsets.diff()

    @kept
    def extremes(self) -> tuple[int, int]:
        """Nodes of the smallest and of the largest graph, on the host."""
        if self.batch is None:
            return self.num_nodes, self.num_nodes
        sizes = self.sizes.tolist()
        return min(sizes, default=0), max(sizes, default=0)

    @property
    def may_have_empty(self) -> bool:
        """Whether some graph has no nodes, or may have none where sizes cannot be read."""
        return not self.is_concrete or self.extremes[0] == 0

    @property
    def largest(self) -> int:
        """Nodes of the largest graph."""
        return self.extremes[1]

    @kept
    def grid(self) -> Grid:
        """The nodes as ``[graphs, largest]``."""
        return Grid.of(self)

    @property
    def bounds(self) -> Int[Tensor, " offsets"]:
        """Where each graph begins among the sorted nodes, contiguous; of one graph without a look at its nodes."""
        return self._one_graph if self.batch is None else self.offsets.contiguous()

    @kept
    def _one_graph(self) -> Int[Tensor, " offsets"]:
        return torch.tensor([0, self.num_nodes], device=self.device)

    @kept
    def by_graph(self) -> Plan:
        """The plan of the nodes sorted by graph."""
        assert self.batch is not None
        assert self.order is not None, "they are sorted already"
        batch = self.batch.index_select(0, self.order)
        return Plan(self.num_nodes, self.num_graphs, batch, self.offsets, self.device)

    def pick(self, nodes: Int[Tensor, " picked"]) -> Plan:
        """The plan of some of the nodes, in the same graphs."""
        batch = None if self.batch is None else self.batch.index_select(0, nodes)
        return Plan(nodes.numel(), self.num_graphs, batch, None, self.device)

    def with_graphs(self, num_graphs: int) -> Plan:
        """The plan of the same nodes among more graphs, the further ones without nodes."""
        if num_graphs == self.num_graphs:
            return self
        return Plan(self.num_nodes, num_graphs, self.index, None, self.device)

    @kept
    def occupied(self) -> tuple[Tensor, Tensor] | None:
        """Ids of the graphs that have nodes, and each node's place among them; None if few graphs are empty.

        Under tracing it is None as well.
        """
        if not self.is_concrete or self.batch is None:
            return None
        many = max(EMPTY_GRAPHS, self.num_graphs // EMPTY_SHARE)
        if self.num_graphs >= self.num_nodes + many:
            return self.batch.unique(return_inverse=True)
        # Sizes are read on a CPU alone: elsewhere that would be a host sync.
        if self.device.type != "cpu" or self.num_graphs - int(self.sizes.count_nonzero()) < many:
            return None
        present = self.sizes > 0
        return present.nonzero().squeeze(1), (present.cumsum(0) - 1).index_select(0, self.batch)

    @property
    def compact(self) -> Plan:
        """The plan of the graphs that have nodes and of one empty graph, if many graphs are empty; else this plan."""
        # Only another plan is stored: FSDP walks through the fields of its inputs and would never end on a cycle.
        return self if self.occupied is None else self._compact

    @kept
    def _compact(self) -> Plan:
        assert self.occupied is not None
        ids, batch = self.occupied
        return Plan(self.num_nodes, ids.numel() + 1, batch, None, self.device)

    def spread(self, tensor: Tensor) -> Tensor:
        """Copy rows of the graphs of :attr:`compact` to all graphs; empty graphs share the last row."""
        if self.occupied is None:
            return tensor
        ids, _ = self.occupied
        rows = torch.full((self.num_graphs,), ids.numel(), device=ids.device)
        return tensor.index_select(0, rows.index_copy_(0, ids, torch.arange(ids.numel(), device=ids.device)))

    @property
    def is_concrete(self) -> bool:
        """Whether its numbers may be read: not in a traced graph, and not without data behind it."""
        if self.batch is None:
            return not torch.compiler.is_compiling()
        return type(self.batch) is Tensor and checks.readable(self.batch)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_nodes} nodes, {self.num_graphs} graphs, {self.device})"


def plan(
    batch: Int[Tensor, " nodes"] | Plan | None = None,
    *,
    ptr: Int[Tensor, " offsets"] | None = None,
    num_nodes: int | None = None,
    num_graphs: int | None = None,
    device: torch.device | str | None = None,
) -> Plan:
    """A batch vector, or the offsets of its graphs -> the :class:`Plan` that every op and every layer can share.

    Checks its input, so that layers need not. With ``ptr``, as PyG's batches carry it, nothing is sorted and nothing is
    read back from a device.

    Args:
        batch: graph id of each node, in any order; None when all nodes are one graph, or when ``ptr`` says it all.
        ptr: where each graph begins, ``[graphs + 1]``, for nodes sorted by graph.
        num_nodes: number of nodes; needed when there is no batch.
        num_graphs: number of graphs, needed when the last ones are empty and there is no ``ptr``.
        device: where the nodes are, if nothing but their number is given; the CPU if None.

    >>> plan(torch.tensor([0, 0, 2]))
    Plan(3 nodes, 3 graphs, cpu)
    >>> plan(ptr=torch.tensor([0, 2, 2, 3])).index.tolist()
    [0, 0, 2]
    """
    where = None if device is None else torch.device(device)
    for name, tensor in (("batch", batch.batch if isinstance(batch, Plan) else batch), ("ptr", ptr)):
        if where is None or not isinstance(tensor, Tensor):
            continue
        if where.type != tensor.device.type or where.index not in (None, tensor.device.index):
            raise ValueError(f"plan: device is {where} but {name} is on {tensor.device}. Leave device out.")
        where = tensor.device
    if num_nodes is not None and not torch.compiler.is_compiling():
        num_nodes = checks.check_count("plan", "num_nodes", num_nodes, least=0)
    return make_plan("plan", batch, ptr, num_nodes, num_graphs, of="num_nodes", device=where)


def make_plan(
    who: str,
    batch: Tensor | Plan | None,
    ptr: Tensor | None = None,
    num_nodes: int | None = None,
    num_graphs: int | None = None,
    *,
    name: str = "batch",
    of: str = "x",
    count_name: str = "num_graphs",
    device: torch.device | None = None,
) -> Plan:
    """Like :func:`plan`; ``name``, ``of`` and ``count_name`` are the argument names used in error messages."""
    checks.refuse_jit_trace(who)
    if isinstance(batch, Plan):
        if ptr is not None:
            raise ValueError(f"{who}: got a plan and ptr. The plan says where graphs begin; leave ptr out.")
        for what, have, given in ((of, batch.num_nodes, num_nodes), (count_name, batch.num_graphs, num_graphs)):
            if given is not None and given != have:
                raise ValueError(
                    f"{who}: {what} says {given} but the plan was made for {have}. Make a plan for each batch."
                )
        return batch if device is None else _on_device(who, batch, of, device)
    # PyG's Index is a tensor that remembers whether it is sorted.
    ids: Any = batch.as_tensor() if hasattr(batch, "as_tensor") else batch  # type: ignore[union-attr]
    if ptr is not None:
        num_nodes = checks.check_ptr(who, ptr, ids, num_nodes, num_graphs, count_name)
        ptr = _copy(ptr)
        ids = _ids(ptr, num_nodes) if ids is None else _copy(ids)
        return Plan(num_nodes, ptr.numel() - 1, ids, ptr, ptr.device)
    if ids is None:
        if num_nodes is None:
            raise ValueError(f"{who}: got neither {name} nor ptr. Pass one of them, or num_nodes for a single graph.")
        count = checks.num_graphs_of(who, name, None, num_nodes, num_graphs, count_name)
        return Plan(num_nodes, count, None, None, device or torch.device("cpu"))
    if num_nodes is None:
        checks.check_tensor(who, name, ids)
        num_nodes = ids.numel()
    count = checks.num_graphs_of(who, name, ids, num_nodes, num_graphs, count_name)
    return Plan(num_nodes, count, _copy(ids), None, ids.device)


def _on_device(who: str, plan: Plan, of: str, device: torch.device) -> Plan:
    """Move the plan to ``device``. Only a plan without graph ids can be moved."""
    if torch.compiler.is_compiling() or plan.device == device:
        return plan
    if plan.batch is None:
        return Plan(plan.num_nodes, plan.num_graphs, None, None, device)
    raise ValueError(
        f"{who}: the plan is on {plan.device} but {of} is on {device}. Make the plan from a batch on that device."
    )


def _ids(ptr: Tensor, num_nodes: int) -> Tensor:
    """Return the graph id of each node of graphs that begin at ``ptr``."""
    graphs = ptr.numel() - 1
    return _outside(
        ptr,
        lambda: torch.arange(graphs, device=ptr.device).repeat_interleave(ptr.diff(), output_size=num_nodes),
    )


def _copy(ids: Tensor) -> Tensor:
    """Copy ids or offsets as int64, so that a plan stays as it is when the user's tensor changes in place."""
    if torch.compiler.is_compiling():  # the plan does not outlive the traced graph
        return ids.long()
    return _outside(ids, lambda: ids.to(torch.long, copy=True)) if in_mode() else ids.to(torch.long, copy=True)


def _outside(tensor: Tensor, make: Callable[[], Tensor]) -> Tensor:
    """Return what ``make`` makes of a tensor: outside all modes, unless the tensor is of one itself."""
    return untransformed(make) if type(tensor) is Tensor and checks.readable(tensor) else make()
