"""Markdown page 'Which virtual node do I need?', generated from cards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mooring.audit.addressing import NODES
from mooring.audit.card import Card
from mooring.audit.limits import LINEAR, QUADRATIC
from mooring.table import Column, Table

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

# Right-aligned columns of numbers.
NUMBERS = ("value",)

Question = tuple[str, Sequence[str], Sequence[str]]


def cards_markdown(
    cards: Sequence[Card], origins: Mapping[str, str] | None = None, questions: Sequence[Question] = ()
) -> str:
    """Return the page: the choices, the table, and the broken invariants.

    Args:
        cards: the cards, in the order of the table.
        origins: the origin of each module, keyed by the name on its card.
        questions: tuples of a question, the names of the cards that answer it, and the findings to quote.
    """
    if not cards:
        raise ValueError("audit: a page needs at least one card; got none.")
    origins = origins or {}
    parts = [
        HEADER.format(
            channels=cards[0].channels,
            seed=cards[0].seed,
            versions=", ".join(f"{library} {version}" for library, version in cards[0].versions.items()),
        ),
        _choices(cards),
        "## Comparison of the cards\n",
        _table(
            ("module", "what it is", "counts", "messages", "alone = batched", "unsorted", "empty", "cost"),
            (_row(card, origins.get(card.module, "")) for card in cards),
        ),
        EXPLAINED.format(nodes=NODES),
        _answers(cards, questions),
        "## What is broken\n",
        _broken(cards) + "\n",
        ENDING,
    ]
    return "\n".join(parts).rstrip() + "\n"


def _choices(cards: Sequence[Card]) -> str:
    rows = []
    for need, counting, addressed in CHOICES:
        # A module with more than is needed would do as well; list only those with exactly what is needed.
        fits = [card for card in cards if (card.counts, card.messages > 1) == (counting, addressed) and _usable(card)]
        readouts = "a readout sends nothing back" if addressed else _names(fits, per_node=False) or "none found"
        rows.append((need, _names(fits, per_node=True) or "none found", readouts))
    return _table(("what you need", "virtual node or layer", "readout"), rows) + (
        "\n\nEach row names the least that suffices. Modules with a broken invariant are left out, except those that "
        "only need\ntheir batch sorted; these carry a star.\n"
    )


def _usable(card: Card) -> bool:
    return all(finding.name == "unsorted_index" for finding in card.broken)


def _names(cards: Sequence[Card], *, per_node: bool) -> str:
    return ", ".join(
        f"{card.module}\\*" if card.broken else card.module
        for card in cards
        if (card.kind != "aggregation") == per_node
    )


def _row(card: Card, origin: str) -> tuple[str, ...]:
    return (
        f"**{card.module}**",
        f"`{origin}`" if origin else "",
        _counts(card),
        "readout" if card.kind == "aggregation" else str(card.messages),
        _batching(card),
        card["unsorted_index"].verdict.partition(":")[0],
        card["empty_set"].verdict.partition(":")[0],
        _cost(card),
    )


def _counts(card: Card) -> str:
    verdict = card["replication"].verdict
    if card.counts:
        return "yes, " + verdict.rpartition("median error ")[2]
    return "blind" if verdict.startswith("blind") else verdict


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


def _answers(cards: Sequence[Card], questions: Sequence[Question]) -> str:
    by_name = {card.module: card for card in cards}
    parts = []
    for question, names, findings in questions:
        rows = [
            (name, finding.name.replace("_", " "), finding.verdict, _number(finding.value), finding.worst_case)
            for name in names
            if name in by_name
            for finding in (by_name[name][key] for key in findings)
        ]
        parts.append(f"## {question}\n\n" + _table(("module", "measured", "found", "value", "worst case"), rows) + "\n")
    return "\n".join(parts)


def _broken(cards: Sequence[Card]) -> str:
    rows = [
        (card.module, finding.name.replace("_", " "), finding.verdict, _number(finding.value), finding.worst_case)
        for card in cards
        for finding in card.broken
    ]
    return _table(("module", "invariant", "found", "value", "worst case"), rows) if rows else "Nothing."


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"


def _table(titles: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    columns = tuple(Column(title, left=title not in NUMBERS) for title in titles)
    return Table("", "", columns, tuple(rows)).to_markdown().rstrip("\n")
