"""Error messages for wrong input, matched on their key words."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import mooring
from mooring import ops
from mooring.ops import SlotState

from cases import DIM, HEADS, SLOTS, VDIM  # isort: skip

pytestmark = pytest.mark.usefixtures("as_users_run_it")

NODES, GRAPHS = 11, 2
INDEX = torch.tensor([0] * 5 + [1] * 6)
WRITE = {
    "query": torch.zeros(SLOTS, HEADS, DIM),
    "key": torch.zeros(NODES, HEADS, DIM),
    "value": torch.zeros(NODES, HEADS, VDIM),
    "index": INDEX,
}
READ = {
    "query": torch.zeros(NODES, HEADS, DIM),
    "key": torch.zeros(GRAPHS, SLOTS, HEADS, DIM),
    "value": torch.zeros(GRAPHS, SLOTS, HEADS, VDIM),
    "index": INDEX,
}
NAN_WEIGHT = torch.zeros(NODES).index_fill(0, torch.tensor([3]), float("nan"))
INF_WEIGHT = torch.zeros(NODES).index_fill(0, torch.tensor([7]), float("inf"))

ONES, MASK = torch.ones(NODES), torch.ones(3, dtype=torch.bool)
CASES: list[tuple[Callable[..., Any], dict[str, Any], type[Exception], str, str]] = [
    (ops.write, {"query": torch.zeros(SLOTS, DIM)}, ValueError, "query has shape (3, 5)", "[slots, heads, dim]"),
    (ops.write, {"query": torch.zeros(SLOTS, 0, DIM)}, ValueError, "query has shape (3, 0, 5)", "no heads"),
    (ops.write, {"query": torch.zeros(0, HEADS, DIM)}, ValueError, "query has shape (0, 2, 5)", "at least one"),
    (ops.read, {"key": torch.zeros(GRAPHS, 0, HEADS, DIM)}, ValueError, "key has shape (2, 0, 2, 5)", "no slots"),
    (ops.write, {"key": torch.zeros(NODES, HEADS, 7)}, ValueError, "key has width 7", "query has 5"),
    (ops.write, {"key": torch.zeros(NODES, 3, DIM)}, ValueError, "key has 3 heads", "query has 2"),
    (ops.write, {"value": torch.zeros(NODES, 3, VDIM)}, ValueError, "value has 3 heads", "query has 2"),
    (ops.write, {"value": torch.zeros(13, HEADS, VDIM)}, ValueError, "value has 13 rows", "key has 11 nodes"),
    (ops.write, {"key": WRITE["key"].long()}, TypeError, "key has dtype int64", "Pass key.float()"),
    (ops.write, {"value": WRITE["value"].double()}, TypeError, "value has dtype float64", "value.to(key.dtype)"),
    (ops.write, {"value": WRITE["value"].to("meta")}, ValueError, "value is on meta", "value.to(key.device)"),
    (ops.write, {"where": ONES.bool().to("meta")}, ValueError, "where is on meta", "where.to(key.device)"),
    (ops.write, {"index": INDEX.float()}, TypeError, "index has dtype float32", "Pass index.long()"),
    (ops.write, {"index": INDEX[:7]}, ValueError, "index has shape (7,)", "key has 11 nodes"),
    (ops.write, {"index": INDEX.numpy()}, TypeError, "index is a numpy.ndarray", "torch.as_tensor(index)"),
    (ops.write, {"key": [[0.0]]}, TypeError, "key is a list", "torch.as_tensor(key)"),
    (ops.write, {"value": None}, TypeError, "value is None", "Pass value"),
    (ops.write, {"num_graphs": 2.0}, TypeError, "num_graphs is 2.0", "Pass int(num_graphs)"),
    (ops.write, {"num_graphs": True}, TypeError, "num_graphs is True", "Pass an int"),
    (ops.write, {"num_graphs": torch.tensor(2)}, TypeError, "num_graphs is a torch.Tensor", "Pass int(num_graphs)"),
    (ops.write, {"num_graphs": -3}, ValueError, "num_graphs is -3", "Pass zero or more"),
    (ops.write, {"num_graphs": 1}, ValueError, "ids from 0 to 1 but num_graphs=1", "raise num_graphs to 2"),
    (ops.write, {"index": INDEX - 1}, ValueError, "ids from -1 to 0 but num_graphs=1", "Number the graphs from 0"),
    (ops.write, {"index": None, "num_graphs": 2}, ValueError, "num_graphs is 2 but without index", "Pass index"),
    (ops.write, {"where": NAN_WEIGHT}, TypeError, "where has dtype float32", "boolean"),
    (ops.write, {"where": MASK}, ValueError, "where has shape (3,)", "key has 11 nodes"),
    (ops.write, {"log_weight": torch.zeros(7)}, ValueError, "log_weight has shape (7,)", "key has 11 nodes"),
    (ops.write, {"log_weight": ONES.long()}, TypeError, "log_weight has dtype int64", "Pass log_weight.float()"),
    (ops.write, {"log_weight": NAN_WEIGHT}, ValueError, "log_weight is nan at node 3", "-inf to leave a node out"),
    (ops.write, {"log_weight": INF_WEIGHT}, ValueError, "log_weight is inf at node 7", "-inf to leave a node out"),
    (ops.read, {"residual": True, "sum_heads": True}, ValueError, "shape (11, 2, 5)", "Pass [nodes, 1, 7]"),
    (ops.read, {"query": torch.zeros(NODES, HEADS)}, ValueError, "query has shape (11, 2)", "[nodes, heads, dim]"),
    (ops.read, {"query": torch.zeros(NODES, HEADS, 7)}, ValueError, "key has width 5", "query has 7"),
    (ops.read, {"query": torch.zeros(NODES, 3, DIM)}, ValueError, "query has 3 heads", "value has 2"),
    (ops.read, {"key": torch.zeros(3, SLOTS, HEADS, DIM)}, ValueError, "= (3, 3, 2)", "value has (2, 3, 2)"),
    (ops.read, {"value": READ["value"].int()}, TypeError, "value has dtype int32", "Pass value.float()"),
    (ops.read, {"index": INDEX + 3}, ValueError, "ids from 3 to 4 but value.size(0)=2", "raise value.size(0) to 5"),
    (ops.read, {"index": INDEX[:7]}, ValueError, "index has shape (7,)", "query has 11 nodes"),
    (ops.read, {"where": ONES}, TypeError, "where has dtype float32", "boolean"),
    (ops.read, {"where": MASK}, ValueError, "where has shape (3,)", "query has 11 nodes"),
]


@pytest.mark.parametrize(("op", "wrong", "error", "got", "hint"), CASES, ids=[f"{c[0].__name__}-{c[3]}" for c in CASES])
def test_message(op: Callable[..., Any], wrong: dict[str, Any], error: type[Exception], got: str, hint: str) -> None:
    """Match the caller, the value, the expected value or remedy, and the final full stop."""
    right = WRITE if op is ops.write else READ
    op(**right)
    with pytest.raises(error) as caught:
        op(**{**right, **wrong})
    message = str(caught.value)
    assert message.startswith(f"{op.__name__}: ")
    assert got in message
    assert hint in message
    assert re.search(r"\. [A-Z].+\.$", message), message


def test_graph_ids_may_be_int32() -> None:
    where = INDEX == 1
    for op, right in ((ops.write, WRITE), (ops.read, READ)):
        right = {name: torch.randn(t.shape) if t.is_floating_point() else t for name, t in right.items()}
        for masks in ({}, {"where": where}):
            expected, actual = op(**right, **masks), op(**{**right, "index": INDEX.int()}, **masks)
            for one, other in zip(actual, expected, strict=True):
                assert torch.equal(one, other)


def test_num_graphs_may_be_a_numpy_integer() -> None:
    assert ops.write(**WRITE, num_graphs=np.int64(3)).log_mass.size(0) == 3  # type: ignore[arg-type]


def test_merge_of_nothing() -> None:
    with pytest.raises(ValueError, match=r"^merge: got no states\. Pass at least one SlotState\.$"):
        ops.merge()


def test_merge_of_different_shapes() -> None:
    one, other = (SlotState(torch.zeros(graphs, 3, 1, 5), torch.zeros(graphs, 3, 1)) for graphs in (2, 7))
    with pytest.raises(ValueError, match=r"^merge: .*\(2, 3, 1, 5\), \(7, 3, 1, 5\).* Write every part with the same"):
        ops.merge(one, other)


def test_anchor_of_another_memory() -> None:
    state = SlotState(torch.zeros(2, 3, 1, 5), torch.zeros(2, 3, 1))
    with pytest.raises(
        ValueError, match=r"^anchored: .*\(7, 1\).*\(7, 1, 5\).* = \(3, 1, 5\)\. Give every slot and head"
    ):
        ops.anchored(state, torch.zeros(7, 1), torch.zeros(7, 1, 5))
    with pytest.raises(
        ValueError, match=r"anchor_value \(3, 1, 1\) but the state has \(slots, heads, dim\) = \(3, 1, 5\)"
    ):
        ops.anchored(state, torch.zeros(3, 1), torch.zeros(3, 1, 1))


@pytest.mark.parametrize("shape", [(1,), (3, 1), (7, 1, 1)])
def test_a_null_slot_has_one_score_for_each_head(shape: tuple[int, ...]) -> None:
    query, key = torch.randn(3, 2, 4), torch.randn(7, 2, 4)
    with pytest.raises(ValueError, match=r"write: null_logit has shape .* one score for each of 2 heads"):
        ops.write(query, key, key, null_logit=torch.zeros(shape))


def test_a_switch_may_be_entered_again() -> None:
    off, plain = mooring.checks(False), ops.use_backend("plain")
    for _ in range(2):
        with off, plain:
            assert ops.current_backend() == "plain"
            ops.plan(torch.tensor([0, 5]), num_graphs=2)
        assert ops.current_backend() is None
        with pytest.raises(ValueError, match="ids from 0 to 5"):
            ops.plan(torch.tensor([0, 5]), num_graphs=2)


def test_a_switch_entered_later_restores_the_value_at_entry() -> None:
    plain = ops.use_backend("plain")
    ops.use_backend("tiles")
    try:
        with plain:
            assert ops.current_backend() == "plain"
        assert ops.current_backend() == "tiles"
        with plain, plain:
            assert ops.current_backend() == "plain"
        assert ops.current_backend() == "tiles"
    finally:
        ops.use_backend(None)


def test_for_negative_ids_no_larger_num_graphs_is_suggested() -> None:
    with pytest.raises(ValueError, match=r"ids from -1 to 1 but num_graphs=2\. Number the graphs from 0\.$"):
        ops.plan(torch.tensor([-1, 0, 1]), num_graphs=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_nodes": 2.5}, "plan: num_nodes is 2.5"),
        ({"num_nodes": -3}, "plan: num_nodes is -3 but a count was expected"),
        ({"batch": ops.plan(num_nodes=3), "ptr": torch.tensor([0, 3])}, "plan: got a plan and ptr"),
        ({"batch": INDEX, "device": "meta"}, "plan: device is meta but batch is on cpu. Leave device out"),
        ({"batch": ops.plan(INDEX), "device": "meta"}, "plan: device is meta but batch is on cpu"),
        ({"ptr": torch.tensor([0, 3]), "device": "meta"}, "plan: device is meta but ptr is on cpu"),
        ({"batch": torch.tensor([0, 1]), "num_nodes": 3}, "plan: batch has shape .2,. but the plan has 3 nodes"),
    ],
)
def test_arguments_of_a_plan(arguments: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        ops.plan(**arguments)  # type: ignore[arg-type]


def test_a_plan_is_on_the_requested_device() -> None:
    for batch in (INDEX, ops.plan(INDEX)):
        assert ops.plan(batch, device="cpu").device == INDEX.device
        assert ops.plan(batch, device=torch.device("cpu")).num_graphs == GRAPHS
    assert ops.plan(ops.plan(num_nodes=3), device="meta").device.type == "meta"
    assert ops.plan(num_nodes=3, device="meta").device.type == "meta"
