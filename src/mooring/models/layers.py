"""Local layers: a convolution by its PyG name or one of our own, norm, activation, dropout and residual."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GINConv, GINEConv, SAGEConv
from torch_geometric.nn.inits import reset
from torch_geometric.utils import is_sparse, scatter

from mooring.models.adjacency import Adjacency
from mooring.nn.checks import check_choice, check_share
from mooring.ops.checks import check_count, check_flag, described

Norm = Literal["batch", "layer"]
NORMS = get_args(Norm)
ConvName = Literal["GINEConv", "GINConv", "GatedGCN", "GCNConv", "SAGEConv", "MeshGraphNetConv"]
Conv = ConvName | Callable[[int], nn.Module]


class GatedGCN(nn.Module):
    r"""Nodes and edges -> nodes and edges, with a learned gate per edge and channel.

    .. math::
        \hat e_{ij} = C e_{ij} + D x_i + E x_j, \qquad
        x_i' = A x_i + \frac{\sum_j \sigma(\hat e_{ij}) \odot B x_j}{\sum_j \sigma(\hat e_{ij}) + \epsilon}, \qquad
        e_{ij}' = e_{ij} + \operatorname{ReLU}(\operatorname{norm}(\hat e_{ij}))

    Paper: Bresson and Laurent 2017 (arXiv 1711.07553), with the edges of Dwivedi et al. 2020 (arXiv 2003.00982). PyG's
    ``ResGatedGraphConv`` has neither the normalisation of the gates nor edges that change.

    After the last layer of a network the edges are unused: their norm has no gradient there, nor has their linear map
    if there are no edge features. ``DistributedDataParallel`` then needs ``find_unused_parameters=True``.

    Args:
        channels: width of nodes and edges, in and out.
        norm: normalisation of the edges, as in :class:`Layer`.

    Shapes: x ``[nodes, channels]``, edge_attr ``[edges, channels]`` or None -> the same two.

    >>> x, edge_attr = GatedGCN(8)(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]]), torch.randn(2, 8))
    >>> x.shape, edge_attr.shape
    (torch.Size([3, 8]), torch.Size([2, 8]))
    """

    def __init__(self, channels: int, norm: Norm | None = "batch") -> None:
        super().__init__()
        check_count(type(self).__name__, "channels", channels)
        # A, B, D and E in one product over the nodes.
        self.lin_node = nn.Linear(channels, 4 * channels)
        self.lin_edge = nn.Linear(channels, channels, bias=False)
        self.norm = norm_of(type(self).__name__, norm, channels)

    def reset_parameters(self) -> None:
        for module in (self.lin_node, self.lin_edge, self.norm):
            reset(module)

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        edge_index: Tensor,
        edge_attr: Float[Tensor, "edges channels"] | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        source, target = edge_index
        self_term, value, receiver, sender = self.lin_node(x).chunk(4, dim=1)
        gate = receiver.index_select(0, target) + sender.index_select(0, source)
        gate = gate if edge_attr is None else gate + self.lin_edge(edge_attr)
        weight = gate.sigmoid()
        total = scatter(weight * value.index_select(0, source), target, 0, x.size(0), reduce="sum")
        share = total / (scatter(weight, target, 0, x.size(0), reduce="sum") + 1e-6)
        edges = None if edge_attr is None else edge_attr + self.norm(gate).relu()
        return self_term + share, edges

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lin_edge.in_features})"


class MeshGraphNetConv(nn.Module):
    r"""Nodes and edges -> the change of the nodes, and the new edges, each by an MLP.

    .. math::
        e_{ij}' = e_{ij} + f_E(e_{ij}, x_i, x_j), \qquad
        \Delta x_i = f_V\Big(x_i, \sum_j e_{ij}'\Big)

    with MLPs :math:`f_E, f_V` that end in a layer norm. :class:`~mooring.models.Layer` adds :math:`\Delta x_i` to
    :math:`x_i`; with ``pre_norm=True`` and ``norm=None`` it is the layer of the paper.

    Paper: Pfaff et al. 2021 (arXiv 2010.03409), without its second kind of edges.

    Args:
        channels: width of nodes and edges, in and out, and of the hidden layers.
        hidden_layers: of each MLP.

    Shapes: x ``[nodes, channels]``, edge_attr ``[edges, channels]`` -> the same two.

    >>> x, edge_attr = MeshGraphNetConv(8)(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]]), torch.randn(2, 8))
    >>> x.shape, edge_attr.shape
    (torch.Size([3, 8]), torch.Size([2, 8]))
    """

    def __init__(self, channels: int, hidden_layers: int = 2) -> None:
        super().__init__()
        for name, count in (("channels", channels), ("hidden_layers", hidden_layers)):
            check_count(type(self).__name__, name, count)
        # The first map of each MLP is a sum of maps of its parts: sender and receiver are mapped once per node.
        self.lin_sender = nn.Linear(channels, channels, bias=False)
        self.lin_receiver = nn.Linear(channels, channels, bias=False)
        self.lin_edge = nn.Linear(channels, channels)
        self.edge_mlp = _normed_mlp(channels, hidden_layers)
        self.lin_node = nn.Linear(channels, channels)
        self.lin_message = nn.Linear(channels, channels, bias=False)
        self.node_mlp = _normed_mlp(channels, hidden_layers)

    def reset_parameters(self) -> None:
        for module in self.children():
            reset(module)

    def forward(
        self, x: Float[Tensor, "nodes channels"], edge_index: Tensor, edge_attr: Float[Tensor, "edges channels"]
    ) -> tuple[Tensor, Tensor]:
        source, target = edge_index
        hidden = self.lin_edge(edge_attr) + self.lin_sender(x).index_select(0, source)
        edges = edge_attr + self.edge_mlp(hidden + self.lin_receiver(x).index_select(0, target))
        # Three times as fast as PyG's scatter here, forward and backward.
        message = edges.new_zeros(x.size(0), edges.size(1)).index_add(0, target, edges)
        return self.node_mlp(self.lin_node(x) + self.lin_message(message)), edges

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lin_edge.in_features})"


def _normed_mlp(channels: int, hidden_layers: int) -> nn.Sequential:
    """Build the rest of an MLP after its first map, with a layer norm at its end."""
    hidden = (layer for _ in range(hidden_layers) for layer in (nn.ReLU(), nn.Linear(channels, channels)))
    return nn.Sequential(*hidden, nn.LayerNorm(channels))


def _mlp(channels: int) -> nn.Module:
    return nn.Sequential(nn.Linear(channels, 2 * channels), nn.ReLU(), nn.Linear(2 * channels, channels))


CONVS: Mapping[str, Callable[[int, Norm | None], nn.Module]] = {
    "GINEConv": lambda channels, norm: GINEConv(_mlp(channels), train_eps=True),
    "GINConv": lambda channels, norm: GINConv(_mlp(channels), train_eps=True),
    "GatedGCN": GatedGCN,
    "GCNConv": lambda channels, norm: GCNConv(channels, channels),
    "SAGEConv": lambda channels, norm: SAGEConv(channels, channels),
    "MeshGraphNetConv": lambda channels, norm: MeshGraphNetConv(channels),
}
# Convolutions that are linear in the nodes.
LINEAR = ("GCNConv", "SAGEConv")

# The convolution options that the products of an Adjacency implement.
MULTIPLIED: Mapping[type[nn.Module], Mapping[str, Any]] = {
    SAGEConv: {"aggr": "mean", "flow": "source_to_target"},
    GCNConv: {
        "normalize": True,
        "add_self_loops": True,
        "improved": False,
        "aggr": "add",
        "flow": "source_to_target",
    },
}


class Layer(nn.Module):
    r"""Graph -> graph: a convolution with norm, activation, dropout and residual.

    .. math::
        x' = x + \operatorname{dropout}(\operatorname{ReLU}(\operatorname{norm}(\operatorname{conv}(x))))

    or, with ``pre_norm``,

    .. math::
        x' = x + \operatorname{dropout}(\operatorname{conv}(\operatorname{norm}(x)))

    Args:
        channels: width of nodes and edge features, in and out.
        conv: ``"GINEConv"``, ``"GINConv"``, ``"GCNConv"``, ``"SAGEConv"`` of PyG, ``"GatedGCN"``,
            ``"MeshGraphNetConv"``, or a function of the width that builds a layer called as ``conv(x, edge_index)`` or
            ``conv(x, edge_index, edge_attr)``. ``"GINEConv"`` and ``"MeshGraphNetConv"`` need edge features.
        norm: ``"batch"``, as in OGB's models; ``"layer"``, which keeps a graph's output independent of its batch mates;
            None.
        dropout: applied before the residual sum.
        residual: add the layer's input.
        pre_norm: normalise what enters the convolution, which then needs a nonlinearity of its own.

    ``GCNConv`` and ``SAGEConv`` ignore edge features. They also accept an :class:`~mooring.models.Adjacency` instead of
    ``edge_index``, if its products implement their options.

    >>> layer = Layer(8, "GCNConv", norm="layer")
    >>> layer(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]]))[0].shape
    torch.Size([3, 8])
    """

    def __init__(
        self,
        channels: int,
        conv: Conv = "GINEConv",
        *,
        norm: Norm | None = "batch",
        dropout: float = 0.0,
        residual: bool = True,
        pre_norm: bool = False,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        check_count(who, "channels", channels)
        check_share(who, "dropout", dropout)
        check_conv(who, conv)
        self.pre_norm = check_pre_norm(who, pre_norm, conv)
        self.conv: Any = CONVS[conv](channels, norm) if isinstance(conv, str) else conv(channels)
        self.norm = norm_of(who, norm, channels)
        self.dropout = nn.Dropout(dropout)
        self.residual = check_flag(who, "residual", residual)
        self.sees_edges = "edge_attr" in inspect.signature(self.conv.forward).parameters

    def reset_parameters(self) -> None:
        reset(self.conv)
        reset(self.norm)

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        edge_index: Any,
        edge_attr: Float[Tensor, "edges channels"] | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the nodes and the edge features, which only ``GatedGCN`` and ``MeshGraphNetConv`` change."""
        # A sparse matrix may contain them as its values.
        needs_edges = isinstance(self.conv, GINEConv) and not is_sparse(edge_index)
        if edge_attr is None and (needs_edges or isinstance(self.conv, MeshGraphNetConv)):
            raise ValueError(
                f"{type(self).__name__}: {type(self.conv).__name__} needs edge features but edge_attr is None. Pass "
                "edge_attr, for a GNN together with edge_encoder, or use 'GINConv'."
            )
        h = self.norm(x) if self.pre_norm else x
        if isinstance(edge_index, Adjacency):
            out: Any = self._multiplied(h, edge_index)
        else:
            out = self.conv(h, edge_index, edge_attr) if self.sees_edges else self.conv(h, edge_index)
        h, edge_attr = out if isinstance(out, tuple) else (out, edge_attr)
        h = self.dropout(h if self.pre_norm else torch.relu(self.norm(h)))
        return (x + h if self.residual else h), edge_attr

    def _multiplied(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        """Return the output of the convolution, with its propagation replaced by a product."""
        who, conv = type(self).__name__, self.conv
        if type(conv) not in MULTIPLIED:
            raise TypeError(
                f"{who}: {type(conv).__name__} takes no Adjacency. Pass edge_index, or use 'SAGEConv' or 'GCNConv'."
            )
        for name, expected in MULTIPLIED[type(conv)].items():
            if (got := getattr(conv, name)) != expected:
                raise ValueError(
                    f"{who}: {type(conv).__name__} has {name}={got!r} but the product of an Adjacency has "
                    f"{name}={expected!r}. Pass edge_index, or build the convolution with {name}={expected!r}."
                )
        if type(conv) is GCNConv:
            out = adjacency.symmetric(conv.lin(x))
            return out if conv.bias is None else out + conv.bias
        out = conv.lin_l(adjacency.mean(conv.lin(x).relu() if conv.project else x))
        out = out + conv.lin_r(x) if conv.root_weight else out
        return nn.functional.normalize(out, dim=-1) if conv.normalize else out

    def __repr__(self) -> str:
        return f"{type(self).__name__}(conv={type(self.conv).__name__}, residual={self.residual})"


def check_conv(who: str, conv: Any) -> None:
    if isinstance(conv, nn.Module) or not (callable(conv) or isinstance(conv, str)):
        raise TypeError(
            f"{who}: conv is {described(conv)} but a name or a function of the width was expected, e.g. "
            "lambda channels: GATConv(channels, channels)."
        )
    if isinstance(conv, str):
        check_choice(who, "conv", conv, tuple(CONVS), "a function of the width")


def check_norm(who: str, norm: Any) -> None:
    if norm is not None:
        check_choice(who, "norm", norm, NORMS, "None")


def check_pre_norm(who: str, pre_norm: Any, conv: Conv) -> bool:
    if check_flag(who, "pre_norm", pre_norm) and conv in LINEAR:
        raise ValueError(
            f"{who}: pre_norm=True leaves out the ReLU after the convolution, and {conv} has no nonlinearity of its "
            "own. Pass pre_norm=False, or another conv."
        )
    return bool(pre_norm)


def norm_of(who: str, norm: Norm | None, channels: int) -> nn.Module:
    """Build the normalisation ``norm``; ``who`` is the name in error messages."""
    check_norm(who, norm)
    if norm is None:
        return nn.Identity()
    return nn.BatchNorm1d(channels) if norm == "batch" else nn.LayerNorm(channels)
