"""Controlled addressing: dynamic content is never an address."""

import pytest
import torch

from mooring.nn import Addresses, SlotMemory, SlotVirtualNode
from mooring.nn.addresses import AddressNorm, SelfAddresses
from support import Ragged, assert_close

from modules import ADDRESS, CHANNELS, HEADS, SLOTS, slots  # isort: skip

BATCH = Ragged((5, 0, 7), False, seed=1)


def memory_of(x: torch.Tensor, address: torch.Tensor | None) -> SlotMemory:
    torch.manual_seed(0)
    module = slots(address_channels=None if address is None else ADDRESS).double()
    _, memory = module(x, BATCH.index(), address=address, return_state=True)
    return memory


def test_new_content_leaves_the_routing_alone() -> None:
    address = BATCH.randn(BATCH.num_nodes, ADDRESS, salt=1)
    one, other = (memory_of(BATCH.randn(BATCH.num_nodes, CHANNELS, salt=salt), address) for salt in (2, 3))
    for name in ("write_weights", "read_weights", "anchor_weight"):
        assert torch.equal(getattr(one, name), getattr(other, name))
    assert torch.equal(one.state.log_mass, other.state.log_mass)
    assert not torch.allclose(one.slots, other.slots)


def test_without_addresses_content_does_the_routing() -> None:
    """The control."""
    one, other = (memory_of(BATCH.randn(BATCH.num_nodes, CHANNELS, salt=salt), None) for salt in (2, 3))
    assert not torch.allclose(one.write_weights, other.write_weights)  # type: ignore[arg-type]
    assert not torch.allclose(one.read_weights, other.read_weights)  # type: ignore[arg-type]


def test_a_self_addressed_node_is_routed_by_its_standardised_state() -> None:
    """Scores of one head equal those with ``address=layer_norm(x)``."""
    module = SlotVirtualNode(CHANNELS, SLOTS, heads=1, init_std=0.5).double()
    addressed = SlotVirtualNode(
        CHANNELS, SLOTS, heads=1, init_std=0.5, address_channels=CHANNELS, temperature=0.25
    ).double()
    addressed.load_state_dict(module.state_dict())
    x = 3.0 + 7.0 * BATCH.randn(BATCH.num_nodes, CHANNELS)
    address = (x - x.mean(dim=1, keepdim=True)) / x.var(dim=1, correction=0, keepdim=True).add(1e-5).sqrt()
    assert_close(module(x, BATCH.index()), addressed(x, BATCH.index(), address=address))


def test_a_self_addressed_node_reads_where_it_writes() -> None:
    """The read weights of a node are its normalised write weights."""
    torch.manual_seed(0)
    for routing, same in (("self", True), ("free", False)):
        module = slots(routing=routing).double()
        _, memory = module(BATCH.randn(BATCH.num_nodes, CHANNELS), BATCH.index(), return_state=True)
        wrote = memory.write_weights * memory.state.log_mass.exp()[BATCH.index()]
        assert torch.allclose(wrote / wrote.sum(dim=1, keepdim=True), memory.read_weights) is same


def test_what_all_states_share_does_not_route_with_a_norm_over_the_batch() -> None:
    """Message passing adds much the same to all nodes of a graph; they then read the same few slots."""

    def slots_in_use(norm: AddressNorm) -> float:
        torch.manual_seed(0)
        addresses = SelfAddresses(61, slots=23, heads=1, dim=61, norm=norm)
        slot, node = addresses.routes(torch.randn(53, 61) + 3.0 * torch.randn(61))[:2]
        usage = torch.einsum("na,mha->nmh", node.squeeze(1), slot).detach().softmax(dim=1).mean(dim=0)
        return float(torch.special.entr(usage).sum().exp())

    assert slots_in_use("batch") > 2.0 * slots_in_use("layer")


def test_statistics_of_addresses_are_those_of_the_nodes_that_take_part() -> None:
    torch.manual_seed(0)
    module = slots(address_norm="batch").double()
    nodes, index = BATCH.num_nodes, BATCH.index()
    x, sources, targets = BATCH.randn(nodes, CHANNELS), BATCH.mask(salt=4), BATCH.mask(salt=5)
    absent = ~sources & ~targets
    assert bool(absent.any())
    changed = torch.where(absent[:, None], 1e3, x)
    one, other = (module(each, index, sources=sources, targets=targets) for each in (x, changed))
    assert_close(one[~absent], other[~absent])
    norm = module.write.addresses.norm  # type: ignore[union-attr]
    expected = x[~absent].mean(dim=0) * (1 - 0.9**2)  # the running mean after two passes
    assert_close(norm.mean, expected)


def test_in_evaluation_no_address_depends_on_the_batch() -> None:
    torch.manual_seed(0)
    module = slots(address_norm="batch").double()
    x, index = BATCH.randn(BATCH.num_nodes, CHANNELS), BATCH.index()
    assert not torch.allclose(module(x, index)[index == 0], module(x[index == 0]))
    module.eval()
    assert_close(module(x, index)[index == 0], module(x[index == 0]))


def test_heads_of_self_addressed_slots_have_temperatures_from_sharp_to_soft() -> None:
    torch.manual_seed(0)
    addresses = SelfAddresses(97, slots=101, heads=4, dim=31, temperature=0.5)
    slot, node = addresses.routes(torch.randn(53, 97))[:2]
    deviations = torch.einsum("na,mha->nmh", node.squeeze(1), slot).detach().std(dim=(0, 1))
    assert deviations.tolist() == pytest.approx([2.0, 1.0, 0.5, 0.25], rel=0.1)
    assert addresses.sharpness.flatten().tolist() == [1.0, 0.5, 0.25, 0.125]
    assert "sharpness" not in dict(addresses.state_dict())
    assert SelfAddresses(97, slots=3, heads=1, dim=4).sharpness.tolist() == [[1.0]]


def test_temperatures_are_set_again_after_a_build_without_memory() -> None:
    with torch.device("meta"):
        module = slots()
    module = module.to_empty(device="cpu")
    for tensor in (*module.parameters(), *module.buffers()):
        torch.nn.init.constant_(tensor, 7.0)
    module.reset_parameters()
    assert module.write.addresses.sharpness.tolist() == slots().write.addresses.sharpness.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"routing": "own"}, r"routing is 'own' but 'given', 'self', 'free' or None was expected"),
        ({"routing": "given"}, r"routing='given' needs the width of the addresses\. Pass address_channels"),
        ({"routing": "self", "address_channels": 3}, r"address_channels=3 has no effect with routing='self'"),
        ({"routing": "free", "address_channels": 3}, r"address_channels=3 has no effect with routing='free'"),
        ({"routing": "free", "address_norm": "batch"}, r"address_norm='batch' has no effect with routing='free'"),
        ({"address_channels": 3, "address_norm": "batch"}, r"address_norm='batch' has no effect with routing='given'"),
    ],
)
def test_a_routing_that_cannot_be_is_refused(options: dict[str, object], message: str, as_users_run_it: None) -> None:
    with pytest.raises(ValueError, match=f"^SlotVirtualNode: {message}"):
        slots(**options)


def test_a_new_address_moves_the_routing() -> None:
    x = BATCH.randn(BATCH.num_nodes, CHANNELS, salt=2)
    one, other = (memory_of(x, BATCH.randn(BATCH.num_nodes, ADDRESS, salt=salt)) for salt in (3, 4))
    assert not torch.allclose(one.read_weights, other.read_weights)  # type: ignore[arg-type]


def test_writes_and_reads_share_one_projection() -> None:
    module = slots(address_channels=ADDRESS)
    assert module.read is not None
    assert module.read.by_address
    names = [name for name, _ in module.named_parameters() if "addresses" in name]
    assert names == ["write.addresses.slot", "write.addresses.weight"]


def test_scores_are_scaled_dot_products() -> None:
    addresses = Addresses(ADDRESS, SLOTS, HEADS, dim=5, temperature=0.5).double()
    raw = torch.randn(11, ADDRESS).double()
    projected = torch.einsum("na,hda->nhd", raw, addresses.weight)
    scores = torch.einsum("nhd,mhd->nmh", projected, addresses.slot) / (0.5 * 5**0.5)
    assert_close(torch.einsum("na,mha->nmh", raw, addresses.table()), scores)
    assert repr(addresses) == "Addresses(7, slots=3, heads=2, dim=5, temperature=0.5)"


def test_scores_of_unit_addresses_start_at_the_scale_of_dot_products() -> None:
    # A projected address of unit coordinates has unit variance, so scores have variance one before the temperature.
    torch.manual_seed(0)
    addresses = Addresses(97, slots=101, heads=3, dim=31)
    assert float(addresses.weight.detach().std()) == pytest.approx(97**-0.5, rel=0.05)
    assert float(addresses.slot.detach().std()) == pytest.approx(1.0, rel=0.05)
    scores = torch.einsum("na,mha->nmh", torch.randn(53, 97), addresses.table())
    assert float(scores.detach().std()) == pytest.approx(1.0, rel=0.1)
