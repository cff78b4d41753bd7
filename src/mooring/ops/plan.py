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

T = TypeVar("T")

# Empty graphs are removed if there are at least this many, and at least this share of all graphs (one in 32). Time of
# forward and backward on 100 graphs of 20 nodes, 8 slots, width 64, relative to no empty graphs: with 4, 16, 32, 100
# and 400 empty graphs 1.05, 1.10, 1.20, 1.58 and 2.25; if they are removed 1.04, however many there are.
EMPTY_GRAPHS, EMPTY_SHARE = 8, 32

if TYPE_CHECKING:
    from functools import cached_property as cached
else:

    def cached(compute):
        """Return a property that a plan computes once. ``cached_property`` takes a lock, which cannot be traced."""
        name = compute.__name__

        def get(plan):
            return plan._cache[name] if name in plan._cache else plan.get_or_make(name, compute)

        return property(get, doc=compute.__doc__)


class Grid(NamedTuple):
    """A ragged batch as one block ``[graphs, length]``, short graphs padded.

    Args:
        graphs, length: its shape.
        places: index of each node in the flattened grid; None for a single graph, which needs no padding.
        constants: padding values, created once per dtype.
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
        """Copy ``[nodes, ...]`` to ``[graphs, length, ...]``, with ``value`` in the padding."""
        if self.places is None:
            return tensor.unsqueeze(0)
        # The backward of index_copy is a gather; the backward of a gather would be a slower scattered sum.
        name, dtype, device = str(value), tensor.dtype, tensor.device
        if (name, dtype) not in self.constants:
            # Created outside torch.func and tracing, because the plan outlives them.
            self.constants[name, dtype] = untransformed(lambda: torch.full((), value, dtype=dtype, device=device))
        # An expanded scalar is only copied; a full tensor would be written and then copied.
        blank = self.constants[name, dtype].expand(self.graphs * self.length, *tensor.shape[1:])
        return blank.index_copy(0, self.places, tensor).unflatten(0, (self.graphs, self.length))

    def pick(self, blocks: Tensor) -> Tensor:
        """Gather ``[nodes, ...]`` from ``[graphs, length, ...]``."""
        return blocks.squeeze(0) if self.places is None else blocks.flatten(0, 1).index_select(0, self.places)

    def absent(self, like: Tensor) -> Tensor:
        """Return a bias ``[graphs * length, 1]``: 0 for nodes, ``-inf`` for the padding."""
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
    """The layout of a batch: the graph of each node, and values derived from it.

    Created by :func:`plan`; accepted wherever a batch vector is. Derived values (the order of the nodes, the sizes of
    the graphs, the padded grid, the tiles) are computed on first use and cached, so the layers of a model share them.

    Args:
        num_nodes, num_graphs: numbers of nodes and graphs; empty graphs count.
        batch: graph id of each node, in any order; None if all nodes are one graph.
        ptr: offsets of the graphs, ``[graphs + 1]``, or None; if given, the nodes are sorted by graph.
        device: device of the nodes.
    """

    num_nodes: int
    num_graphs: int
    batch: Tensor | None
    ptr: Tensor | None
    device: torch.device
    _cache: dict[str, Any] = field(default_factory=dict, init=False)

    def get_or_make(self, name: str, make: Callable[[Plan], T]) -> T:
        """Return the cached value of this name; on first use, compute it by ``make``.

        Values derived from graph ids are computed outside ``torch.func`` and tracing modes, whose tensors must not
        outlive them. Inside a mode, values derived from traced ids or from a node count alone are not cached.
        """
        if name not in self._cache:
            if not in_mode():
                self._cache[name] = make(self)
            elif is_transformed() and (self.batch is None or not self.is_concrete):
                return make(self)
            else:
                self._cache[name] = untransformed(lambda: make(self))
        return self._cache[name]

    @cached
    def index(self) -> Int[Tensor, " nodes"]:
        """Return the graph id of each node; zeros if all nodes are one graph."""
        if self.batch is not None:
            return self.batch
        return torch.zeros(self.num_nodes, dtype=torch.long, device=self.device)

    @cached
    def order(self) -> Int[Tensor, " nodes"] | None:
        """Return the node ids sorted by graph; None if the nodes are sorted already."""
        if self.batch is None or self.ptr is not None or bool((self.batch[1:] >= self.batch[:-1]).all()):
            return None
        return self.batch.argsort(stable=True)

    @cached
    def offsets(self) -> Int[Tensor, " offsets"]:
        """Return the offsets ``[graphs + 1]``: the start of each graph among the sorted nodes, and the last end."""
        if self.ptr is not None:
            return self.ptr
        counts = torch.zeros(self.num_graphs + 1, dtype=torch.long, device=self.device)
        return counts.scatter_add_(0, self.index + 1, torch.ones_like(self.index)).cumsum(0)

    @cached
    def sizes(self) -> Int[Tensor, " graphs"]:
        """Return the number of nodes of each graph."""
        return self.offsets.diff()

    @cached
    def extremes(self) -> tuple[int, int]:
        """Return the sizes of the smallest and largest graph as ints; needs a host sync."""
        if self.batch is None:
            return self.num_nodes, self.num_nodes
        sizes = self.sizes.tolist()
        return min(sizes, default=0), max(sizes, default=0)

    @property
    def may_have_empty(self) -> bool:
        """Return whether a graph has no nodes, or may have none because sizes cannot be read."""
        return not self.is_concrete or self.extremes[0] == 0

    @property
    def largest(self) -> int:
        """Return the number of nodes of the largest graph."""
        return self.extremes[1]

    @cached
    def grid(self) -> Grid:
        """Return the padded grid ``[graphs, largest]``."""
        return Grid.of(self)

    @property
    def bounds(self) -> Int[Tensor, " offsets"]:
        """Return :attr:`offsets`, contiguous; for a single graph without computing its index."""
        return self._one_graph if self.batch is None else self.offsets.contiguous()

    @cached
    def _one_graph(self) -> Int[Tensor, " offsets"]:
        return torch.tensor([0, self.num_nodes], device=self.device)

    @cached
    def by_graph(self) -> Plan:
        """Return the plan of the same nodes sorted by graph."""
        assert self.batch is not None
        assert self.order is not None, "the nodes are sorted already"
        batch = self.batch.index_select(0, self.order)
        return Plan(self.num_nodes, self.num_graphs, batch, self.offsets, self.device)

    def pick(self, nodes: Int[Tensor, " picked"]) -> Plan:
        """Return the plan of a subset of the nodes, in the same graphs."""
        batch = None if self.batch is None else self.batch.index_select(0, nodes)
        return Plan(nodes.numel(), self.num_graphs, batch, None, self.device)

    def with_graphs(self, num_graphs: int) -> Plan:
        """Return the plan of the same nodes with more graphs; the added graphs are empty."""
        if num_graphs == self.num_graphs:
            return self
        return Plan(self.num_nodes, num_graphs, self.index, None, self.device)

    @cached
    def occupied(self) -> tuple[Tensor, Tensor] | None:
        """Return the ids of the graphs that have nodes, and the index of each node's graph among them.

        None if few graphs are empty, and under tracing.
        """
        if not self.is_concrete or self.batch is None:
            return None
        many = max(EMPTY_GRAPHS, self.num_graphs // EMPTY_SHARE)
        if self.num_graphs >= self.num_nodes + many:
            return self.batch.unique(return_inverse=True)
        # Sizes are read on a CPU only: on other devices reading them is a host sync.
        if self.device.type != "cpu" or self.num_graphs - int(self.sizes.count_nonzero()) < many:
            return None
        present = self.sizes > 0
        return present.nonzero().squeeze(1), (present.cumsum(0) - 1).index_select(0, self.batch)

    @property
    def compact(self) -> Plan:
        """Return the plan of the non-empty graphs plus one empty graph if many graphs are empty; else this plan."""
        # A plan never caches itself: FSDP walks the fields of its inputs and would not terminate on a cycle.
        return self if self.occupied is None else self._compact

    @cached
    def _compact(self) -> Plan:
        assert self.occupied is not None
        ids, batch = self.occupied
        return Plan(self.num_nodes, ids.numel() + 1, batch, None, self.device)

    def spread(self, tensor: Tensor) -> Tensor:
        """Expand rows per graph of :attr:`compact` to rows per graph of this plan; empty graphs get the last row."""
        if self.occupied is None:
            return tensor
        ids, _ = self.occupied
        rows = torch.full((self.num_graphs,), ids.numel(), device=ids.device)
        return tensor.index_select(0, rows.index_copy_(0, ids, torch.arange(ids.numel(), device=ids.device)))

    @property
    def is_concrete(self) -> bool:
        """Return whether values can be read: not under tracing, and not for meta or fake tensors."""
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
    """Return the :class:`Plan` of a batch vector, or of the offsets of its graphs, for all ops and layers to share.

    Checks its input, so that layers need not. With ``ptr``, as in PyG's batches, nothing is sorted and there is no host
    sync.

    Args:
        batch: graph id of each node, in any order; None if all nodes are one graph, or if ``ptr`` is given.
        ptr: offsets of the graphs, ``[graphs + 1]``, for nodes sorted by graph.
        num_nodes: number of nodes; required without ``batch`` and ``ptr``.
        num_graphs: number of graphs; required if the last graphs are empty and there is no ``ptr``.
        device: device of the nodes if only ``num_nodes`` is given; the CPU if None.

    >>> plan(torch.tensor([0, 0, 2]))
    Plan(3 nodes, 3 graphs, cpu)
    >>> plan(ptr=torch.tensor([0, 2, 2, 3])).index.tolist()
    [0, 0, 2]
    """
    target = None if device is None else torch.device(device)
    for name, tensor in (("batch", batch.batch if isinstance(batch, Plan) else batch), ("ptr", ptr)):
        if target is None or not isinstance(tensor, Tensor):
            continue
        if target.type != tensor.device.type or target.index not in (None, tensor.device.index):
            raise ValueError(f"plan: device is {target} but {name} is on {tensor.device}. Leave device out.")
        target = tensor.device
    if num_nodes is not None and not torch.compiler.is_compiling():
        num_nodes = checks.check_count("plan", "num_nodes", num_nodes, least=0)
    return make_plan("plan", batch, ptr, num_nodes, num_graphs, of="num_nodes", device=target)


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
    """Make a plan as :func:`plan` does; ``name``, ``of`` and ``count_name`` are argument names in error messages."""
    checks.reject_jit_trace(who)
    if isinstance(batch, Plan):
        if ptr is not None:
            raise ValueError(f"{who}: got a plan and ptr. The plan has the offsets of the graphs; leave ptr out.")
        for argument, planned, count in ((of, batch.num_nodes, num_nodes), (count_name, batch.num_graphs, num_graphs)):
            if count is not None and count != planned:
                raise ValueError(
                    f"{who}: {argument} says {count} but the plan was made for {planned}. Make a plan for each batch."
                )
        return batch if device is None else _on_device(who, batch, of, device)
    # PyG's Index is a tensor subclass that records whether it is sorted.
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
    """Return the graph id of each node from the offsets of the graphs."""
    graphs = ptr.numel() - 1
    return _outside(
        ptr,
        lambda: torch.arange(graphs, device=ptr.device).repeat_interleave(ptr.diff(), output_size=num_nodes),
    )


def _copy(ids: Tensor) -> Tensor:
    """Copy ids or offsets as int64, so that in-place changes of the user's tensor do not change the plan."""
    if torch.compiler.is_compiling():  # the plan does not outlive the traced graph
        return ids.long()
    return _outside(ids, lambda: ids.to(torch.long, copy=True)) if in_mode() else ids.to(torch.long, copy=True)


def _outside(tensor: Tensor, make: Callable[[], Tensor]) -> Tensor:
    """Call ``make`` on a tensor, outside all modes unless the tensor itself belongs to one."""
    return untransformed(make) if type(tensor) is Tensor and checks.readable(tensor) else make()
