"""Competition of slots for nodes, and the linear path of counts."""

import torch
from torch import Tensor

from mooring.nn import SlotAggregation, SlotFiLM, SlotVirtualNode

CHANNELS, SLOTS, HEADS = 10, 3, 2


def memory_of(module: SlotVirtualNode, x: Tensor, **arguments: Tensor) -> tuple[Tensor, Tensor]:
    out, memory = module(x, return_state=True, **arguments)
    return out.detach(), memory.state.log_mass.detach().exp()


def competing(**options: object) -> SlotVirtualNode:
    torch.manual_seed(0)
    return SlotVirtualNode(CHANNELS, SLOTS, HEADS, init_std=0.5, competition=True, **options).double()


def test_a_node_hands_out_one_unit() -> None:
    module, x = competing(), torch.randn(7, CHANNELS, dtype=torch.float64)
    with torch.no_grad():
        module.write.null_logit.fill_(-100.0)
    torch.testing.assert_close(memory_of(module, x)[1].sum(1), torch.full((1, HEADS), 7.0, dtype=torch.float64))
    with torch.no_grad():
        module.write.null_logit.fill_(100.0)
    assert float(memory_of(module, x)[1].sum()) < 1e-6


def test_the_null_slot_learns() -> None:
    module = competing()
    module(torch.randn(7, CHANNELS, dtype=torch.float64)).sum().backward()
    assert float(module.write.null_logit.grad.abs().min()) > 0.0
    module.reset_parameters()
    assert not bool(module.write.null_logit.any())


def test_a_multiplicity_takes_no_part_in_the_competition() -> None:
    module, x = competing(), torch.randn(4, CHANNELS, dtype=torch.float64)
    copies = torch.tensor([1, 3, 2, 1])
    out, mass = memory_of(module, x, log_weight=copies.double().log())
    alike, mass_of_copies = memory_of(module, x.repeat_interleave(copies, dim=0))
    torch.testing.assert_close(mass, mass_of_copies)
    torch.testing.assert_close(out.repeat_interleave(copies, dim=0), alike)


def test_write_weights_sum_to_one_over_nodes() -> None:
    module, x = competing(), torch.randn(5, CHANNELS, dtype=torch.float64)
    weights = module(x, return_state=True)[1].write_weights
    torch.testing.assert_close(weights.sum(0), torch.ones(SLOTS, HEADS, dtype=torch.float64))


def test_write_weights_of_an_aggregation_sum_to_one_over_elements() -> None:
    aggr, x = SlotAggregation(CHANNELS, SLOTS, HEADS, competition=True), torch.randn(5, CHANNELS)
    _, memory = aggr(x, return_state=True)
    scores = torch.einsum("mhd,nhd->nmh", *[side.expand(-1, HEADS, -1) for side in aggr.write.score_parts(x, None)])
    shares = torch.cat([scores, aggr.write.null_logit.expand(5, 1, -1)], dim=1).softmax(1)[:, :-1]
    torch.testing.assert_close(memory.write_weights, shares / shares.sum(0))


def test_a_readout_of_competing_slots_counts_kinds() -> None:
    """Two kinds of element, two slots, sharp routing: the mass of a slot is the count of its kind."""
    aggr = SlotAggregation(2, slots=2, heads=1, temperature=1e-2, competition=True).double()
    with torch.no_grad():
        aggr.write.slot.copy_(torch.eye(2))
        for lin in (aggr.write.lin_query, aggr.write.lin_key):
            lin.weight.copy_(torch.eye(2))
    x = torch.eye(2, dtype=torch.float64)[torch.tensor([0, 0, 0, 1])]
    torch.testing.assert_close(aggr.write(x).log_mass.exp().flatten(), torch.tensor([3.0, 1.0], dtype=torch.float64))


def test_the_linear_path_is_added_to_the_modulation() -> None:
    film = SlotFiLM(CHANNELS, 4, linear=True, init_std=0.5)
    x, context, memory = torch.randn(5, CHANNELS), torch.randn(5, 4), torch.randn(1, SLOTS, CHANNELS)
    both, path = film(x, context, memory), context @ film.lin_linear.weight.t()
    film.lin_linear = None
    torch.testing.assert_close(both, film(x, context, memory) + path)


def test_the_linear_path_is_not_bounded() -> None:
    x, memory = torch.randn(5, CHANNELS), torch.randn(1, SLOTS, CHANNELS)
    moved = {
        linear: (SlotFiLM(CHANNELS, 4, linear=linear, init_std=0.5)(x, torch.full((5, 4), 1e4), memory) - x)
        .detach()
        .abs()
        .max()
        for linear in (True, False)
    }
    assert float(moved[True]) > 100.0 > float(moved[False])
