"""Blindness to copies, counting, the number of messages, separability, and how far influence reaches."""

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, MeanAggregation

from audit.specimens import AllPairs, Broadcast, GatedBroadcast, NaiveMean, NodewiseOnly, Parity, Slots, SumReadout
from mooring import SlotVirtualNode
from mooring.audit import Finding, adapt, measure
from mooring.audit.expressiveness import NODES, count_probe, round_spectrum
from mooring.nn import VirtualNode


def find(measurement: str, module: nn.Module, channels: int, trials: int) -> Finding:
    return measure(measurement, adapt(module, channels=channels), 0, trials)


@pytest.mark.parametrize("module", [NaiveMean(), Broadcast(7), Slots(7, 3)])
def test_blind(module: nn.Module) -> None:
    finding = find("replication", module, 7, 6)
    assert finding.verdict.startswith("blind")
    assert finding.value is not None
    assert finding.value < 1e-12


@pytest.mark.parametrize("module", [SumReadout(), Broadcast(7, "sum")])
def test_counts(module: nn.Module) -> None:
    finding = find("replication", module, 7, 6)
    assert finding.details["counts"]
    assert finding.details["r2"] > 0.999
    assert finding.trials > 300


def test_seeing_copies_is_not_counting() -> None:
    finding = find("replication", Parity(), 7, 6)
    assert not finding.details["counts"]
    assert finding.verdict == "sees copies, but n is not recovered"


def samples(size: int, seed: int, store: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    count = torch.randint(1, 60, (size,), generator=generator).double()
    noise = torch.randn(size, 3, generator=generator, dtype=torch.float64)
    stored = {
        "linear": count,
        "log": count.log(),
        "power": -count.sqrt(),
        "bent": torch.tanh(count / 30),
        "absent": noise[:, 0].clone(),
    }[store]
    return torch.cat([stored.unsqueeze(1), 0.1 * noise], dim=1), count


@pytest.mark.parametrize("store", ["linear", "log", "power", "bent"])
def test_a_stored_count_is_found(store: str) -> None:
    result = count_probe(samples(300, 0, store), samples(89, 1, store))
    assert result.r2 > 0.98


def test_no_count_is_found_where_there_is_none() -> None:
    assert count_probe(samples(300, 0, "absent"), samples(89, 1, "absent")).r2 < 0.2


def test_rounding_noise_is_not_a_feature() -> None:
    features, count = samples(300, 0, "absent")
    features = torch.cat([features, 1.0 + 1e-15 * count.unsqueeze(1)], dim=1)
    other, other_count = samples(89, 1, "absent")
    other = torch.cat([other, 1.0 + 1e-15 * other_count.unsqueeze(1)], dim=1)
    assert count_probe((features, count), (other, other_count)).r2 < 0.2


@pytest.mark.parametrize(
    ("module", "messages"),
    [(NodewiseOnly(), 0), (Broadcast(5), 1), (GatedBroadcast(5), 1), (SumReadout(), 1), (AllPairs(), NODES)],
)
def test_messages(module: nn.Module, messages: int) -> None:
    assert find("addressability", module, 5, 2).value == messages


@pytest.mark.parametrize("slots", [2, 3, 7])
def test_m_slots_give_m_messages(slots: int) -> None:
    finding = find("addressability", Slots(5, slots), 5, 2)
    assert finding.value == slots
    assert finding.details["rank_together"] == 5 * slots
    assert len(finding.details["singular_values"]) == 5 * NODES


def test_cloned_slots_give_one_message() -> None:
    module = Slots(5, 3)
    with torch.no_grad():
        module.query[:] = module.query[0]
        module.address[:] = module.address[0]
    assert find("addressability", module, 5, 2).value == 1


def test_operations_without_a_batching_rule_are_measured_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Slots(5, 3)
    expected = find("addressability", module, 5, 1)
    grad = torch.autograd.grad

    def refuse(*args: object, **options: object) -> object:
        if options.pop("is_grads_batched", False):
            raise RuntimeError("no batching rule")
        return grad(*args, **options)

    monkeypatch.setattr(torch.autograd, "grad", refuse)
    assert find("addressability", module, 5, 1).value == expected.value


def test_additive_broadcast_is_separable() -> None:
    finding = find("separability", Broadcast(7), 7, 5)
    assert finding.details["separable"]


@pytest.mark.parametrize("module", [GatedBroadcast(7), Slots(7, 3)])
def test_gates_and_slots_are_not(module: nn.Module) -> None:
    finding = find("separability", module, 7, 5)
    assert not finding.details["separable"]
    assert finding.value is not None
    assert finding.value > 1e-3


@pytest.mark.parametrize(
    ("module", "verdict"), [(NodewiseOnly(), "nothing travels between nodes"), (SumReadout(), "a readout")]
)
def test_nothing_to_separate(module: nn.Module, verdict: str) -> None:
    finding = find("separability", module, 7, 3)
    assert finding.value is None
    assert finding.verdict.startswith(verdict)


def test_a_spectrum_says_nothing_beyond_its_digits() -> None:
    exact = torch.tensor([31.4159265358, 2.0, 1e-12], dtype=torch.float64)
    shaken = exact * (1 + 1e-14)
    assert round_spectrum(exact) == round_spectrum(shaken) == [31.4159265, 2.0, 0.0]
    assert round_spectrum(torch.zeros(2)) == [0.0, 0.0]


class Chain(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GCNConv(5, 5) for _ in range(layers))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, edge_index)
        return x


def influence(module: nn.Module) -> Finding:
    return find("influence", module, 5, 1)


@pytest.mark.parametrize("layers", [1, 3])
def test_local_layers_reach_as_many_hops(layers: int) -> None:
    torch.manual_seed(0)
    finding = influence(Chain(layers))
    assert finding.details["farthest"] == layers
    assert finding.verdict.endswith(f"{layers} of 12 at most")
    # Of a path's inner node and its two neighbours: at most two thirds of a hop for one layer.
    assert finding.value is not None
    assert 0.2 * layers < finding.value < layers


def test_one_pass_through_a_memory_reaches_the_other_end() -> None:
    torch.manual_seed(0)
    for memory in (SlotVirtualNode(5, slots=3, heads=1, init_std=1.0), VirtualNode(5, scale=5.0)):
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
    assert influence(NodewiseOnly()).verdict == "nothing travels between nodes"
    assert influence(MeanAggregation()).value is None


def test_the_measurement_draws_nothing_and_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    module = VirtualNode(5)
    state = torch.random.get_rng_state()
    influence(module)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert capsys.readouterr() == ("", "")
