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
    Addresses,
    AddressNorm,
    Routes,
    Routing,
    SelfAddresses,
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
from mooring.nn.integrate import IntegrationName, SlotFiLM, build_integration, default_options, residual_gain
from mooring.nn.lazy import lazy_channels
from mooring.nn.memory import SlotMemory, build_graph_features, carried_slots, gathered
from mooring.nn.part import add_log_weights, drop_writes, hide, readers, sound_nodes, writers
from mooring.nn.slot_read import SlotRead
from mooring.nn.slot_update import UPDATE_NORMS, MassFeature, MassMap, SlotUpdate, UpdateNorm, check_update
from mooring.nn.slot_write import SlotWrite, is_hooked
from mooring.nn.spec import MemorySpec, check_spec
from mooring.ops import Plan, SlotState
from mooring.ops.checks import check_flag, described, readable


@lazy_channels("write.lin_value.weight")
class SlotVirtualNode(nn.Module):
    r"""Node features -> node features updated through a global memory of addressable slots.

    ``x --write--> SlotState --update--> memory --read--> context --integrate--> x'``, each step a small module that
    can be replaced: :class:`SlotWrite`, :class:`SlotUpdate`, :class:`SlotRead`, and an integration.

    Paper: the Cross-Attn VN (``eq:slotread``, ``eq:slotreadout``) with ``anchored=False``, the Anchored Cross-Attn VN
    (``eq:anchored``, ``app:protocol``) otherwise; :meth:`paper` builds it as printed.
    Departs: by default a node's own state is its address. Routed by content, slots start as copies of one mean.

    Args: Start here
        channels: width of the node features, in and out; -1 takes that of the first input.
        slots: number :math:`M` of virtual states, 8 by default; more where there are more keys or roles to keep apart.
        heads: attention heads, 4 by default; they divide channels.

    Args: Counting
        anchored: give each slot and head a private anchor, so that the memory knows how much was written; the default.
        competition: slots compete for nodes, so that masses are soft counts; off by default, see :class:`SlotWrite`.
        integrate: ``"film"`` (Slot-FiLM), the default; ``"linear_film"``, Slot-FiLM and a linear path for counts beyond
            the range of training; ``"residual"``, the cheapest; ``"global_film"``; or a module of your own, an
            :class:`~mooring.nn.Integration`.
        anchor_init: what the anchors' logits start at, 0 by default, see :class:`SlotUpdate`; the log of a typical
            number of nodes helps where slots see hundreds of them.
        mass, mass_map, content_dropout: how the mass is measured and mapped, and how often content is hidden in
            training, see :class:`SlotUpdate`.

    Args: Addressing
        address_channels: width of the ``address`` that forward then takes; by default it takes none.
        routing: how nodes find slots. ``"given"``: by ``address``, through static slot addresses and one projection
            shared by writes and reads. ``"self"``: the same, with each node's standardised state as its address, see
            :class:`~mooring.nn.addresses.SelfAddresses`. ``"free"``: by content, with keys of the slots' content for
            the reads. If None, ``"given"`` with ``address_channels`` and ``"self"`` without.
        temperature: of both softmaxes; lower is sharper. If None, 1, or 0.25 with self-addressing, where it is the
            temperature of the sharpest head.
        address_norm: how self-addressed nodes are standardised: ``"layer"``, each by itself, the default; ``"batch"``,
            every channel over a batch, finds many more addresses behind message passing, see
            :class:`~mooring.nn.addresses.SelfAddresses`.
        graph_channels: width of the ``graph_features`` that forward then takes, see
            :class:`~mooring.nn.memory.GraphFeatures`; by default it takes none.

    Args: Expert
        split: whether the mass is kept apart from the content, as it is by default; see :class:`SlotUpdate`.
        hidden_channels: hidden width of FiLM. If None, a quarter of channels (at least 16) for Slot-FiLM, which is
            where a node's arithmetic goes otherwise.
        update_channels: hidden width of the slots' own MLPs; channels if None. Half of it is faster on small graphs,
            where there are as many slots as nodes, but counts less well.
        update_norm: ``norm`` of :class:`SlotUpdate`, ``"layer"`` by default; ``"batch"`` learns faster on batches of
            graphs of a hundred nodes.
        dropout: in training, the share of writes that are dropped, independently per node, slot and head (the rest are
            scaled up, so that the mean of a mass stays the same), and of the channels of the context that is read; none
            by default.
        merge: applied to the state between write and update, e.g. :func:`mooring.ops.all_merge` when the nodes of one
            graph are spread over processes.
        init_std: how far from the identity the module starts: the gain of the residual (0.1 if None), the deviation of
            FiLM's last weights (the paper's 1e-3 if None). Zero is the identity.

    Shapes: x ``[nodes, channels]``, batch ``[nodes]`` in any order -> ``[nodes, channels]``.

    An empty graph, or one without sources, gets memory of its own: the anchor values.

    A node that is left out has no influence whatever it holds, on values or on gradients. One that does not write and
    holds NaN or infinity does not read either; a node that does not read comes back unchanged.

    Cost: ``O(nodes * slots * channels)`` for each of write and read.

    >>> memory = SlotVirtualNode(16, slots=4)
    >>> memory(torch.randn(7, 16), torch.tensor([0, 0, 1, 1, 1, 0, 2])).shape
    torch.Size([7, 16])
    """

    # A write of one's own may add what no node wrote; write weights then sum to less than one.
    holds_nodes_alone = True

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
        anchored, split = check_update(who, anchored=anchored, content_dropout=content_dropout, **anchor)
        check_choice(who, "update_norm", update_norm, UPDATE_NORMS)
        check_share(who, "dropout", dropout)
        competition = check_flag(who, "competition", competition)
        if merge is not None and not callable(merge):
            raise TypeError(
                f"{who}: merge is {described(merge)} but a function of a SlotState or None was expected, e.g. "
                "mooring.ops.all_merge."
            )
        self.channels = channels
        self.slots = slots
        self.heads = heads
        self.anchored = anchored
        self.temperature = temperature
        self.address_channels = address_channels
        self.routing: Routing = routing
        self.address_norm = address_norm
        self.mass = mass
        self.split = split
        self.integrate: Any = build_integration(who, integrate, channels, slots, hidden_channels, init_std)
        hidden, std = default_options(integrate, channels)
        self.hidden_channels = None if hidden_channels == hidden else hidden_channels
        self.init_std = None if init_std == std else init_std
        self.integration = integrate if isinstance(integrate, str) else None
        self.update_channels = update_channels
        self.anchor_init = anchor_init
        self.mass_map = mass_map
        self.update_norm = update_norm
        self.content_dropout = content_dropout
        self.dropout = dropout
        self.competition = competition
        self.merge = merge
        self.graph_channels = graph_channels
        addresses: Addresses | None = None
        if routing == "self":
            addresses = SelfAddresses(channels, slots, heads, channels // heads, temperature, address_norm)
        elif address_channels is not None:
            addresses = Addresses(address_channels, slots, heads, channels // heads, temperature)
        self.write = SlotWrite(
            channels, slots, heads, temperature=temperature, addresses=addresses, competition=competition
        )
        self.update = SlotUpdate(
            channels,
            slots,
            heads,
            anchored=anchored,
            hidden_channels=update_channels,
            **anchor,
            norm=update_norm,
            content_dropout=content_dropout,
        )
        self.read: SlotRead | None = None
        if self.integrate.context_channels:
            self.read = SlotRead(
                channels,
                slots,
                heads,
                out_channels=self.integrate.context_channels,
                **({"temperature": temperature} if addresses is None else {"by_address": True}),
            )
        self.graph = build_graph_features(who, graph_channels, slots, channels)

    @classmethod
    def paper(cls, channels: int, slots: int = 8, heads: int = 4, **options: Any) -> SlotVirtualNode:
        """Build the module of the paper: ``eq:slotread``, ``eq:anchored`` and ``eq:slotreadout`` as printed.

        Content does the routing, unless ``address_channels`` is given; the mass is the log-odds; FiLM is as wide as the
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
        """Build the best counter: slots compete for nodes, and counts have a linear path past FiLM.

        >>> SlotVirtualNode.moored(64, slots=4, heads=2)  # doctest: +NORMALIZE_WHITESPACE
        SlotVirtualNode(64, slots=4, heads=2, anchored=True, integrate='linear_film', mass_map='linear',
            competition=True)
        """
        recipe = {"integrate": "linear_film", "mass_map": "linear", "competition": True}
        return cls(channels, slots, heads, **{**recipe, **options})

    @classmethod
    def from_spec(cls, spec: MemorySpec, **changes: Any) -> SlotVirtualNode:
        """The module of a :class:`~mooring.nn.MemorySpec`, with some arguments changed or added.

        Options of the spec that the others leave without effect are left out.

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
        """
        Args:
            batch: graph id of each node, in any order; None when all nodes are one graph.
            address: where each node writes and reads, with ``address_channels``.
            sources: the nodes that write.
            targets: the nodes that read; the others come back unchanged.
            log_weight: logarithm of each node's multiplicity in the write, ``[nodes]``; ``-inf`` leaves a node out. Or
                a bias ``[nodes, slots, heads]`` of each score, as in :func:`mooring.ops.write`.
            num_graphs: number of graphs, needed when the last ones are empty.
            ptr: where each graph begins, for nodes sorted by graph; saves a look at ``batch``.
            plan: of :func:`mooring.ops.plan`, made once for all layers, in place of ``batch`` or ``ptr``.
            memory: the :class:`SlotMemory` of an earlier layer with as many slots, to continue from: its slots take the
                place of the learned ones, as queries (unless slots have addresses) and in the residual.
            graph_features: what holds for whole graphs, such as a charge: one row each, with ``graph_channels``.
            return_state: also return the :class:`SlotMemory` of this pass; ``"slots"`` leaves out the weights of write
                and read, which the next layer does not need. They add a quarter to two thirds to the time of a forward,
                and room for ``2 * nodes * slots * heads`` numbers.
        """
        who = type(self).__name__
        masks: dict[str, Any] = {"sources": sources, "targets": targets, "log_weight": log_weight}
        shape = (self.slots, self.heads)
        return_state = check_return_state(who, return_state)
        plan = check_input(
            self, self.channels, x, batch, ptr=ptr, plan=plan, num_graphs=num_graphs, rows=shape, **masks
        )
        check_address(who, address, x, self.address_channels)
        carried = carried_slots(who, memory, (plan.num_graphs, self.slots, self.channels), x)
        check_graph_features(who, graph_features, x, plan.num_graphs, self.graph_channels)
        # Carried slots, features of graphs and a merge over processes concern every graph, empty ones too.
        compact = plan.compact if carried is None and self.merge is None and self.graph is None else plan
        writes = writers(sources, log_weight)
        sound = sound_nodes(x, address, writes)
        reads = readers(sound, targets)
        dropped = drop_writes(x, *shape, self.dropout) if self.training and self.dropout else None
        # Every node writes if ``writes`` is None, and every node reads if ``reads`` is None.
        part = writes | reads if self.address_norm == "batch" and writes is not None and reads is not None else None
        routes = gathered(self.write, "routes", hide(x, sound), hide_address(address, sound), part=part)
        routes = None if routes is None else routes.scored(compact)

        weights = {"sources": writes, "log_weight": log_weight, "dropped": dropped}
        state: SlotState = self.write(x, compact, address=routes, slots=carried, **weights)
        if self.merge is not None:
            state = self.merge(state)
        slots = self.update(state, gathered(self.write, "identity") if carried is None else carried)
        slots = slots if self.graph is None else self.graph(slots, graph_features)
        out = self._read_and_integrate(x, slots, compact, routes, reads)

        if not return_state:
            return out
        inside = SlotMemory(state, slots)
        if return_state != "slots":
            log_weight = add_log_weights(log_weight, dropped)
            inside = self._inspect(x, compact, routes, writes, reads, log_weight, carried, inside)
        return out, inside if compact is plan else inside.of_graphs(plan.spread)

    def _read_and_integrate(
        self, x: Tensor, slots: Tensor, plan: Plan, routes: Routes | None, reads: Tensor | None
    ) -> Tensor:
        """Update the nodes that read. Under tracing rows cannot be selected, so the others are masked instead."""
        if reads is None:
            return self._updated(x, slots, plan, routes, None)
        if not readable(reads):
            routes = None if routes is None else routes.hidden(reads)
            return torch.where(reads.unsqueeze(-1), self._updated(hide(x, reads), slots, plan, routes, reads), x)
        rows = reads.nonzero().squeeze(1)
        routes = None if routes is None else routes.pick(rows)
        return x.index_copy(0, rows, self._updated(x.index_select(0, rows), slots, plan.pick(rows), routes, None))

    def _updated(self, x: Tensor, slots: Tensor, plan: Plan, routes: Routes | None, reads: Tensor | None) -> Tensor:
        """Read the slots and bring the context into the nodes."""
        if self.read is None:
            return cast(Tensor, self.integrate(x, None, slots, plan.batch))
        drops = self.training and self.dropout > 0.0
        if not drops and reads is None and (modulated := self._fused(x, slots, plan, routes)) is not None:
            return modulated
        gain = None if drops else residual_gain(self.integrate)
        context: Tensor = self.read(x, slots, plan, address=routes, targets=reads, gain=gain)
        if gain is not None:  # the read has added the context
            return context
        context = nn.functional.dropout(context, self.dropout) if drops else context
        return cast(Tensor, self.integrate(x, context, slots, plan.batch))

    def _fused(self, x: Tensor, slots: Tensor, plan: Plan, routes: Routes | None) -> Tensor | None:
        """Read and integrate in one op; None if it does not apply."""
        read, film = self.read, self.integrate
        code: Any = None if routes is None else routes.code
        if not hasattr(code, "read_film") or type(read) is not SlotRead or type(film) is not SlotFiLM:
            return None
        weights = film.plain_weights()
        if weights is None or film.lin_linear is not None or is_hooked(read) or is_hooked(film):
            return None
        if not read.folds(x.size(0), slots.size(0)) or any(one.dtype != torch.float32 for one in (x, *weights)):
            return None
        modulated: Tensor = code.read_film(cast(Routes, routes).scores, read.values(slots), plan, x, *weights)
        return modulated

    def _inspect(
        self,
        x: Tensor,
        plan: Plan,
        routes: Routes | None,
        writes: Tensor | None,
        reads: Tensor | None,
        log_weight: Tensor | None,
        carried: Tensor | None,
        inside: SlotMemory,
    ) -> SlotMemory:
        """Add anchor, write and read weights to the memory of a pass."""
        state, slots = inside.state, inside.slots
        if writes is not None:
            # Left out before the exponential: the score of a node that did not write may be far above the mass.
            log_weight = torch.zeros_like(x[:, 0]) if log_weight is None else log_weight
            absent = ~writes if log_weight.dim() == 1 else ~writes[:, None, None]
            log_weight = log_weight.masked_fill(absent, float("-inf"))
        weights = gathered(
            self.write,
            "weights",
            state,
            hide(x, writes),
            plan,
            address=hide_address(routes, writes),
            slots=carried,
            log_weight=log_weight,
            alone=self.holds_nodes_alone and self.merge is None,
        )
        anchor = gathered(self.update, "anchor_weight", state) if self.anchored else None
        read = None
        if self.read is not None:
            read = gathered(self.read, "weights", hide(x, reads), slots, plan, hide_address(routes, reads))
            read = read if reads is None else read.masked_fill(~reads[:, None, None], 0.0)
        return SlotMemory(state, slots, anchor, weights, read)

    def __repr__(self) -> str:
        usual = choose_routing(type(self).__name__, None, self.address_channels)
        values = {
            "routing": None if self.routing == usual else self.routing,
            "temperature": None if self.temperature == TEMPERATURES[self.routing] else self.temperature,
            "integrate": self.integration or self.integrate,
        }
        return shown(self, SlotVirtualNode, self.channels, "slots", "heads", "anchored", **values)
