"""PyG builds a SlotAggregation by name, whichever of the two is imported first."""

import subprocess
import sys

import pytest
import torch
import torch_geometric.nn.aggr as home
from torch_geometric.nn import GraphSAGE
from torch_geometric.nn.aggr import MultiAggregation
from torch_geometric.nn.resolver import aggregation_resolver

from mooring import resolver
from mooring.nn import SlotAggregation

CHANNELS, OPTIONS = 12, {"channels": 12, "slots": 3}
EDGES = torch.tensor([[0, 1, 2, 4, 5], [1, 2, 0, 5, 6]])

MOORING_FIRST = """
import sys
import mooring
assert "torch_geometric" not in sys.modules
from torch_geometric.nn.resolver import aggregation_resolver
assert "mooring.nn" not in sys.modules, "what nobody asked for"
print(aggregation_resolver("slot", 8, slots=2))
assert not any("mooring" in type(finder).__module__ for finder in sys.meta_path), "nothing is left behind"
"""


def test_mooring_first() -> None:
    done = subprocess.run([sys.executable, "-c", MOORING_FIRST], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "SlotAggregation(8, slots=2, heads=4, anchored=True)", done.stderr


def test_pyg_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(home, "SlotAggregation")
    with pytest.raises(ValueError, match="Could not resolve 'slot'"):
        aggregation_resolver("slot", **OPTIONS)
    resolver.register()
    assert type(aggregation_resolver("slot", **OPTIONS)) is SlotAggregation


@pytest.mark.parametrize("name", ["slot", "Slot", "SlotAggregation", "slot_aggregation"])
def test_every_way_that_pyg_writes_a_name(name: str) -> None:
    assert type(aggregation_resolver(name, **OPTIONS)) is SlotAggregation


def test_each_layer_has_its_own() -> None:
    net = GraphSAGE(CHANNELS, CHANNELS, num_layers=3, aggr="slot", aggr_kwargs=OPTIONS)
    aggregations = [conv.aggr_module for conv in net.convs]
    assert [type(one) for one in aggregations] == [SlotAggregation] * 3
    assert len({id(parameter) for one in aggregations for parameter in one.parameters()}) == 3 * len(
        list(aggregations[0].parameters())
    )
    net(torch.randn(7, CHANNELS), EDGES).square().sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_beside_other_names() -> None:
    multi = MultiAggregation(["slot", "mean"], aggrs_kwargs=[OPTIONS, {}])
    assert multi(torch.randn(7, CHANNELS)).shape == (1, 2 * CHANNELS)
