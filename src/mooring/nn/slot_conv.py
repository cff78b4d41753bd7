"""Local convolution and global memory as one layer."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Literal, cast

import torch
from torch import Tensor, fx, nn
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver, normalization_resolver

from mooring.nn.checks import check_features, check_nodes, check_return_state, check_share, shown
from mooring.nn.lazy import UNKNOWN, lazy_channels
from mooring.nn.masks import hide, sound_nodes, writers
from mooring.nn.memory import SlotMemory
from mooring.nn.slot_virtual_node import SlotVirtualNode
from mooring.ops import Plan, checks
from mooring.ops.checks import check_count
from mooring.ops.plan import make_plan


@lazy_channels("mlp.0.weight")
class SlotConv(nn.Module):
    r"""Graph -> graph: message passing along the edges, then one pass through the slots, then a node MLP.

    .. math::
        h = \operatorname{LN}(x + \operatorname{conv}(x)), \qquad
        h' = \operatorname{memory}(h), \qquad
        x' = \operatorname{LN}(h' + \operatorname{MLP}(h'))

    Called like PyG's ``GPSConv``, with slots instead of dense attention: the cost is linear in the nodes, nothing is
    padded, and with LayerNorm instead of BatchNorm the output of a graph does not depend on its batch mates.

    Args:
        channels: width of the node features, in and out; -1 takes the width of the first input.
        conv: local layer from channels to channels, or None for the memory alone.
        slots, heads: as in :class:`~mooring.nn.SlotVirtualNode`; None is its default.
        dropout: on the local message and inside the MLP.
        act: activation of the MLP, by PyG's name.
        norm: normalisation after the local layer and at the end, by PyG's name. Norms that take ``batch`` (e.g.
            ``graph_norm``) receive it. Only BatchNorm makes the output of a graph depend on its batch mates.
        memory: a custom virtual node instead of slots, heads and kwargs.
        kwargs: further arguments of :class:`~mooring.nn.SlotVirtualNode`.

    A node that the memory leaves out is still part of the local layer. If it is NaN or infinite, its neighbours see
    zeros, it is returned unchanged, and it influences no gradient.

    >>> from torch_geometric.nn import GCNConv
    >>> layer = SlotConv(8, GCNConv(8, 8), slots=2)
    >>> layer(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]])).shape
    torch.Size([3, 8])
    """

    def __init__(
        self,
        channels: int,
        conv: nn.Module | None,
        slots: int | None = None,
        heads: int | None = None,
        *,
        dropout: float = 0.0,
        act: str = "relu",
        norm: str | None = "layer_norm",
        memory: nn.Module | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        check_count(who, "channels", channels)
        check_share(who, "dropout", dropout)
        for name, module in (("conv", conv), ("memory", memory)):
            if module is not None and not isinstance(module, nn.Module):
                raise TypeError(f"{who}: {name} is {checks.described(module)} but an nn.Module or None was expected.")
        self.channels = channels
        self.act = act
        self.norm = norm
        self.conv: Any = conv
        self.memory: Any = _memory(who, memory, channels, {"slots": slots, "heads": heads, **kwargs})
        self.dropout = nn.Dropout(dropout)
        self.norm_local: Any = _norm(who, norm, channels) if conv is not None else None
        self.norm_out = _norm(who, norm, channels)
        self.norms_by_graph = "batch" in inspect.signature(self.norm_out.forward).parameters
        self.mlp = nn.Sequential(
            nn.Linear(channels, 2 * channels),
            _activation(who, act),
            nn.Dropout(dropout),
            nn.Linear(2 * channels, channels),
            nn.Dropout(dropout),
        )

    def reset_parameters(self) -> None:
        # PyG's reset descends into containers such as nn.Sequential, which have no reset_parameters.
        for module in (self.conv, self.memory, self.norm_local, self.norm_out, self.mlp):
            reset(module)

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        tracer = type(x.tracer).__module__ if isinstance(x, fx.Proxy) else ""
        if tracer == "torch_geometric.nn.fx":
            raise TypeError(
                f"{type(self).__name__}: to_hetero would give one result per edge type, and no result per node type, "
                "since this is no MessagePassing. Use HeteroConv({edge_type: SlotConv(...)}), or to_hetero without it "
                "and a HeteroSlotVirtualNode."
            )
        return super().__call__(x, *args, **kwargs)

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Tensor | Any,
        batch: Tensor | Plan | None = None,
        *,
        ptr: Tensor | None = None,
        plan: Plan | None = None,
        num_graphs: int | None = None,
        memory: SlotMemory | None = None,
        return_state: bool | Literal["slots"] = False,
        memory_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Tensor | tuple[Tensor, SlotMemory]:
        """Return the updated nodes.

        Args:
            x: node features, or a pair (x_src, x_dst); the memory is applied to x_dst.
            edge_index: edges as the local layer takes them.
            batch, ptr, plan, num_graphs, memory, return_state: as in :class:`~mooring.nn.SlotVirtualNode`.
            memory_kwargs: further arguments of the memory: sources, targets, log_weight, graph_features.
            kwargs: further arguments of the local layer, such as edge attributes.
        """
        x_src, x = x if isinstance(x, tuple) else (None, x)
        options = {"ptr": ptr, "plan": plan, "num_graphs": num_graphs, "memory": memory, "return_state": return_state}
        masks = self._check(x, batch, options, memory_kwargs, kwargs)
        # A custom memory need not have the arguments that are not used.
        options = {name: value for name, value in options.items() if value is not None and value is not False}
        graphs = self._graphs_for_norms(x, batch, ptr, plan, num_graphs)
        sound = sound_nodes(x, None, writers(masks.get("sources"), masks.get("log_weight")))
        h = hide(x, sound)  # before the conv, not only before the memory: 0 * NaN in a backward is NaN
        if self.conv is not None:
            message = self.conv(h if x_src is None else (x_src, h), edge_index, **kwargs)
            h = self.norm_local(h + self.dropout(message), **graphs)
        h = self.memory(h, batch, **options, **masks)
        h, state = h if return_state else (h, None)
        h = self.norm_out(h + self.mlp(h), **graphs)
        h = h if sound is None else torch.where(sound.unsqueeze(-1), h, x)
        return (h, cast(SlotMemory, state)) if return_state else h

    def _graphs_for_norms(
        self, x: Tensor, batch: Tensor | Plan | None, ptr: Tensor | None, plan: Plan | None, num_graphs: int | None
    ) -> dict[str, Any]:
        """Return the ``batch`` argument of norms that take it, such as ``graph_norm``."""
        if not self.norms_by_graph:
            return {}
        batch = batch if plan is None else plan
        return {"batch": make_plan(type(self).__name__, batch, ptr, x.size(0), num_graphs, device=x.device).batch}

    def _check(
        self,
        x: Tensor,
        batch: Tensor | Plan | None,
        options: Mapping[str, Any],
        memory_kwargs: Any,
        conv_kwargs: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        """Check the arguments that the layer itself uses, and return ``memory_kwargs`` as a mapping."""
        who = type(self).__name__
        check_features(self, self.channels, x)
        check_return_state(who, options["return_state"])
        if memory_kwargs is not None and not isinstance(memory_kwargs, Mapping):
            raise TypeError(
                f"{who}: memory_kwargs is {checks.described(memory_kwargs)} but a dictionary of the memory's arguments "
                "was expected, e.g. {'sources': mask}."
            )
        masks: Mapping[str, Any] = memory_kwargs or {}
        for name in masks.keys() & {*options, "batch"}:
            raise ValueError(f"{who}: memory_kwargs has {name!r}. Pass {name} to the layer itself, which uses it too.")
        if self.conv is None and conv_kwargs:
            raise TypeError(
                f"{who}: got {', '.join(conv_kwargs)} for the local layer, but there is none. Pass a conv, or leave "
                "them out."
            )
        rows = (self.memory.slots, self.memory.heads) if isinstance(self.memory, SlotVirtualNode) else None
        sources, log_weight = masks.get("sources"), masks.get("log_weight")
        check_nodes(who, x, batch=batch, sources=sources, log_weight=log_weight, rows=rows)
        return masks

    def __repr__(self) -> str:
        return shown(self, SlotConv, self.channels, "conv", "memory", dropout=self.dropout.p)


def _memory(who: str, memory: nn.Module | None, channels: int, options: dict[str, Any]) -> nn.Module:
    """Check a custom memory, or build one with the options that are not None."""
    options = {name: option for name, option in options.items() if option is not None}
    if memory is None:
        return SlotVirtualNode(channels, **options)
    if options:
        raise ValueError(
            f"{who}: got a memory and {', '.join(f'{name}={option!r}' for name, option in options.items())} for "
            "building one. Pass either."
        )
    width = getattr(memory, "channels", channels)
    if width not in (channels, UNKNOWN):
        raise ValueError(
            f"{who}: memory has channels={width} but channels={channels}. Build both with the same channels."
        )
    return memory


def _norm(who: str, norm: Any, channels: int) -> nn.Module:
    if norm is None:
        return nn.Identity()
    if norm == "layer_norm":
        return nn.LayerNorm(channels)
    try:
        try:
            module = normalization_resolver(norm)  # without a width, e.g. PairNorm, whose first argument is a scale
        except TypeError:
            module = normalization_resolver(norm, channels)
        if not isinstance(module, nn.Module):
            raise TypeError
        inspect.signature(module.forward).bind(None)  # unlike MessageNorm it takes only the nodes
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{who}: norm is {checks.described(norm)} but None or the name of a normalisation of nodes was expected, "
            "e.g. 'layer_norm' or 'batch_norm'."
        ) from error
    return module


def _activation(who: str, act: Any) -> nn.Module:
    try:
        module = activation_resolver(act)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{who}: act is {act!r} but the name of an activation in torch.nn was expected, e.g. 'relu' or 'gelu'."
        ) from error
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"{who}: act is {checks.described(act)} but the name of an activation was expected, e.g. 'relu'."
        )
    return module
