"""How far influence reaches: a local layer one hop, a chain of them as many, a memory the whole path."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, MeanAggregation

from mooring import SlotVirtualNode
from mooring.audit import Finding, adapt, measure
from mooring.nn import VirtualNode

CHANNELS = 5


class Chain(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GCNConv(CHANNELS, CHANNELS) for _ in range(layers))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, edge_index)
        return x


def influence(module: nn.Module) -> Finding:
    torch.manual_seed(0)
    return measure("influence", adapt(module, channels=CHANNELS), 0, 1)


@pytest.mark.parametrize("layers", [1, 3])
def test_local_layers_reach_as_many_hops(layers: int) -> None:
    finding = influence(Chain(layers))
    assert finding.details["farthest"] == layers
    assert finding.verdict.endswith(f"{layers} of 12 at most")
    # Of a path's inner node and its two neighbours: at most two thirds of a hop for one layer.
    assert finding.value is not None
    assert 0.2 * layers < finding.value < layers


def test_one_pass_through_a_memory_reaches_the_other_end() -> None:
    for memory in (SlotVirtualNode(CHANNELS, slots=3, heads=1, init_std=1.0), VirtualNode(CHANNELS, scale=5.0)):
        finding = influence(memory)
        assert finding.details["farthest"] == 12
        share = finding.details["share_by_hop"]
        assert sum(share[2:]) > share[1]  # a local layer has nothing beyond its neighbours


def test_a_mean_reaches_every_node_alike() -> None:
    """The influence of a hop is that of its nodes, so R is the mean distance of two nodes of the path: 56 / 13 hops."""

    class Mean(nn.Module):
        def forward(self, x: Tensor, batch: Tensor) -> Tensor:
            return x.mean(dim=0, keepdim=True).expand_as(x)

    finding = influence(Mean())
    assert finding.value == pytest.approx((13**2 - 1) / (3 * 13), abs=1e-6)


def test_nothing_travels_and_nothing_returns() -> None:
    class Nodewise(nn.Module):
        def forward(self, x: Tensor, batch: Tensor) -> Tensor:
            return x.tanh()

    assert influence(Nodewise()).verdict == "nothing travels between nodes"
    assert influence(MeanAggregation()).value is None


def test_the_measurement_draws_nothing_and_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    module = VirtualNode(CHANNELS)
    state = torch.random.get_rng_state()
    measure("influence", adapt(module, channels=CHANNELS), 0, 1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert capsys.readouterr() == ("", "")
