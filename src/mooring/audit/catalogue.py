"""The catalogue of common choices, the zoo, and the page 'Which virtual node do I need?' written from their cards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GINConv, GPSConv, aggr
from torch_geometric.nn.aggr import SetTransformerAggregation
from torch_geometric.nn.attention import PolynormerAttention, SGFormerAttention
from torch_geometric.transforms import VirtualNode as VirtualNodeTransform

from mooring import zoo
from mooring.audit.card import Card, Finding
from mooring.audit.expressiveness import NODES
from mooring.audit.robustness import LINEAR, QUADRATIC
from mooring.audit.runner import audit, check_known
from mooring.nn import SlotAggregation, SlotVirtualNode, VirtualNode
from mooring.table import Column, Table

CHANNELS, HEADS, SLOTS = 16, 4, 8
# Prefix of a zoo module's name outside the zoo, as in ``zoo.lse``.
ZOO = "zoo."

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
class CatalogueEntry:
    """Module of the catalogue: name, publisher, constructor and calling convention."""

    name: str
    origin: str
    build: Callable[[], Callable[..., Any]]
    kind: str | None = None


class TransformedGIN(nn.Module):
    """Two GIN layers over PyG's ``transforms.VirtualNode``, whose extra rows are dropped at the end.

    The transform is applied to the whole batch if ``batched``, i.e. after batching. Otherwise it is applied to each
    graph before batching, as its documentation intends.
    """

    def __init__(self, *, batched: bool) -> None:
        super().__init__()
        self.first, self.second = (GINConv(_mlp()) for _ in range(2))
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


def _mlp(out_channels: int = CHANNELS) -> nn.Module:
    return nn.Sequential(nn.Linear(CHANNELS, CHANNELS), nn.ReLU(), nn.Linear(CHANNELS, out_channels))


def _gps(attention: str, **options: int) -> nn.Module:
    return GPSConv(CHANNELS, GINConv(_mlp()), heads=HEADS, attn_type=attention, attn_kwargs=options)


def entries() -> tuple[CatalogueEntry, ...]:
    """Return the catalogue; building an entry draws its weights from torch's global generator."""
    sizes = (CHANNELS, SLOTS, HEADS)
    rows: tuple[tuple[str, str, Callable[[], Callable[..., Any]]], ...] = (
        ("sum", "PyG SumAggregation", aggr.SumAggregation),
        ("mean", "PyG MeanAggregation", aggr.MeanAggregation),
        ("max", "PyG MaxAggregation", aggr.MaxAggregation),
        ("softmax", "PyG SoftmaxAggregation", lambda: aggr.SoftmaxAggregation(learn=True)),
        ("attentional", "PyG AttentionalAggregation", lambda: aggr.AttentionalAggregation(_mlp(1))),
        ("deep sets", "PyG DeepSetsAggregation", lambda: aggr.DeepSetsAggregation(_mlp(), _mlp())),
        ("set transformer", "PyG SetTransformerAggregation", partial(SetTransformerAggregation, CHANNELS, heads=HEADS)),
        (
            "graph multiset transformer",
            "PyG GraphMultisetTransformer",
            partial(aggr.GraphMultisetTransformer, CHANNELS, k=SLOTS, heads=HEADS),
        ),
        ("slot aggregation", "mooring SlotAggregation", partial(SlotAggregation, *sizes)),
        ("GPS (multihead)", "PyG GPSConv(attn_type='multihead')", lambda: _gps("multihead")),
        ("GPS (performer)", "PyG GPSConv(attn_type='performer')", lambda: _gps("performer", head_channels=CHANNELS)),
        ("SGFormer attention", "PyG SGFormerAttention", partial(SGFormerAttention, CHANNELS, HEADS, CHANNELS)),
        ("Polynormer attention", "PyG PolynormerAttention", partial(PolynormerAttention, CHANNELS, HEADS, CHANNELS)),
        (
            "VN transform (batched)",
            "PyG transforms.VirtualNode on a batch, 2 GINConv",
            partial(TransformedGIN, batched=True),
        ),
        (
            "VN transform (per graph)",
            "PyG transforms.VirtualNode per graph, 2 GINConv",
            partial(TransformedGIN, batched=False),
        ),
        ("VN (mean)", "mooring VirtualNode(pool='mean')", partial(VirtualNode, CHANNELS, pool="mean")),
        ("VN (sum)", "mooring VirtualNode(pool='sum')", partial(VirtualNode, CHANNELS, pool="sum")),
        ("Cross-Attn VN", "mooring SlotVirtualNode(anchored=False)", partial(SlotVirtualNode, *sizes, anchored=False)),
        ("Anchored VN", "mooring SlotVirtualNode", partial(SlotVirtualNode, *sizes)),
    )
    return tuple(CatalogueEntry(*row) for row in rows)


def zoo_entries(
    names: Iterable[str] = (), channels: int = CHANNELS, options: Mapping[str, Any] | None = None
) -> tuple[CatalogueEntry, ...]:
    """Return modules of the zoo as entries; by default all except ``none``, which builds no module.

    Args:
        names: as in :func:`mooring.zoo.build`.
        channels: width of the node features.
        options: further fields of :class:`mooring.zoo.MemorySpec`.
    """
    zoo_modules = [zoo.entry(name) for name in names or zoo.names() if name != "none"]
    check_known(options or {}, [field.name for field in fields(zoo.MemoryOptions)], "zoo: unknown option", "there are")
    spec = zoo.MemorySpec(**{"slots": SLOTS, "heads": HEADS, **(options or {})}, channels=channels)
    # Without ``none``, every name builds a module.
    build_module = cast(Callable[..., Callable[..., Any]], zoo.build)
    return tuple(
        CatalogueEntry(
            ZOO + item.name, f"{item.title} ({item.paper})", partial(build_module, item.name, spec), "virtual_node"
        )
        for item in zoo_modules
    )


def build(entry: CatalogueEntry, seed: int = 0) -> Callable[..., Any]:
    """Build an entry with weights that are a function of the seed; restore torch's generator afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return entry.build()


def cards(
    seed: int = 0, trials: int = 12, chosen: Iterable[CatalogueEntry] | None = None, channels: int = CHANNELS
) -> Iterator[Card]:
    """Audit the chosen entries, built for ``channels``, or the whole catalogue; yield one card at a time."""
    for entry in entries() if chosen is None else chosen:
        yield audit(build(entry, seed), entry.kind, channels=channels, seed=seed, trials=trials, name=entry.name)


HEADER = """# Which virtual node do I need?

Written from audit cards by `python -m mooring.audit > docs/which-virtual-node.md`; do not edit it by hand. Every entry
was measured on small, randomly initialised modules ({channels} channels, seed {seed}; {versions}), in float64,
on random inputs: it shows what a module can transmit, not what training will make of it.

Two questions decide.

- **Must the answer change if the graph is duplicated?** Counts, totals, loads, stoichiometry: you need a module
  that *counts*.
- **Must different nodes receive different messages?** Lookups, matching, assignments, constraints: you need more than
  one *message*.
"""

CHOICES = (
    ("Neither: one summary, the same for all, proportions only", False, False),
    ("It must count, one summary is enough", True, False),
    ("Different messages, proportions only", False, True),
    ("It must count *and* send different messages", True, True),
)

EXPLAINED = """
- **counts**: whether the number of nodes can be read from the output by a fitted probe, with its median error on unseen
  multisets; *blind* means that f(rX) = f(X) to rounding, where no training and no width can bring the count back.
- **messages**: the rank of what all nodes receive from {nodes} others, divided by the rank of what one node
  receives; 1 is a homogeneous broadcast, {nodes} is all that could be told apart. A slot behind a LayerNorm holds two
  numbers fewer than it is wide, so M slots can give slightly fewer than M messages.
- **alone = batched**: the same graph alone and among others gives the same output; if not, the largest relative change.
- **unsorted**: whether a batch vector out of order is handled, refused with an error, or silently wrong.
- **empty**: a graph without nodes in the batch; value and gradient must be finite and the other graphs unchanged.
- **cost**: growth of the counted operations in the number of nodes n, and what a batch of one large and many small
  graphs costs relative to its graphs alone.
"""

ENDING = """`mooring audit catalogue` measures all of this again and prints every finding;
`mooring audit torch_geometric.nn:SumAggregation` audits one module; your modules work too.
"""


def cards_markdown(
    cards: Sequence[Card],
    origins: Mapping[str, str] | None = None,
    questions: Sequence[tuple[str, Sequence[str], Sequence[str]]] = (),
) -> str:
    """Return the page: the choices, the table, and the broken invariants.

    Args:
        cards: the cards, in the order of the table.
        origins: the origin of each module, keyed by the name on its card.
        questions: tuples of a question, the names of the cards that answer it, and the findings to quote.
    """
    if not cards:
        raise ValueError("audit: a page needs at least one card; got none.")
    versions = ", ".join(f"{library} {version}" for library, version in cards[0].versions.items())
    titles = ("module", "what it is", "counts", "messages", "alone = batched", "unsorted", "empty", "cost")
    by_name = {card.module: card for card in cards}
    answers = [
        f"## {question}\n\n"
        + _findings(
            (by_name[name], by_name[name][finding]) for name in names if name in by_name for finding in findings
        )
        + "\n"
        for question, names, findings in questions
    ]
    broken = [(card, finding) for card in cards for finding in card.broken]
    parts = [
        HEADER.format(channels=cards[0].channels, seed=cards[0].seed, versions=versions),
        _choices(cards),
        "## Comparison of the cards\n",
        _table(titles, (_row(card, (origins or {}).get(card.module, "")) for card in cards)),
        EXPLAINED.format(nodes=NODES),
        "\n".join(answers),
        "## What is broken\n",
        (_findings(broken, "invariant") if broken else "Nothing.") + "\n",
        ENDING,
    ]
    return "\n".join(parts).rstrip() + "\n"


def _choices(cards: Sequence[Card]) -> str:
    rows = []
    for need, counting, addressed in CHOICES:
        # A module with more than is needed would do as well; list only those with exactly what is needed.
        fits = [
            card
            for card in cards
            if (card.counts, card.messages > 1) == (counting, addressed)
            and all(finding.name == "unsorted_index" for finding in card.broken)
        ]
        readouts = "a readout sends nothing back" if addressed else _names(fits, per_node=False)
        rows.append((need, _names(fits, per_node=True), readouts))
    return _table(("what you need", "virtual node or layer", "readout"), rows) + (
        "\n\nEach row names the least that suffices. Modules with a broken invariant are left out, except those that "
        "only need\ntheir batch sorted; these carry a star.\n"
    )


def _names(cards: Sequence[Card], *, per_node: bool) -> str:
    names = [
        f"{card.module}\\*" if card.broken else card.module
        for card in cards
        if (card.kind != "aggregation") == per_node
    ]
    return ", ".join(names) or "none found"


def _row(card: Card, origin: str) -> tuple[str, ...]:
    counts = card["replication"].verdict
    if card.counts:
        counts = "yes, " + counts.rpartition("median error ")[2]
    return (
        f"**{card.module}**",
        f"`{origin}`" if origin else "",
        "blind" if counts.startswith("blind") else counts,
        "readout" if card.kind == "aggregation" else str(card.messages),
        _batching(card),
        card["unsorted_index"].verdict.partition(":")[0],
        card["empty_set"].verdict.partition(":")[0],
        _cost(card),
    )


def _batching(card: Card) -> str:
    findings = [card["batch_mates"], card["padding"]]
    if not any(finding.broken for finding in findings):
        return "yes"
    changes = [finding.value for finding in findings if finding.value is not None]
    return f"**no**, {max(changes):.1g}" if changes else "raises"


def _cost(card: Card) -> str:
    finding = card["cost_growth"]
    if finding.value is None:
        return "raises"
    shape = "n" if finding.value < LINEAR else "n²" if finding.value > QUADRATIC else f"n^{finding.value:.1f}"
    overhead = finding.details["skewed_batch_overhead"]
    return f"{shape}, skewed ×{overhead:.0f}" if overhead > 2 else shape


def _findings(pairs: Iterable[tuple[Card, Finding]], kind: str = "measured") -> str:
    rows = (
        (card.module, each.title, each.verdict, "" if each.value is None else f"{each.value:.2g}", each.worst_case)
        for card, each in pairs
    )
    return _table(("module", kind, "found", "value", "worst case"), rows)


def _table(titles: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    columns = tuple(Column(title, left=title != "value") for title in titles)
    return Table("", "", columns, tuple(rows)).to_markdown().rstrip("\n")
