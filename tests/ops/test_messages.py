"""Wrong input, word for word."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

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

CASES: list[tuple[Callable[..., Any], dict[str, Any], type[Exception], str]] = [
    (
        ops.write,
        {"query": torch.zeros(SLOTS, DIM)},
        ValueError,
        "write: query has shape (3, 5) but [slots, heads, dim] was expected. Add or drop an axis.",
    ),
    (
        ops.write,
        {"key": torch.zeros(NODES, HEADS, 7)},
        ValueError,
        "write: key has width 7 but query has 5. Project both to one width.",
    ),
    (
        ops.write,
        {"key": torch.zeros(NODES, 3, DIM)},
        ValueError,
        "write: key has 3 heads but query has 2. Pass as many, or one that all share.",
    ),
    (
        ops.write,
        {"value": torch.zeros(NODES, 3, VDIM)},
        ValueError,
        "write: value has 3 heads but query has 2. Pass as many, or one that all share.",
    ),
    (
        ops.write,
        {"value": torch.zeros(13, HEADS, VDIM)},
        ValueError,
        "write: value has 13 rows but key has 11 nodes. Pass one row for each node.",
    ),
    (
        ops.write,
        {"key": torch.zeros(NODES, HEADS, DIM).long()},
        TypeError,
        "write: key has dtype int64 but a floating one was expected. Pass key.float().",
    ),
    (
        ops.write,
        {"value": torch.zeros(NODES, HEADS, VDIM).double()},
        TypeError,
        "write: value has dtype float64 but key has float32. Convert one of them, e.g. value.to(key.dtype).",
    ),
    (
        ops.write,
        {"value": torch.zeros(NODES, HEADS, VDIM, device="meta")},
        ValueError,
        "write: value is on meta but key is on cpu. Move one of them, e.g. value.to(key.device).",
    ),
    (
        ops.write,
        {"where": torch.ones(NODES, dtype=torch.bool, device="meta")},
        ValueError,
        "write: where is on meta but key is on cpu. Move one of them, e.g. where.to(key.device).",
    ),
    (
        ops.write,
        {"index": INDEX.float()},
        TypeError,
        "write: index has dtype float32 but graph ids are int64 or int32. Pass index.long().",
    ),
    (
        ops.write,
        {"index": INDEX[:7]},
        ValueError,
        "write: index has shape (7,) but key has 11 nodes. Pass one entry for each node.",
    ),
    (
        ops.write,
        {"log_weight": torch.zeros(7)},
        ValueError,
        "write: log_weight has shape (7,) but key has 11 nodes. Pass one entry for each node.",
    ),
    (
        ops.read,
        {"index": INDEX[:7]},
        ValueError,
        "read: index has shape (7,) but query has 11 nodes. Pass one entry for each node.",
    ),
    (
        ops.read,
        {"where": torch.ones(3, dtype=torch.bool)},
        ValueError,
        "read: where has shape (3,) but query has 11 nodes. Pass one entry for each node.",
    ),
    (
        ops.write,
        {"key": [[0.0]]},
        TypeError,
        "write: key is a list but a tensor was expected. Convert it first, e.g. torch.as_tensor(key).",
    ),
    (
        ops.write,
        {"value": None},
        TypeError,
        "write: value is None but a tensor was expected. Pass value.",
    ),
    (
        ops.write,
        {"index": INDEX.numpy()},
        TypeError,
        "write: index is a numpy.ndarray but a tensor was expected. Convert it first, e.g. torch.as_tensor(index).",
    ),
    (
        ops.write,
        {"num_graphs": 2.0},
        TypeError,
        "write: num_graphs is 2.0 but a whole number was expected. Pass int(num_graphs).",
    ),
    (
        ops.write,
        {"num_graphs": True},
        TypeError,
        "write: num_graphs is True but a whole number was expected. Pass an int.",
    ),
    (
        ops.write,
        {"num_graphs": torch.tensor(2)},
        TypeError,
        "write: num_graphs is a torch.Tensor but a whole number was expected. Pass int(num_graphs).",
    ),
    (
        ops.write,
        {"index": INDEX, "num_graphs": 1},
        ValueError,
        "write: index has ids from 0 to 1 but num_graphs=1. Number the graphs from 0, or raise num_graphs to 2.",
    ),
    (
        ops.write,
        {"index": INDEX - 1},
        ValueError,
        "write: index has ids from -1 to 0 but num_graphs=1. Number the graphs from 0, or raise num_graphs to 1.",
    ),
    (
        ops.write,
        {"num_graphs": -3},
        ValueError,
        "write: num_graphs is -3 but a count was expected. Pass zero or more.",
    ),
    (
        ops.write,
        {"index": None, "num_graphs": 2},
        ValueError,
        "write: num_graphs is 2 but without index all nodes are one graph. Pass index, or leave num_graphs out.",
    ),
    (
        ops.write,
        {"where": NAN_WEIGHT},
        TypeError,
        "write: where has dtype float32 but a node mask is boolean. Pass where > 0, or its like.",
    ),
    (
        ops.write,
        {"where": torch.ones(3, dtype=torch.bool)},
        ValueError,
        "write: where has shape (3,) but key has 11 nodes. Pass one entry for each node.",
    ),
    (
        ops.write,
        {"log_weight": torch.ones(NODES).long()},
        TypeError,
        "write: log_weight has dtype int64 but a floating one was expected. Pass log_weight.float().",
    ),
    (
        ops.write,
        {"log_weight": NAN_WEIGHT},
        ValueError,
        "write: log_weight is nan at node 3 but it must be finite or -inf. "
        "Pass the logarithm of a weight, -inf to leave a node out.",
    ),
    (
        ops.write,
        {"log_weight": INF_WEIGHT},
        ValueError,
        "write: log_weight is inf at node 7 but it must be finite or -inf. "
        "Pass the logarithm of a weight, -inf to leave a node out.",
    ),
    (
        ops.read,
        {"residual": True, "sum_heads": True},
        ValueError,
        "read: residual needs sum_heads=True and one query of width 7 per node, but sum_heads=True and query has shape "
        "(11, 2, 5). Pass [nodes, 1, 7].",
    ),
    (
        ops.read,
        {"query": torch.zeros(NODES, HEADS)},
        ValueError,
        "read: query has shape (11, 2) but [nodes, heads, dim] was expected. Add or drop an axis.",
    ),
    (
        ops.read,
        {"query": torch.zeros(NODES, HEADS, 7)},
        ValueError,
        "read: key has width 5 but query has 7. Project both to one width.",
    ),
    (
        ops.read,
        {"query": torch.zeros(NODES, 3, DIM)},
        ValueError,
        "read: query has 3 heads but value has 2. Pass as many, or one that all share.",
    ),
    (
        ops.read,
        {"key": torch.zeros(3, SLOTS, HEADS, DIM)},
        ValueError,
        "read: key has (graphs, slots, heads) = (3, 3, 2) but value has (2, 3, 2). "
        "Pass one key for each value, or keys without a graphs axis that all graphs share.",
    ),
    (
        ops.read,
        {"value": torch.zeros(GRAPHS, SLOTS, HEADS, VDIM).int()},
        TypeError,
        "read: value has dtype int32 but a floating one was expected. Pass value.float().",
    ),
    (
        ops.read,
        {"index": INDEX + 3},
        ValueError,
        "read: index has ids from 3 to 4 but num_graphs=2. Number the graphs from 0, or raise num_graphs to 5.",
    ),
    (
        ops.read,
        {"where": torch.ones(NODES)},
        TypeError,
        "read: where has dtype float32 but a node mask is boolean. Pass where > 0, or its like.",
    ),
]


@pytest.mark.parametrize(("op", "wrong", "error", "message"), CASES, ids=[case[3][:60] for case in CASES])
def test_message(op: Callable[..., Any], wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    right = WRITE if op is ops.write else READ
    op(**right)
    with pytest.raises(error) as caught:
        op(**{**right, **wrong})
    assert str(caught.value) == message


def test_graph_ids_may_be_int32() -> None:
    where = INDEX == 1
    for op, right in ((ops.write, WRITE), (ops.read, READ)):
        right = {name: torch.randn(t.shape) if t.is_floating_point() else t for name, t in right.items()}
        for masks in ({}, {"where": where}):
            expected, actual = op(**right, **masks), op(**{**right, "index": INDEX.int()}, **masks)
            for one, other in zip(actual, expected, strict=True):
                assert torch.equal(one, other)


def test_a_whole_number_of_numpy_is_a_number_of_graphs() -> None:
    assert ops.write(**WRITE, num_graphs=np.int64(3)).log_mass.size(0) == 3  # type: ignore[arg-type]


def test_merge_of_nothing() -> None:
    with pytest.raises(ValueError, match=r"^merge: got no states\. Pass at least one SlotState\.$"):
        ops.merge()


def test_merge_of_different_shapes() -> None:
    one = SlotState(torch.zeros(2, 3, 1, 5), torch.zeros(2, 3, 1))
    other = SlotState(torch.zeros(7, 3, 1, 5), torch.zeros(7, 3, 1))
    with pytest.raises(ValueError, match="merge") as caught:
        ops.merge(one, other)
    assert str(caught.value) == (
        "merge: contents have shapes (2, 3, 1, 5), (7, 3, 1, 5) but states of one memory share one shape. "
        "Write every part with the same num_graphs, query and value width."
    )


def test_anchor_of_another_memory() -> None:
    state = SlotState(torch.zeros(2, 3, 1, 5), torch.zeros(2, 3, 1))
    with pytest.raises(ValueError, match="anchored") as caught:
        ops.anchored(state, torch.zeros(7, 1), torch.zeros(7, 1, 5))
    assert str(caught.value) == (
        "anchored: anchor_logit has shape (7, 1) and anchor_value (7, 1, 5) but the state has (slots, heads) = (3, 1). "
        "Give every slot and head an anchor of its own."
    )
