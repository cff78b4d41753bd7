"""Cards: read, stored, asserted on."""

import io
import json

import pytest
from rich.console import Console

from audit.specimens import Crashes, IdentityAtFirst, SumReadout, WholeBatchMean, WithDropout
from mooring.audit import MEASUREMENTS, BrokenInvariantError, Card, audit


@pytest.fixture(scope="module")
def good() -> Card:
    return audit(SumReadout(), channels=5, trials=3)


@pytest.fixture(scope="module")
def leaky() -> Card:
    return audit(WholeBatchMean(), channels=5, trials=3)


def test_a_card_holds_every_measurement_in_order(good: Card) -> None:
    assert [finding.name for finding in good.findings] == list(MEASUREMENTS)
    assert good.counts
    assert good.messages == 1
    good.raise_for_broken()


def test_the_same_seed_gives_the_same_card(good: Card) -> None:
    assert audit(SumReadout(), channels=5, trials=3).to_record() == good.to_record()


def test_records_are_strict_json_and_come_back(leaky: Card) -> None:
    record = leaky.to_record()
    assert (record["schema"], record["kind"], record["module"]) == (1, "audit", "WholeBatchMean")
    assert Card.from_record(json.loads(json.dumps(record, allow_nan=False))).to_record() == record
    with pytest.raises(ValueError, match=r"kind 'audit', schema 1; got kind 'run'"):
        Card.from_record({**record, "kind": "run"})


def test_broken_invariants_are_named(leaky: Card) -> None:
    with pytest.raises(BrokenInvariantError, match=r"WholeBatchMean breaks .*\n  batch_mates: depends on the graphs"):
        leaky.raise_for_broken()


def test_render(leaky: Card) -> None:
    for width in (60, 100):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(leaky.render())
        text = console.export_text()
        assert "WholeBatchMean" in text
        assert "virtual node · 5 channels" in text
        assert "…" not in text
        assert "broken: batch_mates" in text


def test_a_missing_finding_is_named(good: Card) -> None:
    with pytest.raises(KeyError, match=r"no finding 'speed'; it has replication, addressability"):
        good["speed"]


def test_a_crash_in_one_measurement_is_recorded_and_the_rest_goes_on() -> None:
    card = audit(Crashes(), channels=5, trials=2)
    assert len(card.findings) == len(MEASUREMENTS)
    assert card["addressability"].verdict == "raises: five nodes at most"
    assert card["addressability"].broken


def test_dropout_is_off() -> None:
    assert not audit(WithDropout(), channels=5, trials=2)["permutation"].broken


def test_zero_weights_are_woken_and_the_card_says_so() -> None:
    card = audit(IdentityAtFirst(5), channels=5, trials=2)
    assert card["addressability"].value == 1
    assert card.notes == ("zero weights given random values: lin.weight",)


def test_trials_are_checked() -> None:
    with pytest.raises(ValueError, match="trials is 0; expected at least 1"):
        audit(SumReadout(), trials=0)
