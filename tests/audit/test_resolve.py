"""Modules built from their names."""

import pytest
from torch_geometric.nn import GPSConv, SGConv, SumAggregation, global_add_pool

from mooring.audit import parse_arguments, resolve


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
    module = resolve("mooring.zoo.baselines:anchored", 12, {"slots": 5, "heads": 3})
    assert repr(module) == "SlotVirtualNode(12, slots=5, heads=3, anchored=True)"
    with pytest.raises(ValueError, match="takes a MemorySpec, which has no field 'slot'; did you mean 'slots'"):
        resolve("mooring.zoo.baselines:anchored", 12, {"slot": 5})


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
