"""Modules by name: the catalogue of common choices, the zoo, and any importable module."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GINConv, GPSConv, aggr
from torch_geometric.nn.attention import PolynormerAttention, SGFormerAttention
from torch_geometric.transforms import VirtualNode as VirtualNodeTransform

from mooring import nn as mooring_nn
from mooring import zoo
from mooring.audit.card import Card, first_line
from mooring.audit.runner import audit
from mooring.named import import_object, suggest
from mooring.zoo.registry import required

CHANNELS, HEADS, SLOTS = 16, 4, 8
# Prefix of a zoo module's name outside the zoo, as in ``zoo.lse``.
ZOO = "zoo."

# Constructor arguments that mean the width of the node features.
CHANNEL_NAMES = (
    *("channels", "in_channels", "out_channels", "hidden_channels", "node_channels", "hidden_size", "d_model"),
    *("dim", "in_dim", "out_dim", "hidden_dim", "input_dim", "output_dim", "emb_dim", "embed_dim"),
)

# Frequent questions: the question, the cards that answer it and the findings to quote.
QUESTIONS = (
    (
        "Do PyG's linear attentions depend on the graphs in the same batch?",
        ("GPS (performer)", "SGFormer attention", "Polynormer attention"),
        ("batch_mates", "padding"),
    ),
    ("Is PyG's GraphMultisetTransformer blind to replication?", ("graph multiset transformer",), ("replication",)),
)


@dataclass(frozen=True)
class Entry:
    """Module of the catalogue: name, publisher, constructor and calling convention."""

    name: str
    origin: str
    build: Callable[[], Callable[..., Any]]
    kind: str | None = None


class TransformedGIN(nn.Module):
    """Two GIN layers over PyG's ``transforms.VirtualNode``, whose extra rows are dropped at the end.

    Args:
        channels: width of the node features.
        batched: whether the transform is applied to the whole batch, i.e. after batching, or to each graph before
            batching, as its documentation intends.
    """

    def __init__(self, channels: int, *, batched: bool) -> None:
        super().__init__()
        self.first, self.second = (GINConv(_mlp(channels, channels)) for _ in range(2))
        self.batched = batched
        self.transform = VirtualNodeTransform()

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        if self.batched:
            return self._propagate(x, edge_index)
        out = torch.zeros_like(x)
        for graph in batch.unique():
            nodes = (batch == graph).nonzero().squeeze(1)
            place = torch.full_like(batch, -1)
            place[nodes] = torch.arange(nodes.numel())
            edges = place[edge_index[:, batch[edge_index[0]] == graph]]
            out = out.index_copy(0, nodes, self._propagate(x[nodes], edges))
        return out

    def _propagate(self, x: Tensor, edge_index: Tensor) -> Tensor:
        data = self.transform(Data(x=x, edge_index=edge_index))
        return self.second(self.first(data.x, data.edge_index).relu(), data.edge_index)[: x.size(0)]


def entries() -> tuple[Entry, ...]:
    """Return the catalogue; building an entry draws its weights from torch's global generator."""
    return (
        Entry("sum", "PyG SumAggregation", aggr.SumAggregation),
        Entry("mean", "PyG MeanAggregation", aggr.MeanAggregation),
        Entry("max", "PyG MaxAggregation", aggr.MaxAggregation),
        Entry("softmax", "PyG SoftmaxAggregation", lambda: aggr.SoftmaxAggregation(learn=True)),
        Entry("attentional", "PyG AttentionalAggregation", lambda: aggr.AttentionalAggregation(_mlp(CHANNELS, 1))),
        Entry(
            "deep sets",
            "PyG DeepSetsAggregation",
            lambda: aggr.DeepSetsAggregation(_mlp(CHANNELS, CHANNELS), _mlp(CHANNELS, CHANNELS)),
        ),
        Entry(
            "set transformer",
            "PyG SetTransformerAggregation",
            lambda: aggr.SetTransformerAggregation(CHANNELS, heads=HEADS),
        ),
        Entry(
            "graph multiset transformer",
            "PyG GraphMultisetTransformer",
            lambda: aggr.GraphMultisetTransformer(CHANNELS, k=SLOTS, heads=HEADS),
        ),
        Entry(
            "slot aggregation",
            "mooring SlotAggregation",
            lambda: mooring_nn.SlotAggregation(CHANNELS, slots=SLOTS, heads=HEADS),
        ),
        Entry("GPS (multihead)", "PyG GPSConv(attn_type='multihead')", lambda: _gps("multihead")),
        Entry("GPS (performer)", "PyG GPSConv(attn_type='performer')", lambda: _gps("performer")),
        Entry(
            "SGFormer attention", "PyG SGFormerAttention", lambda: SGFormerAttention(CHANNELS, HEADS, CHANNELS), "dense"
        ),
        Entry(
            "Polynormer attention",
            "PyG PolynormerAttention",
            lambda: PolynormerAttention(CHANNELS, HEADS, CHANNELS),
            "dense",
        ),
        Entry(
            "VN transform (batched)",
            "PyG transforms.VirtualNode on a batch, 2 GINConv",
            lambda: TransformedGIN(CHANNELS, batched=True),
        ),
        Entry(
            "VN transform (per graph)",
            "PyG transforms.VirtualNode per graph, 2 GINConv",
            lambda: TransformedGIN(CHANNELS, batched=False),
        ),
        Entry("VN (mean)", "mooring VirtualNode(pool='mean')", lambda: mooring_nn.VirtualNode(CHANNELS, pool="mean")),
        Entry("VN (sum)", "mooring VirtualNode(pool='sum')", lambda: mooring_nn.VirtualNode(CHANNELS, pool="sum")),
        Entry(
            "Cross-Attn VN",
            "mooring SlotVirtualNode(anchored=False)",
            lambda: mooring_nn.SlotVirtualNode(CHANNELS, SLOTS, HEADS, anchored=False),
        ),
        Entry("Anchored VN", "mooring SlotVirtualNode", lambda: mooring_nn.SlotVirtualNode(CHANNELS, SLOTS, HEADS)),
    )


def zoo_entries(
    names: Iterable[str] = (), channels: int = CHANNELS, options: Mapping[str, Any] | None = None
) -> tuple[Entry, ...]:
    """Return modules of the zoo as entries; by default all except ``none``, which builds no module.

    Args:
        names: as in :func:`mooring.zoo.build`.
        channels: width of the node features.
        options: further fields of :class:`mooring.zoo.MemorySpec`.
    """
    zoo_modules = [zoo.entry(name) for name in names or zoo.names() if name != "none"]
    known = [item.name for item in fields(zoo.MemoryOptions)]
    for name in options or {}:
        if name not in known:
            raise ValueError(
                f"zoo: unknown option {name!r}; {suggest(name, known, 'there are ' + ', '.join(known) + '.')}"
            )
    spec = zoo.MemorySpec(**{"slots": SLOTS, "heads": HEADS, **(options or {})}, channels=channels)
    return tuple(
        Entry(
            ZOO + item.name,
            f"{item.title} ({item.paper})",
            cast(Callable[[], Callable[..., Any]], partial(zoo.build, item.name, spec)),
            "virtual_node",
        )
        for item in zoo_modules
    )


def build(entry: Entry, seed: int = 0) -> Callable[..., Any]:
    """Build an entry with weights that are a function of the seed; restore torch's generator afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return entry.build()


def cards(
    seed: int = 0, trials: int = 12, chosen: Iterable[Entry] | None = None, channels: int = CHANNELS
) -> Iterator[Card]:
    """Audit the chosen entries, built for ``channels``, or the whole catalogue; yield one card at a time."""
    for entry in entries() if chosen is None else chosen:
        yield audit(build(entry, seed), entry.kind, channels=channels, seed=seed, trials=trials, name=entry.name)


def resolve(target: str, channels: int = 16, kwargs: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """Import ``package.module:Name``, which runs that module's code, and build it if it is a class.

    A builder that takes a :class:`~mooring.zoo.MemorySpec` receives one with ``kwargs`` as its fields. For any other
    class, arguments named like a width receive ``channels``; the others come from ``kwargs``. A value of the form
    ``package.module:Name`` is resolved too, so that one module can be passed to another.

    >>> resolve("torch_geometric.nn:GraphMultisetTransformer", 8, {"k": 3})
    GraphMultisetTransformer(8, k=3, heads=1, layer_norm=False, dropout=0.0)
    """
    kwargs = dict(kwargs or {})
    target_object = import_object(target, "audit")
    if not callable(target_object):
        raise ValueError(
            f"audit: {target} is {type(target_object).__name__}, expected a module, a class or a function."
        )
    if not isinstance(target_object, nn.Module) and zoo.takes_spec(target_object):
        return _from_spec(target_object, target, channels, kwargs)
    if not inspect.isclass(target_object):
        if kwargs:
            raise ValueError(f"audit: {target} is not a class, so it takes no arguments; got {', '.join(kwargs)}.")
        return cast(Callable[..., Any], target_object)
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(target_object).parameters.items()
        if name not in ("self", "cls")
    }
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in kwargs:
        if name not in parameters and not open_ended:
            hint = suggest(name, parameters, f"it takes {', '.join(parameters)}.")
            raise ValueError(f"audit: {target} has no argument {name!r}; {hint}")
    arguments = {name: _value(value, channels) for name, value in kwargs.items()}
    missing = []
    for name, parameter in parameters.items():
        if not required(parameter) or name in arguments:
            continue
        if name in CHANNEL_NAMES:
            arguments[name] = channels
        else:
            missing.append(name)
    if missing:
        flags = " ".join(f"--arg {name}=VALUE" for name in missing)
        raise ValueError(
            f"audit: {target} needs {', '.join(missing)}. Pass {flags} (in Python: kwargs={{{missing[0]!r}: ...}})."
        )
    return _built(target_object, target, arguments)


def _from_spec(
    builder: Callable[..., Any], target: str, channels: int, kwargs: Mapping[str, Any]
) -> Callable[..., Any]:
    known = [field.name for field in fields(zoo.MemorySpec)]
    for name in kwargs:
        if name not in known:
            hint = suggest(name, known, f"it has {', '.join(known)}.")
            raise ValueError(f"audit: {target} takes a MemorySpec, which has no field {name!r}; {hint}")
    return _built(lambda **options: builder(zoo.MemorySpec(**options)), target, {"channels": channels, **kwargs})


def _built(factory: Callable[..., Any], target: str, arguments: Mapping[str, Any]) -> Callable[..., Any]:
    try:
        return cast(Callable[..., Any], factory(**arguments))
    except Exception as error:
        call = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        raise ValueError(f"audit: {target}({call}) could not be built: {first_line(error)}") from error


def parse_arguments(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse ``name=value`` pairs; values are Python literals, anything else is a string.

    >>> parse_arguments(["heads=4", "conv=None", "norm=layer_norm"])
    {'heads': 4, 'conv': None, 'norm': 'layer_norm'}
    """
    arguments: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"audit: --arg {pair!r} is not of the form name=value, e.g. --arg heads=4.")
        try:
            arguments[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            arguments[name] = text
    return arguments


def _value(value: Any, channels: int) -> Any:
    if isinstance(value, str) and ":" in value:
        return resolve(value, channels)
    return value


def _gps(attention: str) -> nn.Module:
    options = {"head_channels": CHANNELS} if attention == "performer" else {}
    conv = GINConv(_mlp(CHANNELS, CHANNELS))
    return GPSConv(CHANNELS, conv, heads=HEADS, attn_type=attention, attn_kwargs=options)


def _mlp(channels: int, out_channels: int) -> nn.Module:
    return nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, out_channels))
