"""The addressable virtual node, anchored or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from mooring.nn.addresses import (
    TEMPERATURES,
    AddressNorm,
    Routes,
    Routing,
    build_addresses,
    check_address_norm,
    choose_routing,
    hide_address,
)
from mooring.nn.checks import (
    check_address,
    check_build,
    check_choice,
    check_graph_features,
    check_input,
    check_positive,
    check_return_state,
    check_share,
    check_width_or_none,
    shown,
)
from mooring.nn.integrate import IntegrationName, build_integration, default_options
from mooring.nn.lazy import lazy_channels
from mooring.nn.masks import add_log_weights, drop_writes, hide, readers, sound_nodes, writers
from mooring.nn.memory import SlotMemory, build_graph_features, call_gathered, carried_slots
from mooring.nn.slot_read import SlotRead, read_film
from mooring.nn.slot_update import UPDATE_NORMS, MassFeature, MassMap, SlotUpdate, UpdateNorm, check_update
from mooring.nn.slot_write import SlotWrite
from mooring.nn.spec import MemorySpec, check_spec
from mooring.ops import Plan, SlotState
from mooring.ops.checks import check_flag, described, readable


@lazy_channels("write.lin_value.weight")
class SlotVirtualNode(nn.Module):
    r"""Node features -> node features updated through a global memory of addressable slots.

    ``x --write--> SlotState --update--> memory --read--> context --integrate--> x'``. Each step is a replaceable
    module: :class:`SlotWrite`, :class:`SlotUpdate`, :class:`SlotRead`, and an :class:`~mooring.nn.Integration`.

    Paper: the Cross-Attn VN (``eq:slotread``, ``eq:slotreadout``) with ``anchored=False``, the Anchored Cross-Attn VN
    (``eq:anchored``, ``app:protocol``) otherwise; :meth:`paper` builds it as printed.
    Departs: by default the address of a node is its state, because slots routed by content start as copies of one mean.

    Args: Start here
        channels: width of the node features, in and out; -1 takes the width of the first input.
        slots: number :math:`M` of virtual states; more slots separate more keys or roles.
        heads: attention heads; they divide channels.

    Args: Counting
        anchored: give each slot and head a private anchor, which measures how much was written.
        competition: slots compete for nodes, so that masses are soft counts, see :class:`SlotWrite`.
        integrate: ``"film"`` (Slot-FiLM); ``"linear_film"``, which adds a linear path for counts beyond the training
            range; ``"residual"``, the cheapest; ``"global_film"``; or a custom :class:`~mooring.nn.Integration`.
        anchor_init: initial logit of the anchors, see :class:`SlotUpdate`; for slots that hundreds of nodes write to,
            the log of that number helps.
        mass, mass_map, content_dropout: measure and map of the mass, and dropout of the content, see
            :class:`SlotUpdate`.

    Args: Addressing
        address_channels: width of the ``address`` argument of forward; None if it takes none.
        routing: ``"given"`` scores by ``address``, through static slot addresses and one projection for writes and
            reads. ``"self"`` uses the standardised state of each node as its address, see
            :class:`~mooring.nn.addresses.SelfAddresses`. ``"free"`` scores by content. If None, ``"given"`` with
            ``address_channels`` and ``"self"`` without.
        address_norm: how ``"self"`` standardises states: ``"layer"``, each by itself; or ``"batch"``, each channel over
            a batch, which tells more nodes apart after message passing.
        temperature: of both softmaxes; lower is sharper. If None, 1, or 0.25 for the sharpest head of ``"self"``.
        graph_channels: width of the ``graph_features`` argument of forward, see
            :class:`~mooring.nn.memory.GraphFeatures`; None if it takes none.

    Args: Expert
        split: keep mass and content in separate channels, see :class:`SlotUpdate`.
        hidden_channels: hidden width of FiLM. If None, a quarter of channels (at least 16) for Slot-FiLM, which would
            otherwise dominate the cost of a node.
        update_channels: hidden width of the MLPs in :class:`SlotUpdate`; channels if None. Half of it is faster on
            graphs with as few nodes as slots, but counts less well.
        update_norm: ``norm`` of :class:`SlotUpdate`; ``"batch"`` learns faster on graphs of about a hundred nodes.
        dropout: in training, share of the writes (per node, slot and head) and of the channels of the context that are
            dropped. The remaining writes are scaled up, so that the mean mass stays the same.
        merge: function applied to the state between write and update, e.g. :func:`mooring.ops.all_merge` if the nodes
            of one graph are spread over processes.
        init_std: initial gain of the residual (0.1 if None), or standard deviation of the last weights of FiLM (the
            paper's 1e-3 if None). Zero is the identity.

    Shapes: x ``[nodes, channels]``, batch ``[nodes]`` in any order -> ``[nodes, channels]``.

    The slots of an empty graph, or of a graph without sources, are computed from the anchor values.

    A node that does not write influences neither values nor gradients of other nodes, even if it is NaN. If it is NaN
    or infinite it does not read either. A node that does not read is returned unchanged.

    Cost: ``O(nodes * slots * channels)`` for each of write and read.

    >>> memory = SlotVirtualNode(16, slots=4)
    >>> memory(torch.randn(7, 16), torch.tensor([0, 0, 1, 1, 1, 0, 2])).shape
    torch.Size([7, 16])
    """

    # False if a custom write adds mass that comes from no node; write weights then sum to less than one.
    only_nodes_write = True

    def __init__(
        self,
        channels: int,
        slots: int = 8,
        heads: int = 4,
        *,
        anchored: bool = True,
        temperature: float | None = None,
        address_channels: int | None = None,
        routing: Routing | None = None,
        address_norm: AddressNorm = "layer",
        mass: MassFeature = "softplus",
        split: bool = True,
        integrate: IntegrationName | nn.Module = "film",
        hidden_channels: int | None = None,
        update_channels: int | None = None,
        anchor_init: float = 0.0,
        mass_map: MassMap = "mlp",
        update_norm: UpdateNorm = "layer",
        content_dropout: float = 0.0,
        dropout: float = 0.0,
        competition: bool = False,
        graph_channels: int | None = None,
        merge: Callable[[SlotState], SlotState] | None = None,
        init_std: float | None = None,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        check_build(who, channels, slots, heads)
        for name, width in (("address_channels", address_channels), ("update_channels", update_channels)):
            check_width_or_none(who, name, width, channels)
        routing = choose_routing(who, routing, address_channels)
        check_address_norm(who, address_norm, routing)
        temperature = TEMPERATURES[routing] if temperature is None else temperature
        check_positive(who, "temperature", temperature)
        anchor: dict[str, Any] = {"mass": mass, "split": split, "anchor_init": anchor_init, "mass_map": mass_map}
        anchor["content_dropout"] = content_dropout
        anchored, split = check_update(who, anchored=anchored, **anchor)
        check_choice(who, "update_norm", update_norm, UPDATE_NORMS)
        check_share(who, "dropout", dropout)
        competition = check_flag(who, "competition", competition)
        if merge is not None and not callable(merge):
            raise TypeError(
                f"{who}: merge is {described(merge)} but a function of a SlotState or None was expected, e.g. "
                "mooring.ops.all_merge."
            )
        self.channels, self.slots, self.heads = channels, slots, heads
        self.routing: Routing = routing
        self.address_norm = address_norm
        self.temperature, self.address_channels, self.graph_channels = temperature, address_channels, graph_channels
        self.anchored, self.mass, self.split = anchored, mass, split
        self.anchor_init, self.mass_map, self.content_dropout = anchor_init, mass_map, content_dropout
        self.update_channels, self.update_norm, self.merge = update_channels, update_norm, merge
        self.competition, self.dropout = competition, dropout
        self.integrate: Any = build_integration(who, integrate, channels, slots, hidden_channels, init_std)
        hidden, std = default_options(integrate, channels)
        self.hidden_channels = None if hidden_channels == hidden else hidden_channels
        self.init_std = None if init_std == std else init_std
        self.integration = integrate if isinstance(integrate, str) else None
        size = (channels, slots, heads)
        addresses = build_addresses(routing, address_channels, *size, temperature, address_norm)
        self.write = SlotWrite(*size, temperature=temperature, addresses=addresses, competition=competition)
        self.update = SlotUpdate(*size, anchored=anchored, hidden_channels=update_channels, norm=update_norm, **anchor)
        self.read: SlotRead | None = None
        if width := self.integrate.context_channels:
            by_address = addresses is not None
            read_temperature = 1.0 if by_address else temperature
            self.read = SlotRead(*size, out_channels=width, temperature=read_temperature, by_address=by_address)
        self.graph = build_graph_features(who, graph_channels, slots, channels)

    @classmethod
    def paper(cls, channels: int, slots: int = 8, heads: int = 4, **options: Any) -> SlotVirtualNode:
        """Build the module of the paper: ``eq:slotread``, ``eq:anchored`` and ``eq:slotreadout`` as printed.

        Content does the routing unless ``address_channels`` is set. The mass is the log-odds. FiLM is as wide as the
        nodes.

        >>> SlotVirtualNode.paper(64)
        SlotVirtualNode(64, slots=8, heads=4, anchored=True, routing='free', mass='log_odds', hidden_channels=64)
        """
        recipe: dict[str, Any] = {"mass": "log_odds", "hidden_channels": channels}
        if options.get("address_channels") is None:
            recipe["routing"] = "free"
        if options.get("anchored") is False:
            del recipe["mass"]
        return cls(channels, slots, heads, **{**recipe, **options})

    @classmethod
    def moored(cls, channels: int, slots: int = 8, heads: int = 4, **options: Any) -> SlotVirtualNode:
        """Build the best counter: slots compete for nodes, and counts bypass FiLM on a linear path.

        >>> SlotVirtualNode.moored(64, slots=4, heads=2)  # doctest: +NORMALIZE_WHITESPACE
        SlotVirtualNode(64, slots=4, heads=2, anchored=True, integrate='linear_film', mass_map='linear',
            competition=True)
        """
        recipe = {"integrate": "linear_film", "mass_map": "linear", "competition": True}
        return cls(channels, slots, heads, **{**recipe, **options})

    @classmethod
    def from_spec(cls, spec: MemorySpec, **changes: Any) -> SlotVirtualNode:
        """Build the module from a :class:`~mooring.nn.MemorySpec`, with some arguments changed or added.

        Options of the spec that have no effect with these arguments are ignored.

        >>> SlotVirtualNode.from_spec(MemorySpec(channels=16, slots=4), anchored=False)
        SlotVirtualNode(16, slots=4, heads=4, anchored=False, routing='free')
        """
        check_spec(cls.__name__, spec)
        return cls(**spec.arguments(**changes))

    def reset_parameters(self) -> None:
        if self.write.addresses is not None:
            self.write.addresses.reset_parameters()
        for module in (self.write, self.update, self.read, self.integrate, self.graph):
            reset(module)

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        batch: Int[Tensor, " nodes"] | Plan | None = None,
        *,
        address: Float[Tensor, "nodes address_channels"] | None = None,
        sources: Bool[Tensor, " nodes"] | None = None,
        targets: Bool[Tensor, " nodes"] | None = None,
        log_weight: Float[Tensor, "nodes *rows"] | None = None,
        num_graphs: int | None = None,
        ptr: Int[Tensor, " offsets"] | None = None,
        plan: Plan | None = None,
        memory: SlotMemory | None = None,
        graph_features: Float[Tensor, "graphs graph_channels"] | None = None,
        return_state: bool | Literal["slots"] = False,
    ) -> Float[Tensor, "nodes channels"] | tuple[Tensor, SlotMemory]:
        """Return the updated nodes.

        Args:
            batch: graph id of each node, in any order; None if all nodes are one graph.
            address: address of each node, ``[nodes, address_channels]``.
            sources: mask of the nodes that write.
            targets: mask of the nodes that read; the others are returned unchanged.
            log_weight: log multiplicity of each node in the write, ``[nodes]``; ``-inf`` leaves a node out. Or a bias
                ``[nodes, slots, heads]`` of each score, as in :func:`mooring.ops.write`.
            num_graphs: number of graphs, needed if the last graphs are empty.
            ptr: offset of each graph, for nodes sorted by graph; cheaper than ``batch``.
            plan: the batch layout of :func:`mooring.ops.plan`, shared by all layers, in place of ``batch`` or ``ptr``.
            memory: the :class:`SlotMemory` of an earlier layer with as many slots. Its slots replace the learned slots,
                as queries (unless slots have addresses) and in the residual.
            graph_features: features of whole graphs, such as a charge, ``[graphs, graph_channels]``.
            return_state: also return the :class:`SlotMemory` of this pass. ``"slots"`` omits the weights of write and
                read, which take ``2 * nodes * slots * heads`` numbers and a quarter to two thirds of the time of a
                forward; the next layer does not need them.
        """
        who = type(self).__name__
        return_state = check_return_state(who, return_state)
        masks: dict[str, Any] = {"sources": sources, "targets": targets, "log_weight": log_weight}
        masks["rows"] = (self.slots, self.heads)
        plan = check_input(self, self.channels, x, batch, ptr=ptr, plan=plan, num_graphs=num_graphs, **masks)
        check_address(who, address, x, self.address_channels)
        carried = carried_slots(who, memory, (plan.num_graphs, self.slots, self.channels), x)
        check_graph_features(who, graph_features, x, plan.num_graphs, self.graph_channels)
        # Drop empty graphs, unless each has carried slots, features, or nodes in another process.
        compact = plan.compact if carried is None and self.merge is None and self.graph is None else plan
        writes = writers(sources, log_weight)
        sound = sound_nodes(x, address, writes)
        reads = readers(sound, targets)
        dropped = drop_writes(x, self.slots, self.heads, self.dropout) if self.training and self.dropout else None
        # Every node writes if ``writes`` is None, and every node reads if ``reads`` is None.
        part = writes | reads if self.address_norm == "batch" and writes is not None and reads is not None else None
        routes = call_gathered(self.write, "routes", hide(x, sound), hide_address(address, sound), part=part)
        routes = None if routes is None else routes.scored(compact)

        weights: dict[str, Any] = {"sources": writes, "log_weight": log_weight, "dropped": dropped}
        state: SlotState = self.write(x, compact, address=routes, slots=carried, **weights)
        state = state if self.merge is None else self.merge(state)
        slots = self.update(state, call_gathered(self.write, "identity") if carried is None else carried)
        slots = slots if self.graph is None else self.graph(slots, graph_features)
        out = self._read_and_integrate(x, slots, compact, routes, reads)

        if not return_state:
            return out
        anchor = written = read = None
        if return_state != "slots":
            weights = {"sources": writes, "log_weight": add_log_weights(log_weight, dropped), "slots": carried}
            weights["alone"] = self.only_nodes_write and self.merge is None
            written = call_gathered(self.write, "weights", state, x, compact, address=routes, **weights)
            anchor = call_gathered(self.update, "anchor_weight", state) if self.anchored else None
            if self.read is not None:
                read = call_gathered(self.read, "weights", x, slots, compact, routes, reads)
        inside = SlotMemory(state, slots, anchor, written, read)
        return out, inside if compact is plan else inside.of_graphs(plan.spread)

    def _read_and_integrate(
        self, x: Tensor, slots: Tensor, plan: Plan, routes: Routes | None, reads: Tensor | None
    ) -> Tensor:
        """Update the nodes that read. Under tracing rows cannot be selected, so the others are masked instead."""
        if reads is None:
            return self._read_into(x, slots, plan, routes, None)
        if not readable(reads):
            routes = None if routes is None else routes.hidden(reads)
            return torch.where(reads.unsqueeze(-1), self._read_into(hide(x, reads), slots, plan, routes, reads), x)
        rows = reads.nonzero().squeeze(1)
        routes = None if routes is None else routes.pick(rows)
        return x.index_copy(0, rows, self._read_into(x.index_select(0, rows), slots, plan.pick(rows), routes, None))

    def _read_into(self, x: Tensor, slots: Tensor, plan: Plan, routes: Routes | None, reads: Tensor | None) -> Tensor:
        """Read the slots and bring the context into the nodes, in one op if possible."""
        if self.read is None:
            return cast(Tensor, self.integrate(x, None, slots, plan.batch))
        drops = self.training and self.dropout > 0.0
        if reads is None and not drops:
            out = read_film(self.read, self.integrate, x, slots, plan, routes)
            if out is not None:
                return out
        gain = self.integrate.residual_gain() if not drops and hasattr(self.integrate, "residual_gain") else None
        context: Tensor = self.read(x, slots, plan, address=routes, targets=reads, gain=gain)
        if gain is not None:  # the read has added the context
            return context
        context = nn.functional.dropout(context, self.dropout) if drops else context
        return cast(Tensor, self.integrate(x, context, slots, plan.batch))

    def __repr__(self) -> str:
        usual = choose_routing(type(self).__name__, None, self.address_channels)
        values = {
            "routing": None if self.routing == usual else self.routing,
            "temperature": None if self.temperature == TEMPERATURES[self.routing] else self.temperature,
            "integrate": self.integration or self.integrate,
        }
        return shown(self, SlotVirtualNode, self.channels, "slots", "heads", "anchored", **values)
