"""One memory for all node types."""

import pytest
import torch
from torch import Tensor

from mooring.nn import HeteroSlotVirtualNode, SlotVirtualNode
from support import Ragged, assert_close

CHANNELS, SLOTS = 12, 5
USERS, ITEMS = Ragged((3, 0, 5), False, seed=1), Ragged((2, 0, 7), True, seed=2)


def batch() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    x = {"user": USERS.randn(USERS.num_nodes, CHANNELS), "item": ITEMS.randn(ITEMS.num_nodes, CHANNELS)}
    return x, {"user": USERS.index(), "item": ITEMS.index()}


def homogeneous(module: HeteroSlotVirtualNode, width: int) -> SlotVirtualNode:
    """The same parameters in the module for one node type."""
    part = module.parts[0]
    one = SlotVirtualNode(width, SLOTS, heads=2, anchored=module.anchored).double()
    for mine, other in ((one.write, part.write), (one.read, part.read), (one.integrate, part.integrate)):
        mine.load_state_dict(other.state_dict())  # type: ignore[union-attr]
    one.update.load_state_dict(module.update.state_dict())
    return one


@pytest.mark.parametrize("anchored", [True, False])
def test_shared_projections_equal_one_type_with_all_nodes(anchored: bool) -> None:
    module = HeteroSlotVirtualNode(CHANNELS, SLOTS, heads=2, anchored=anchored, init_std=0.5).double()
    x, index = batch()
    masks = {"sources": {"user": USERS.mask()}, "targets": {"item": ITEMS.mask()}}
    out, memory = module(x, index, num_graphs=4, return_state=True, **masks)
    both = torch.cat([x["user"], x["item"]])
    expected, inside = homogeneous(module, CHANNELS)(
        both,
        torch.cat([index["user"], index["item"]]),
        sources=torch.cat([USERS.mask(), torch.ones(ITEMS.num_nodes, dtype=torch.bool)]),
        targets=torch.cat([torch.ones(USERS.num_nodes, dtype=torch.bool), ITEMS.mask()]),
        num_graphs=4,
        return_state=True,
    )
    assert_close(torch.cat([out["user"], out["item"]]), expected)
    assert_close(memory.slots, inside.slots)
    assert_close(memory.state.log_mass, inside.state.log_mass)
    assert_close(memory.write_weights, inside.write_weights)
    assert_close(memory.read_weights, inside.read_weights)


def test_every_type_has_projections_of_its_own_and_the_slots_are_shared() -> None:
    module = HeteroSlotVirtualNode({"user": 8, "item": CHANNELS}, SLOTS, heads=2, init_std=0.5).double()
    x = {"user": USERS.randn(USERS.num_nodes, 8), "item": ITEMS.randn(ITEMS.num_nodes, CHANNELS)}
    out = module(x, batch()[1])
    sum(one.sum() for one in out.values()).backward()  # type: ignore[union-attr]
    assert {name: one.shape for name, one in out.items()} == {name: one.shape for name, one in x.items()}
    user, item = module.parts
    assert user.write.slot is item.write.slot  # type: ignore[union-attr]
    assert user.write.lin_key is not item.write.lin_key  # type: ignore[union-attr]
    for name, parameter in module.named_parameters():
        # An anchor's value is read where nothing was written, and in such a graph nobody is there to read it.
        assert name == "update.anchor_value" or (parameter.grad is not None and bool(parameter.grad.any())), name


def test_what_one_type_writes_the_other_reads() -> None:
    module = HeteroSlotVirtualNode({"user": CHANNELS, "item": CHANNELS}, SLOTS, heads=2, init_std=0.5).double()
    x, index = batch()
    out = module(x, index)
    more = module({**x, "item": x["item"] + 1.0}, index)
    assert not torch.allclose(out["user"], more["user"])
    alone = module({"user": x["user"]}, {"user": index["user"]}, num_graphs=3)
    nobody = module({"user": x["user"], "item": x["item"][:0]}, {"user": index["user"], "item": index["item"][:0]})
    assert_close(nobody["user"], alone["user"])


def test_it_can_be_carried_and_reset() -> None:
    module = HeteroSlotVirtualNode(CHANNELS, SLOTS, heads=2, init_std=0.5).double()
    x, index = batch()
    out, memory = module(x, index, return_state=True)
    assert not torch.allclose(module(x, index, memory=memory)["user"], out["user"])
    before = [parameter.clone() for parameter in module.parameters()]
    module.reset_parameters()
    assert any(not torch.equal(one, other) for one, other in zip(before, module.parameters(), strict=True))


@pytest.mark.parametrize(
    ("x", "index", "words"),
    [
        ({}, {}, "x_dict has no node type"),
        ({"shop": torch.zeros(2, 8).double()}, {}, "x_dict has 'shop' but the module was built for 'user', 'item'"),
        ({"user": torch.zeros(2, 9).double()}, {}, "x has width 9 but channels=8"),
        ({"user": torch.zeros(2, 8).double()}, {"item": torch.zeros(2).long()}, "batch_dict has 'item' but x_dict"),
    ],
)
def test_messages(x: dict[str, Tensor], index: dict[str, Tensor], words: str) -> None:
    module = HeteroSlotVirtualNode({"user": 8, "item": CHANNELS}, SLOTS, heads=2).double()
    with pytest.raises(ValueError, match="HeteroSlotVirtualNode") as caught:
        module(x, index)
    assert words in str(caught.value)
