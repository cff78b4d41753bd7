"""The cards of the catalogue and the zoo agree with the paper and the field, and the page is written from them."""

from pathlib import Path

import pytest

from mooring.audit import Card, Finding, adapt, audit, cards_markdown, measure
from mooring.audit.catalogue import CHANNELS, QUESTIONS, build, entries, zoo_entries
from mooring.suite.records import load

ENTRIES = {entry.name: entry for entry in entries()}
OURS = ("VN (mean)", "VN (sum)", "Cross-Attn VN", "Anchored VN", "slot aggregation")
INVARIANTS = ("permutation", "unsorted_index", "batch_mates", "padding", "empty_set", "numeric_range", "dtypes")


def find(name: str, measurement: str) -> Finding:
    entry = ENTRIES[name]
    return measure(measurement, adapt(build(entry), entry.kind, CHANNELS), 0, 4)


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_builds_the_same_twice(name: str) -> None:
    first, second = (build(ENTRIES[name]) for _ in range(2))
    assert type(first) is type(second)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):  # type: ignore[attr-defined]
        assert bool((a == b).all())


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("measurement", INVARIANTS)
def test_ours_break_nothing(name: str, measurement: str) -> None:
    finding = find(name, measurement)
    assert not finding.broken, finding


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("VN (mean)", False),
        ("VN (sum)", True),
        ("Cross-Attn VN", False),
        ("Anchored VN", True),
    ],
)
def test_who_counts(name: str, counts: bool) -> None:
    assert find(name, "replication").details.get("counts", False) == counts


def test_who_can_be_addressed() -> None:
    assert find("VN (sum)", "addressability").value == 1
    # Two LayerNorms leave 14 of 16 numbers in each of 8 slots; the anchor's mass is added after them.
    assert find("Cross-Attn VN", "addressability").details["rank_together"] == 8 * 14
    assert find("Anchored VN", "addressability").value == 8


@pytest.mark.parametrize("name", ["GPS (performer)", "SGFormer attention", "Polynormer attention"])
def test_linear_attentions_depend_on_padding_but_not_on_mates(name: str) -> None:
    assert find(name, "padding").broken
    assert not find(name, "batch_mates").broken


def test_dense_attention_depends_on_neither() -> None:
    assert not find("GPS (multihead)", "padding").broken
    assert not find("GPS (multihead)", "batch_mates").broken


def test_the_graph_multiset_transformer_is_blind() -> None:
    assert find("graph multiset transformer", "replication").verdict.startswith("blind")


def test_a_transform_on_a_batch_joins_its_graphs() -> None:
    assert find("VN transform (batched)", "batch_mates").broken
    assert not find("VN transform (per graph)", "batch_mates").broken


def test_the_page_is_written_from_cards() -> None:
    names = ("sum", "mean", "SGFormer attention")
    cards = [audit(build(ENTRIES[n]), ENTRIES[n].kind, channels=CHANNELS, trials=4, name=n) for n in names]
    page = cards_markdown(cards, {name: entry.origin for name, entry in ENTRIES.items()}, QUESTIONS)
    lines = [" ".join(line.split()) for line in page.splitlines()]
    assert "| It must count, one summary is enough | none found | sum |" in lines
    assert any(line.startswith("| SGFormer attention | padding | depends on the sizes beside it |") for line in lines)
    assert "| **mean** | `PyG MeanAggregation` | blind | readout | yes | handled | finite | n |" in lines
    with pytest.raises(ValueError, match="needs at least one card"):
        cards_markdown([])


def test_the_committed_page_covers_the_catalogue() -> None:
    page = (Path(__file__).parents[2] / "docs" / "which-virtual-node.md").read_text()
    assert [name for name in ENTRIES if f"| **{name}** " not in page] == []
    assert [question for question, *_ in QUESTIONS if question not in page] == []


def test_every_module_of_the_zoo_has_a_committed_card() -> None:
    audits = load([Path(__file__).parents[2] / "results"]).kind("audit")
    cards = [Card.from_record(audit.content) for audit in audits if audit.origin.parent.name == "zoo"]
    assert {card.module for card in cards} == {entry.name for entry in zoo_entries()}
    # An expander over node numbers is what Exphormer is: other numbers, another graph.
    broken = {card.module: [finding.name for finding in card.broken] for card in cards if card.broken}
    assert broken == {"zoo.exphormer": ["permutation", "unsorted_index"]}


@pytest.mark.parametrize(("name", "counts"), [("cross-attn", False), ("lse", True), ("gmt", True), ("isab", False)])
def test_modules_of_the_zoo_count_or_not_as_their_formulas_say(name: str, counts: bool) -> None:
    (entry,) = zoo_entries([name])
    finding = measure("replication", adapt(build(entry), entry.kind, CHANNELS), 0, 4)
    assert bool(finding.details.get("counts", False)) is counts
