"""Inputs of the write and the read, in every form with a separate code path."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mooring import ops
from mooring.ops import SlotState
from support import Ragged

SLOTS, HEADS, DIM, VDIM = 3, 2, 5, 7

# name -> heads of the keys and heads of the values; None if the key is the value.
WRITE_FORMS: dict[str, tuple[int, int | None]] = {
    "shared": (1, 1),
    "shared, key is value": (1, None),
    "separate heads": (HEADS, HEADS),
    "separate heads, key is value": (HEADS, None),
    "shared keys only": (1, HEADS),
    "shared values only": (HEADS, 1),
}
# name -> heads of the query, whether graphs share the keys, whether heads are summed.
READ_FORMS: dict[str, tuple[int, bool, bool]] = {
    "separate heads": (HEADS, False, False),
    "separate heads, shared keys": (HEADS, True, False),
    "shared query": (1, False, False),
    "folded": (1, False, True),
    "folded, shared keys": (1, True, True),
    "separate heads, summed": (HEADS, False, True),
}
WEIGHTS = ("none", "finite", "some -inf", "all -inf")

Writer = Callable[..., SlotState]
Reader = Callable[..., Tensor]


def log_weight(batch: Ragged, kind: str, dtype: torch.dtype = torch.float64) -> Tensor | None:
    if kind == "none":
        return None
    weight = batch.randn(batch.num_nodes, dtype=dtype, salt=5)
    if kind == "finite":
        return weight
    gone = ~batch.mask(salt=6) if kind == "some -inf" else torch.ones(batch.num_nodes, dtype=torch.bool)
    return weight.masked_fill(gone, float("-inf"))


def write_inputs(batch: Ragged, form: str, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Return query, key and, unless the key is the value, value."""
    key_heads, value_heads = WRITE_FORMS[form]
    inputs = [
        batch.randn(SLOTS, HEADS, DIM, dtype=dtype, salt=1),
        batch.randn(batch.num_nodes, key_heads, DIM, dtype=dtype, salt=2),
    ]
    if value_heads is not None:
        inputs.append(batch.randn(batch.num_nodes, value_heads, VDIM, dtype=dtype, salt=3))
    return inputs


def read_inputs(batch: Ragged, form: str, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Return query, key, value."""
    query_heads, shared, _ = READ_FORMS[form]
    graphs = () if shared else (batch.num_graphs,)
    return [
        batch.randn(batch.num_nodes, query_heads, DIM, dtype=dtype, salt=1),
        batch.randn(*graphs, SLOTS, HEADS, DIM, dtype=dtype, salt=2),
        batch.randn(batch.num_graphs, SLOTS, HEADS, VDIM, dtype=dtype, salt=3),
    ]


def written_out(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    index: Tensor,
    *,
    num_graphs: int,
    log_weight: Tensor | None = None,
) -> SlotState:
    """Compute the write of each graph by a softmax and a product, in the dtype of its inputs."""
    scores = torch.einsum("mhd,nhd->nmh", query, key.expand(-1, HEADS, -1))
    if log_weight is not None:
        scores = scores + log_weight[:, None, None]
    states = []
    for graph in range(num_graphs):
        logits, values = scores[index == graph], value[index == graph].expand(-1, HEADS, -1)
        # The softmax of an empty set is NaN.
        present = logits.isfinite().any(dim=0)
        mean = torch.einsum("nmh,nhd->mhd", logits.where(present, 0.0).softmax(dim=0), values)
        log_mass = logits.where(present, 0.0).logsumexp(dim=0)
        states.append((mean.where(present.unsqueeze(-1), 0.0), log_mass.where(present, float("-inf"))))
    return SlotState(*(torch.stack(parts) for parts in zip(*states, strict=True)))


def read_out(query: Tensor, key: Tensor, value: Tensor, index: Tensor) -> Tensor:
    """Compute the read of each node by a softmax and a product, in the dtype of its inputs."""
    key, query = key.expand(value.size(0), -1, -1, -1)[index], query.expand(-1, HEADS, -1)
    weights = torch.einsum("nhd,nmhd->nmh", query, key).softmax(dim=1)
    return torch.einsum("nmh,nmhd->nhd", weights, value[index])


def writer(op: Writer, form: str, batch: Ragged, weights: str = "none", where: Tensor | None = None) -> Writer:
    """Return ``op`` as a function of query, key, value (and of finite weights), to compare it with the oracle.

    Implementations other than ``ops.write`` have no ``where``; excluded nodes get weight zero.
    """

    def run(query: Tensor, key: Tensor, *rest: Tensor) -> SlotState:
        value = key if WRITE_FORMS[form][1] is None else rest[0]
        weight = rest[-1] if weights == "finite" else log_weight(batch, weights, key.dtype)
        if op is not ops.write:
            if where is not None:
                weight = torch.zeros(batch.num_nodes) if weight is None else weight
                weight = weight.masked_fill(~where, float("-inf"))
            return op(query, key, value, batch.index(), num_graphs=batch.num_graphs, log_weight=weight)
        return op(query, key, value, batch.index(), num_graphs=batch.num_graphs, log_weight=weight, where=where)

    return run


def reader(op: Reader, form: str, batch: Ragged, where: Tensor | None = None) -> Reader:
    """Return ``op`` as a function of query, key, value; masking and summing are added to the oracle."""
    summed = READ_FORMS[form][2]

    def run(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if op is ops.read:
            return op(query, key, value, batch.index(), where=where, sum_heads=summed)
        context = op(query, key, value, batch.index())
        if summed:
            context = context.sum(dim=1, keepdim=True)
        return context if where is None else context.masked_fill(~where[:, None, None], 0.0)

    return run
