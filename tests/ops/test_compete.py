"""Competition of slots for nodes, compared with its definition by a softmax."""

import pytest
import torch
from torch import Tensor

from mooring import ops
from mooring.ops import reference
from support import assert_close, assert_same

NODES, GRAPHS, SLOTS, HEADS, DIM = 11, 4, 3, 2, 5


def by_definition(query: Tensor, key: Tensor, null: Tensor | None, index: Tensor | None) -> Tensor:
    """Compute one softmax per node and head, over the slots and the null slot."""
    rows = []
    for node in range(key.size(0)):
        for head in range(HEADS):
            slots = query if index is None or query.dim() == 3 else query[index[node]]
            scores = [slots[slot, head] @ key[node, head % key.size(1)] for slot in range(SLOTS)]
            everyone = torch.stack(scores if null is None else [*scores, null[head]])
            rows.append((everyone.softmax(0).log() - everyone)[0])
    return torch.stack(rows).view(-1, 1, HEADS)


@pytest.mark.parametrize("per_graph", [False, True], ids=["shared queries", "queries per graph"])
@pytest.mark.parametrize("heads", [1, HEADS])
@pytest.mark.parametrize("null", [False, True], ids=["full", "null"])
def test_equals_the_softmax_over_slots(per_graph: bool, heads: int, null: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(GRAPHS, (NODES,), generator=generator)
    index[0] = GRAPHS - 1

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    query, key = draw(*([GRAPHS] if per_graph else []), SLOTS, HEADS, DIM), draw(NODES, heads, DIM)
    arguments = [query, key, *([draw(HEADS)] if null else [])]
    assert_same(
        lambda query, key, null=None: ops.compete(query, key, index, null_logit=null),
        lambda query, key, null=None: by_definition(query, key, null, index),
        *arguments,
    )


def test_masses_are_soft_counts() -> None:
    query, key, index = torch.randn(SLOTS, HEADS, DIM), torch.randn(NODES, HEADS, DIM), torch.arange(NODES) % GRAPHS
    state = ops.write(query, key, key, index, log_weight=ops.compete(query, key, index))
    torch.testing.assert_close(state.log_mass.exp().sum(1), index.bincount().float()[:, None].expand(-1, HEADS))


def test_a_write_of_competing_slots_equals_the_oracle() -> None:
    query, key = torch.randn(SLOTS, HEADS, DIM).double(), torch.randn(NODES, HEADS, DIM).double()
    value, null = torch.randn(NODES, HEADS, 7).double(), torch.randn(HEADS).double()
    arguments = {"index": torch.arange(NODES) % GRAPHS, "log_weight": torch.randn(NODES).double()}
    assert_same(
        lambda *inputs: ops.write(*inputs[:3], **arguments, null_logit=inputs[3]),
        lambda *inputs: reference.write(*inputs[:3], **arguments, null_logit=inputs[3]),
        *(query, key, value, null),
    )


def test_weights_of_each_slot_and_head_equal_the_oracle() -> None:
    query, key = torch.randn(SLOTS, HEADS, DIM).double(), torch.randn(NODES, HEADS, DIM).double()
    value, weight = torch.randn(NODES, HEADS, 7).double(), torch.randn(NODES, SLOTS, HEADS).double()
    index = torch.arange(NODES) % GRAPHS
    for null in (None, torch.zeros(HEADS).double()):
        assert_same(
            lambda *inputs, null=null: ops.write(*inputs[:3], index, log_weight=inputs[3], null_logit=null),
            lambda *inputs, null=null: reference.write(*inputs[:3], index, log_weight=inputs[3], null_logit=null),
            *(query, key, value, weight),
        )


def test_huge_scores_stay_finite() -> None:
    query, key = 1e4 * torch.randn(SLOTS, HEADS, DIM), torch.randn(NODES, 1, DIM)
    state = ops.write(query, key, key, null_logit=torch.zeros(HEADS))
    assert bool(state.log_mass.isfinite().all())
    assert float(state.log_mass.exp().sum(1).max()) <= NODES * (1 + 1e-3)


@pytest.mark.parametrize("index", [None, torch.arange(NODES) % GRAPHS], ids=["one graph", "graphs"])
def test_the_weights_of_competing_slots_give_their_content(index: Tensor | None) -> None:
    query, key = torch.randn(SLOTS, HEADS, DIM).double(), torch.randn(NODES, HEADS, DIM).double()
    value, null = torch.randn(NODES, HEADS, 7).double(), torch.tensor([2.0, -1.0]).double()
    arguments = {"log_weight": torch.randn(NODES).double(), "null_logit": null}
    state = ops.write(query, key, value, index, **arguments)
    weights = ops.write_weights(state, query, key, index, **arguments)
    ids = torch.zeros(NODES, dtype=torch.long) if index is None else index
    parts = torch.einsum("nmh,nhd->nmhd", weights, value)
    torch.testing.assert_close(torch.zeros_like(state.content).index_add(0, ids, parts), state.content)


def test_queries_per_graph_may_include_empty_graphs() -> None:
    generator = torch.Generator().manual_seed(1)
    index = torch.randint(GRAPHS - 1, (NODES,), generator=generator)
    query = torch.randn(GRAPHS, SLOTS, HEADS, DIM, generator=generator, dtype=torch.float64)
    key = torch.randn(NODES, HEADS, DIM, generator=generator, dtype=torch.float64)
    null = torch.zeros(HEADS, dtype=torch.float64)
    assert_close(ops.compete(query, key, index, null_logit=null), by_definition(query, key, null, index))
    state = ops.write(query, key, key, index, num_graphs=GRAPHS, null_logit=null)
    weights = ops.write_weights(state, query, key, index, null_logit=null)
    summed = torch.zeros(GRAPHS, SLOTS, HEADS, dtype=torch.float64).index_add(0, index, weights)
    assert_close(summed[index], torch.ones_like(weights))
