"""Cards: made, stored, asserted on; modules given by name."""

import json
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.nn import GPSConv, SGConv, SumAggregation, global_add_pool

from audit.specimens import Crashes, IdentityAtFirst, SumReadout, WholeBatchMean, WithDropout
from mooring.audit import MEASUREMENTS, BrokenInvariantError, Card, adapt, audit, measure, parse_arguments, resolve
from mooring.audit.runner import randomise_zero_weights
from mooring.nn import SlotVirtualNode, VirtualNode


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


def test_the_same_seed_gives_the_same_card() -> None:
    # Both here: with another number of threads, which a test in between may set, sums round differently.
    first, second = (audit(SumReadout(), channels=5, trials=3).to_record() for _ in range(2))
    assert first == second


def test_records_are_strict_json_and_come_back(leaky: Card) -> None:
    record = leaky.to_record()
    assert (record["schema"], record["kind"], record["module"]) == (1, "audit", "WholeBatchMean")
    assert Card.from_record(json.loads(json.dumps(record, allow_nan=False))).to_record() == record
    with pytest.raises(ValueError, match=r"kind 'audit', schema 1; got kind 'run'"):
        Card.from_record({**record, "kind": "run"})


def test_broken_invariants_are_named(leaky: Card) -> None:
    with pytest.raises(BrokenInvariantError, match=r"WholeBatchMean breaks .*\n  batch_mates: depends on the graphs"):
        leaky.raise_for_broken()


def test_a_card_is_plain_text_of_any_width(leaky: Card) -> None:
    for width in (60, 100):
        text = leaky.render(width)
        assert "WholeBatchMean · virtual node · 5 channels" in text
        assert "broken: batch_mates" in text
        assert max(map(len, text.splitlines())) <= width
    assert "batch mates      depends on the graphs beside it" in leaky.render()


def test_broken_findings_stand_out(leaky: Card, good: Card) -> None:
    marked = {leaky.findings[row].name for row, _ in leaky.to_table().alarms}
    assert marked == {finding.name for finding in leaky.broken} >= {"batch_mates"}
    assert not good.to_table().alarms
    assert "no broken invariant" in good.render()


WITHOUT_THE_SUITE = """
import sys
sys.modules.update(dict.fromkeys(("rich", "typer", "lightning", "matplotlib", "filelock", "safetensors"), None))
from torch_geometric.nn import SumAggregation
from mooring.audit import audit
print(audit(SumAggregation(), channels=5, trials=1).render())
"""


def test_an_audit_needs_none_of_the_suite() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_THE_SUITE], capture_output=True, text=True, check=True)
    assert "counts: n recovered" in done.stdout


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


@pytest.mark.parametrize("module", [SlotVirtualNode(8, 2, 2), VirtualNode(8, copies=3)])
def test_what_is_added_is_measured_as_it_is(module: nn.Module) -> None:
    assert randomise_zero_weights(adapt(module, channels=8)) == []


def test_zero_weights_are_randomised_and_the_card_says_so() -> None:
    card = audit(IdentityAtFirst(5), channels=5, trials=2)
    assert card["addressability"].value == 1
    assert card.notes == ("zero weights given random values: lin.weight",)


@pytest.mark.parametrize("integrate", ["residual", "film"])
def test_a_module_that_starts_as_the_identity_is_measured_behind_it(integrate: str) -> None:
    torch.manual_seed(0)
    module = SlotVirtualNode(8, slots=3, heads=2, competition=True, integrate=integrate, init_std=0.0)  # type: ignore[arg-type]
    adapter = adapt(module, channels=8)
    (note,) = randomise_zero_weights(adapter)
    assert "integrate." in note
    # What is added may well be zero.
    assert "null_logit" not in note
    assert "bias" not in note
    assert measure("addressability", adapter, 0, 2).value == 3
    assert not measure("replication", adapter, 0, 2).verdict.startswith("blind")


@pytest.mark.parametrize(
    ("module", "options", "words"),
    [
        (SumReadout(), {"trials": 0}, "audit: trials is 0 but at least 1 was expected"),
        (SumReadout(), {"trials": "3"}, "audit: trials is '3' but a whole number was expected"),
        (SumReadout(), {"channels": None}, "audit: channels is None but a whole number was expected"),
        (
            "anchord",
            {},
            r"audit: module is 'anchord' but a module .*zoo.build\('anchored', 16\)",
        ),
        (None, {"channels": 8}, r"audit: module is None but a module .*zoo.build\('anchored', 8\)"),
    ],
)
def test_what_is_audited_is_checked(module: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        audit(module, **options)


def test_classes_are_built_with_guessed_widths() -> None:
    assert isinstance(resolve("torch_geometric.nn:SumAggregation"), SumAggregation)
    conv = resolve("torch_geometric.nn:SGConv", 7)
    assert isinstance(conv, SGConv)
    assert (conv.in_channels, conv.out_channels) == (7, 7)


def test_functions_are_taken_as_they_are() -> None:
    assert resolve("torch_geometric.nn:global_add_pool") is global_add_pool
    with pytest.raises(ValueError, match="is not a class, so it takes no arguments; got heads"):
        resolve("torch_geometric.nn:global_add_pool", 7, {"heads": 2})


def test_a_module_can_be_handed_to_a_module() -> None:
    layer = resolve("torch_geometric.nn:GPSConv", 6, {"conv": "torch_geometric.nn:SGConv", "heads": 2})
    assert isinstance(layer, GPSConv)
    assert isinstance(layer.conv, SGConv)


def test_builders_of_the_zoo_are_given_a_spec() -> None:
    module = resolve("mooring.zoo.baselines:moored", 12, {"slots": 5, "heads": 3})
    options = "routing='free', integrate='linear_film', hidden_channels=12, mass_map='linear', competition=True"
    assert repr(module) == f"SlotVirtualNode(12, slots=5, heads=3, anchored=True, {options})"
    with pytest.raises(ValueError, match="takes a MemorySpec, which has no field 'slot'; did you mean 'slots'"):
        resolve("mooring.zoo.baselines:moored", 12, {"slot": 5})


@pytest.mark.parametrize(
    ("target", "kwargs", "message"),
    [
        ("torch_geometric.nn", {}, r"is not of the form package.module:Name"),
        ("no.such.package:Name", {}, r"cannot import 'no.such.package'"),
        ("torch_geometric.nn:SumAgregation", {}, r"has no 'SumAgregation'; did you mean 'SumAggregation'"),
        (
            "torch_geometric.nn:GraphMultisetTransformer",
            {},
            r"needs k. Pass --arg k=VALUE \(in Python: kwargs={'k': ...}\)",
        ),
        ("torch_geometric.nn:GPSConv", {"conv": None, "head": 4}, r"has no argument 'head'; did you mean 'heads'"),
        ("torch_geometric.nn:GPSConv", {"conv": None, "heads": 3}, r"could not be built: embed_dim must be divisible"),
    ],
)
def test_mistakes_are_explained(target: str, kwargs: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve(target, 16, kwargs)


def test_pairs_without_a_name_or_a_value_are_refused() -> None:
    for pair in ("heads", "=4", "2x=4"):
        with pytest.raises(ValueError, match="is not of the form name=value"):
            parse_arguments([pair])
