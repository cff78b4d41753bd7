"""Error messages of ops on states and of attention weights, matched on their key words."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import mooring
from mooring import ops
from mooring.ops import SlotState

from cases import DIM, HEADS, SLOTS, VDIM  # isort: skip

pytestmark = pytest.mark.usefixtures("as_users_run_it")

NODES, GRAPHS = 11, 2
INDEX = torch.tensor([0] * 5 + [1] * 6)
SLOT_QUERY, NODE_KEY = torch.zeros(SLOTS, HEADS, DIM), torch.zeros(NODES, HEADS, DIM)
SLOT_KEY = torch.zeros(GRAPHS, SLOTS, HEADS, DIM)
STATE = SlotState(torch.zeros(GRAPHS, SLOTS, HEADS, VDIM), torch.zeros(GRAPHS, SLOTS, HEADS))
WRITE_WEIGHTS = {"state": STATE, "query": SLOT_QUERY, "key": NODE_KEY, "index": INDEX}
READ_WEIGHTS = {"query": NODE_KEY, "key": SLOT_KEY, "index": INDEX}
COMPETE = {"query": SLOT_QUERY, "key": NODE_KEY, "index": INDEX, "null_logit": torch.zeros(HEADS)}
LOGIT = {"state": STATE, "anchor_logit": torch.zeros(SLOTS, HEADS)}
ANCHORED = {**LOGIT, "anchor_value": torch.zeros(SLOTS, HEADS, VDIM)}
Row = tuple[Callable[..., Any], dict[str, Any], dict[str, Any], type[Exception], str]
OF_STATES: list[Row] = [
    (op, right, {"state": state}, error, words)
    for op, right in (
        (ops.write_weights, WRITE_WEIGHTS),
        (ops.anchored, ANCHORED),
        *((op, LOGIT) for op in (ops.anchor_weight, ops.log_odds, ops.softplus_odds)),
    )
    for state, error, words in (
        (None, TypeError, "state is None but a SlotState was expected. Pass what a write returns."),
        (tuple(STATE), TypeError, "state is a tuple but a SlotState was expected"),
        (SlotState(STATE.content, None), TypeError, "state.log_mass is None but a tensor was expected"),
        (SlotState(STATE.content.long(), STATE.log_mass), TypeError, "state.content has dtype int64"),
        (SlotState(STATE.content, STATE.log_mass.to("meta")), ValueError, "state.log_mass is on meta"),
        (SlotState(STATE.content, STATE.content), ValueError, "state.content has shape (2, 3, 2, 7) and"),
    )
]
OF_ANCHORS: list[Row] = [
    (op, right, {"anchor_logit": logit}, error, words)
    for op, right in (
        (ops.anchored, ANCHORED),
        *((op, LOGIT) for op in (ops.anchor_weight, ops.log_odds, ops.softplus_odds)),
    )
    for logit, error, words in (
        (0.0, TypeError, "anchor_logit is 0.0 but a tensor was expected"),
        (None, TypeError, "anchor_logit is None but a tensor was expected. Pass anchor_logit."),
        (torch.zeros(SLOTS, HEADS).long(), TypeError, "anchor_logit has dtype int64"),
        (torch.zeros(SLOTS, HEADS, device="meta"), ValueError, "anchor_logit is on meta but state is on cpu"),
        (torch.zeros(1, HEADS), ValueError, "anchor_logit has shape (1, 2)"),
    )
]
OF_SCORES: list[Row] = [
    (op, right, wrong, error, words)
    for op, right in ((ops.write_weights, WRITE_WEIGHTS), (ops.compete, COMPETE))
    for wrong, error, words in (
        ({"query": None}, TypeError, "query is None but a tensor was expected"),
        ({"key": None}, TypeError, "key is None but a tensor was expected"),
        ({"key": torch.zeros(NODES, DIM)}, ValueError, "key has shape (11, 5) but [nodes, heads, dim]"),
        ({"key": torch.zeros(NODES, HEADS, 7)}, ValueError, "key has width 7 but query has 5"),
        ({"key": torch.zeros(NODES, 3, DIM)}, ValueError, "key has 3 heads but query has 2"),
        ({"key": NODE_KEY.long()}, TypeError, "key has dtype int64"),
        ({"key": NODE_KEY.to("meta")}, ValueError, "query is on cpu but key is on meta"),
        ({"index": INDEX[:7]}, ValueError, "index has shape (7,) but key has 11 nodes"),
        ({"index": INDEX.float()}, TypeError, "index has dtype float32"),
    )
]
OTHERS: list[tuple[Callable[..., Any], dict[str, Any], type[Exception], str]] = [
    (ops.anchored, {"anchor_value": None}, TypeError, "anchor_value is None but a tensor was expected"),
    (ops.write_weights, {"query": torch.zeros(5, HEADS, DIM)}, ValueError, "state has (slots, heads) = (3, 2) but"),
    (ops.write_weights, {"index": INDEX + 1}, ValueError, "index has ids from 1 to 2 but state.log_mass.size(0)=2"),
    (ops.write_weights, {"index": ops.plan(INDEX, num_graphs=3)}, ValueError, "state.log_mass.size(0) says 2 but the"),
    (ops.write_weights, {"log_weight": torch.zeros(7)}, ValueError, "log_weight has shape (7,) but key has 11 nodes"),
    (ops.write_weights, {"log_weight": torch.zeros(NODES, SLOTS)}, ValueError, "log_weight has shape (11, 3) but"),
    (ops.write_weights, {"log_weight": 0.0}, TypeError, "log_weight is 0.0"),
    (ops.read_weights, {"query": None}, TypeError, "query is None but a tensor was expected"),
    (ops.read_weights, {"key": None}, TypeError, "key is None but a tensor was expected"),
    (ops.read_weights, {"query": torch.zeros(NODES, DIM)}, ValueError, "query has shape (11, 5) but [nodes"),
    (ops.read_weights, {"query": NODE_KEY.long()}, TypeError, "query has dtype int64"),
    (ops.read_weights, {"query": torch.zeros(NODES, 3, DIM)}, ValueError, "query has 3 heads but key has 2"),
    (ops.read_weights, {"key": torch.zeros(SLOTS, DIM)}, ValueError, "key has shape (3, 5)"),
    (ops.read_weights, {"key": torch.zeros(GRAPHS, SLOTS, HEADS, 7)}, ValueError, "key has width 7 but query has 5"),
    (ops.read_weights, {"key": SLOT_KEY.to("meta")}, ValueError, "key is on meta but query is on cpu"),
    (ops.read_weights, {"index": INDEX[:7]}, ValueError, "index has shape (7,) but query has 11 nodes"),
    (ops.read_weights, {"index": INDEX[:7], "key": SLOT_KEY[0]}, ValueError, "index has shape (7,) but query"),
    (ops.read_weights, {"index": INDEX + 1}, ValueError, "index has ids from 1 to 2 but key.size(0)=2"),
    (ops.read_weights, {"index": INDEX.float()}, TypeError, "index has dtype float32"),
    (ops.read_weights, {"index": ops.plan(INDEX, num_graphs=3)}, ValueError, "key.size(0) says 2 but the plan was"),
    (ops.compete, {"null_logit": 0.0}, TypeError, "null_logit is 0.0 but a tensor was expected"),
    (ops.compete, {"null_logit": torch.zeros(HEADS).long()}, TypeError, "null_logit has dtype int64"),
    (ops.compete, {"null_logit": torch.zeros(HEADS, device="meta")}, ValueError, "null_logit is on meta but key is on"),
    (ops.compete, {"null_logit": torch.tensor([0.0, float("nan")])}, ValueError, "null_logit is NaN in some head"),
    (ops.read, {"key": None}, TypeError, "key is None but a tensor was expected"),
]
READ = {"query": NODE_KEY, "key": SLOT_KEY, "value": torch.zeros(GRAPHS, SLOTS, HEADS, VDIM), "index": INDEX}
RIGHT: dict[Callable[..., Any], dict[str, Any]] = {
    ops.read: READ,
    ops.anchored: ANCHORED,
    ops.compete: COMPETE,
    ops.write_weights: WRITE_WEIGHTS,
    ops.read_weights: READ_WEIGHTS,
}
ROWS = [*OF_STATES, *OF_ANCHORS, *OF_SCORES, *((op, RIGHT[op], *row) for op, *row in OTHERS)]


@pytest.mark.parametrize(
    ("op", "right", "wrong", "error", "words"),
    ROWS,
    ids=[f"{row[0].__name__}-{next(iter(row[2]))}-{row[4][:30]}" for row in ROWS],
)
def test_messages_of_the_other_ops(
    op: Callable[..., Any], right: dict[str, Any], wrong: dict[str, Any], error: type[Exception], words: str
) -> None:
    op(**right)
    with pytest.raises(error, match=f"^{op.__name__}: {re.escape(words)}"):
        op(**{**right, **wrong})


@pytest.mark.parametrize(
    ("states", "error", "words"),
    [
        ((None, STATE), TypeError, "states[0] is None but a SlotState was expected. Pass what writes return"),
        (([STATE, STATE],), TypeError, "states[0] is a list but a SlotState was expected"),
        ((STATE, STATE.content), TypeError, "states[1] is a torch.Tensor but a SlotState was expected"),
        ((STATE, SlotState(STATE.content, None)), TypeError, "states[1].log_mass is None but a tensor"),
        ((STATE, SlotState(*(t.to("meta") for t in STATE))), ValueError, "states[1].content is on meta but"),
    ],
)
def test_messages_of_merge(states: tuple[Any, ...], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"^merge: {re.escape(words)}"):
        ops.merge(*states)
    with pytest.raises(TypeError, match=r"^all_merge: state is None but a SlotState was expected"):
        ops.all_merge(None)


def test_a_learned_null_slot_may_be_nan() -> None:
    """Diverged training shows in the loss, but a constant NaN is a mistake."""
    nan = torch.full((HEADS,), float("nan"))
    assert bool(ops.compete(**{**COMPETE, "null_logit": nan.clone().requires_grad_()}).isnan().all())
    with mooring.checks(False):
        assert bool(ops.compete(**{**COMPETE, "null_logit": nan}).isnan().all())
    none = ops.compete(**{**COMPETE, "null_logit": torch.full((HEADS,), float("-inf"))})
    assert torch.equal(none, ops.compete(**{**COMPETE, "null_logit": None}))
