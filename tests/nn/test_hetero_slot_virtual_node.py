"""Virtual node with one memory for all node types."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from mooring import ops
from mooring.nn import HeteroSlotVirtualNode, SlotVirtualNode
from support import Ragged, assert_close

CHANNELS, SLOTS = 12, 5
USERS, ITEMS = Ragged((3, 0, 5), False, seed=1), Ragged((2, 0, 7), True, seed=2)


def batch() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    x = {"user": USERS.randn(USERS.num_nodes, CHANNELS), "item": ITEMS.randn(ITEMS.num_nodes, CHANNELS)}
    return x, {"user": USERS.index(), "item": ITEMS.index()}


def homogeneous(module: HeteroSlotVirtualNode, width: int) -> SlotVirtualNode:
    """Return a module for one node type with the same parameters."""
    part: Any = next(iter(module.parts.values()))
    competition = part.write.null_logit is not None
    twin = SlotVirtualNode(width, SLOTS, heads=2, anchored=module.anchored, competition=competition).double()
    for mine, other in ((twin.write, part.write), (twin.read, part.read), (twin.integrate, part.integrate)):
        mine.load_state_dict(other.state_dict())  # type: ignore[union-attr]
    twin.update.load_state_dict(module.update.state_dict())
    return twin


@pytest.mark.parametrize("competition", [True, False])
@pytest.mark.parametrize("anchored", [True, False])
def test_shared_projections_equal_one_type_with_all_nodes(anchored: bool, competition: bool) -> None:
    options = {"anchored": anchored, "competition": competition}
    module = HeteroSlotVirtualNode(CHANNELS, SLOTS, heads=2, init_std=0.5, **options).double()
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


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_log_weights_of_another_precision_give_the_same_inside(dtype: torch.dtype) -> None:
    module = HeteroSlotVirtualNode(CHANNELS, SLOTS, heads=2)
    x, index = batch()
    x, weight = {name: tensor.float() for name, tensor in x.items()}, USERS.randn(USERS.num_nodes, dtype=dtype)
    _, memory = module(x, index, log_weight={"user": weight}, return_state=True)
    _, expected = module(x, index, log_weight={"user": weight.float()}, return_state=True)
    assert memory.write_weights.dtype == torch.float32
    assert_close(memory.write_weights, expected.write_weights)


def test_a_type_may_have_a_plan() -> None:
    module = HeteroSlotVirtualNode(CHANNELS, SLOTS, heads=2, init_std=0.5).double()
    x, index = batch()
    plans = {name: ops.plan(ids, num_graphs=3) for name, ids in index.items()}
    expected = module(x, index, num_graphs=3)
    for arguments in ({"plan_dict": plans}, {"batch_dict": plans}):
        for name, out in module(x, **arguments).items():
            assert_close(out, expected[name])
    for name, out in module(x, {"user": index["user"]}, plan_dict={"item": plans["item"]}).items():
        assert_close(out, expected[name])
    with pytest.raises(ValueError, match="type 'user': got plan and batch"):
        module(x, index, plan_dict=plans)
    with pytest.raises(ValueError, match="'user' has 8 nodes and no batch but there are 3 graphs"):
        module(x, plan_dict={**plans, "user": ops.plan(num_nodes=8)})
    with pytest.raises(ValueError, match="plan_dict has 'shop' but x_dict has not"):
        module(x, plan_dict={"shop": plans["user"]})


@pytest.mark.parametrize("routing", ["self", "free"])
def test_every_type_has_separate_projections_and_the_slots_are_shared(routing: Any) -> None:
    widths = {"user": 8, "item": CHANNELS}
    module = HeteroSlotVirtualNode(widths, SLOTS, heads=2, routing=routing, init_std=0.5).double()
    x = {"user": USERS.randn(USERS.num_nodes, 8), "item": ITEMS.randn(ITEMS.num_nodes, CHANNELS)}
    out = module(x, batch()[1])
    sum(tensor.sum() for tensor in out.values()).backward()  # type: ignore[union-attr]
    assert {name: tensor.shape for name, tensor in out.items()} == {name: tensor.shape for name, tensor in x.items()}
    parts: Any = module.parts.values()
    user, item = (part.write if routing == "free" else part.write.addresses for part in parts)
    assert user.slot is item.slot
    key = "lin_key" if routing == "free" else "weight"
    assert getattr(user, key) is not getattr(item, key)
    for name, parameter in module.named_parameters():
        # An anchor's value is read where nothing was written, and in such a graph nobody is there to read it.
        assert name == "update.anchor_value" or (parameter.grad is not None and bool(parameter.grad.any())), name


def test_functional_call_leaves_tensors_in_place_of_shared_parameters() -> None:
    """A defect of PyTorch (pytorch#164759) that docs/compatibility.md warns of: take a copy of the module."""
    module = HeteroSlotVirtualNode({"user": CHANNELS, "item": CHANNELS}, SLOTS, heads=2, init_std=0.5).double()
    parameters = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    x, index = batch()
    expected = module(x, index)["user"]
    assert_close(torch.func.functional_call(module, parameters, (x, index))["user"], expected)
    assert not all(isinstance(parameter, torch.nn.Parameter) for parameter in module.parameters())


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


def test_ptr_and_plan_equal_ids() -> None:
    module = HeteroSlotVirtualNode(CHANNELS, SLOTS, heads=2, init_std=0.5).double()
    x, _ = batch()
    index = {"user": USERS.index().sort().values, "item": ITEMS.index()}
    expected = module(x, index)
    offsets = {"user": torch.tensor([0, 3, 3, 8]), "item": torch.tensor([0, 2, 2, 9])}
    ways = [
        ({}, {"ptr_dict": offsets}),
        ({"item": index["item"]}, {"ptr_dict": {"user": offsets["user"]}}),
        ({name: ops.plan(tensor) for name, tensor in index.items()}, {}),
        ({name: tensor.int() for name, tensor in index.items()}, {}),
    ]
    for ids, arguments in ways:
        out = module(x, ids, **arguments)
        for name in x:
            assert_close(out[name], expected[name])


def test_a_type_without_ids_is_refused_among_several_graphs() -> None:
    module = HeteroSlotVirtualNode(CHANNELS, SLOTS, heads=2, init_std=0.5).double()
    x, index = batch()
    with pytest.raises(ValueError, match="'user' has 8 nodes and no batch but there are 3 graphs"):
        module(x, {"item": index["item"]})
    with pytest.raises(ValueError, match="no batch but there are 3 graphs"):
        module(x, num_graphs=3)
    one = {"item": torch.zeros_like(index["item"])}
    assert_close(module(x, one)["user"], module(x, one | {"user": torch.zeros_like(index["user"])})["user"])


def test_a_type_may_be_called_anything() -> None:
    x = {"shared": torch.randn(3, 8), "user": torch.randn(4, 12)}
    module = HeteroSlotVirtualNode({"shared": 8, "user": 12}, SLOTS, heads=2)
    assert [out.shape for out in module(x).values()] == [(3, 8), (4, 12)]
    with pytest.raises(ValueError, match="x_dict has 'bogus' but the module was built for 'shared', 'user'"):
        module({"bogus": torch.randn(3, 8)})
    with pytest.raises(ValueError, match="x of 'user' has width 8 but channels=12"):
        module({"user": torch.randn(3, 8)})


def test_nodes_left_out_have_no_influence_whatever_they_hold() -> None:
    module = HeteroSlotVirtualNode({"user": CHANNELS, "item": 8}, SLOTS, heads=2, init_std=0.5).double()
    sources = USERS.mask()
    all_grads = []
    for junk in (float("nan"), float("inf"), 7.0):
        user = USERS.randn(USERS.num_nodes, CHANNELS).masked_fill(~sources.unsqueeze(1), junk).requires_grad_()
        x = {"user": user, "item": ITEMS.randn(ITEMS.num_nodes, 8)}
        targets = {"user": sources}
        out = module(x, batch()[1], sources={"user": sources}, targets=targets)
        assert torch.equal(out["user"][~sources].nan_to_num(9.0), user.detach()[~sources].nan_to_num(9.0))
        loss = out["user"][sources].square().sum() + out["item"].square().sum()
        all_grads.append(torch.autograd.grad(loss, [user, *module.parameters()], allow_unused=True))
    for others in all_grads[1:]:
        for one, other in zip(all_grads[0], others, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert_close(one, other)


def test_a_node_that_neither_writes_nor_is_sound_does_not_read() -> None:
    module = HeteroSlotVirtualNode(CHANNELS, SLOTS, heads=2, init_std=0.5).double()
    x, index = batch()
    x["user"][2] = float("nan")
    sources = {"user": x["user"].isfinite().all(dim=1)}
    out, inside = module(x, index, sources=sources, return_state=True)
    assert bool(out["user"][2].isnan().all())
    assert bool(out["item"].isfinite().all())
    assert not bool(inside.read_weights[2].any())
    out["item"].sum().backward()
    assert all(parameter.grad is None or bool(parameter.grad.isfinite().all()) for parameter in module.parameters())


def test_dropout_is_off_in_eval_and_drops_writes_in_training() -> None:
    module = HeteroSlotVirtualNode(CHANNELS, SLOTS, heads=2, init_std=0.5, dropout=0.5).double()
    plain = HeteroSlotVirtualNode(CHANNELS, SLOTS, heads=2, init_std=0.5).double()
    plain.load_state_dict(module.state_dict())
    x, index = batch()
    expected = plain(x, index)["user"]
    assert_close(module.eval()(x, index)["user"], expected)
    out, inside = module.train()(x, index, return_state=True)
    assert not torch.allclose(out["user"], expected)
    assert 0.3 < float((inside.write_weights == 0).double().mean()) < 0.7


def test_slots_alone_are_enough_to_carry() -> None:
    module = HeteroSlotVirtualNode(CHANNELS, SLOTS, heads=2, init_std=0.5).double()
    x, index = batch()
    _, whole = module(x, index, return_state=True)
    _, slots = module(x, index, return_state="slots")
    assert slots.write_weights is None
    assert_close(module(x, index, memory=slots)["item"], module(x, index, memory=whole)["item"])


GIVEN = {"user": torch.zeros(2, 8).double()}
WRONG: list[tuple[dict[str, object], type[Exception], str]] = [
    ({"sources": {"item": torch.ones(2).bool()}}, ValueError, "sources has 'item' but x_dict has not"),
    ({"sources": {"user": torch.ones(3).bool()}}, ValueError, "type 'user': sources has shape (3,) but x has 2 nodes"),
    ({"targets": {"user": torch.ones(2)}}, TypeError, "type 'user': targets has dtype float32"),
    ({"log_weight": {"user": torch.zeros(2, 5)}}, ValueError, "type 'user': log_weight has shape (2, 5)"),
    ({"log_weight": {"user": torch.full((2,), float("nan"))}}, ValueError, "log_weight is nan at node 0"),
    ({"batch_dict": torch.zeros(2).long()}, TypeError, "batch_dict is a torch.Tensor but a dictionary by node type"),
    ({"memory": torch.zeros(1, SLOTS, CHANNELS)}, TypeError, "memory is a torch.Tensor but a SlotMemory"),
    ({"ptr_dict": {"user": torch.tensor([0, 1, 2])}, "num_graphs": 1}, ValueError, "num_graphs is 1 but 'user' has 2"),
]


@pytest.mark.parametrize(("wrong", "error", "words"), WRONG, ids=[words for *_, words in WRONG])
@pytest.mark.usefixtures("as_users_run_it")
def test_messages_of_what_comes_with_the_features(wrong: dict[str, object], error: type[Exception], words: str) -> None:
    module = HeteroSlotVirtualNode({"user": 8, "item": CHANNELS}, SLOTS, heads=2).double()
    with pytest.raises(error, match="HeteroSlotVirtualNode") as caught:
        module(GIVEN, **wrong)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("x", "index", "words"),
    [
        ({}, {}, "x_dict has no node type"),
        ({"shop": torch.zeros(2, 8).double()}, {}, "x_dict has 'shop' but the module was built for 'user', 'item'"),
        ({"user": torch.zeros(2, 9).double()}, {}, "x of 'user' has width 9 but channels=8"),
        ({"user": torch.zeros(2, 8).double()}, {"item": torch.zeros(2).long()}, "batch_dict has 'item' but x_dict"),
    ],
)
def test_messages(x: dict[str, Tensor], index: dict[str, Tensor], words: str) -> None:
    module = HeteroSlotVirtualNode({"user": 8, "item": CHANNELS}, SLOTS, heads=2).double()
    with pytest.raises(ValueError, match="HeteroSlotVirtualNode") as caught:
        module(x, index)
    assert words in str(caught.value)


def test_weights_find_their_type_in_any_order() -> None:
    one = HeteroSlotVirtualNode({"user": CHANNELS, "item": CHANNELS}, SLOTS, heads=2, init_std=0.5).double()
    other = HeteroSlotVirtualNode({"item": CHANNELS, "user": CHANNELS}, SLOTS, heads=2, init_std=0.5).double()
    other.load_state_dict(one.state_dict())
    x, index = batch()
    for name, out in one(x, index).items():
        assert_close(other(x, index)[name], out)
    third = HeteroSlotVirtualNode({"user": CHANNELS, "author": CHANNELS}, SLOTS, heads=2).double()
    with pytest.raises(RuntimeError, match=r"parts\.author"):
        third.load_state_dict(one.state_dict())


def test_types_with_the_same_module_name_raise() -> None:
    with pytest.raises(ValueError, match=r"two of the node types 'a\.b', 'a#b' map to the same module name"):
        HeteroSlotVirtualNode({"a.b": 8, "a#b": 8}, SLOTS)


class Unit(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return nn.functional.normalize(weight, dim=-1)


@pytest.mark.parametrize("routing", ["self", "free"])
@pytest.mark.parametrize("competition", [True, False])
def test_a_parametrised_slot_serves_all_types(competition: bool, routing: str) -> None:
    options: dict[str, Any] = {"heads": 2, "init_std": 0.5, "competition": competition, "routing": routing}
    module = HeteroSlotVirtualNode({"user": CHANNELS, "item": CHANNELS}, SLOTS, **options).double()
    plain = copy.deepcopy(module)
    holders: list[Any] = [part.write for part in (module.parts["user"], plain.parts["user"])]  # type: ignore[union-attr]
    holder, other = (write if routing == "free" else write.addresses for write in holders)
    parametrize.register_parametrization(holder, "slot", Unit())
    with torch.no_grad():
        other.slot.copy_(nn.functional.normalize(other.slot, dim=-1))
    x, index = batch()
    for name, out in module(x, index).items():
        assert_close(out, plain(x, index)[name])
    assert len(list(module.parameters())) == len(list(plain.parameters()))
    copy.deepcopy(module)(x, index)


@pytest.mark.parametrize("routing", ["self", "free"])
def test_slots_stay_shared_when_weights_are_assigned(routing: Any) -> None:
    widths = {"user": CHANNELS, "item": CHANNELS}
    module = HeteroSlotVirtualNode(widths, SLOTS, heads=2, routing=routing, competition=True)
    number = len(list(module.parameters()))
    module.load_state_dict({key: value.clone() for key, value in module.state_dict().items()}, assign=True)
    assert len(list(module.parameters())) == number
