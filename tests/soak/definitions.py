"""The ops by their definitions: float64, one graph after the other, quick enough to be compared on every input.

Nothing is shared with the back ends; merge, anchor and mass features are those of :mod:`mooring.ops.reference`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from mooring import ops
from mooring.ops import Plan, SlotState, reference

FROM_REFERENCE = ("merge", "anchored", "anchor_weight", "log_odds", "softplus_odds")


def write(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    index: Tensor | Plan | None = None,
    *,
    num_graphs: int | None = None,
    log_weight: Tensor | None = None,
    where: Tensor | None = None,
    null_logit: Tensor | None = None,
) -> SlotState:
    """:func:`mooring.ops.write`: the mean of the values under a softmax over nodes, and the logarithm of its sum."""
    ids, graphs = _ids(index, len(key), num_graphs)
    scores, writes = _scores(query, key, log_weight, where, null_logit)
    slots, heads = scores.shape[1:]
    value = value.double().expand(-1, heads, -1)
    content = value.new_zeros(graphs, slots, heads, value.size(-1))
    log_mass = value.new_full((graphs, slots, heads), float("-inf"))
    for graph in ids[writes].unique().tolist():
        rows = (writes & (ids == graph)).nonzero().squeeze(1)
        s, v, place = scores[rows], value[rows], torch.tensor([graph])
        # Not torch.logsumexp: of scores near 1e30 its gradients are ones, for it forgets how many there are.
        top = s.detach().amax(dim=0)
        Z = (s - top).exp().sum(dim=0)
        mu = torch.einsum("nmh,nhd->mhd", (s - top).exp() / Z, v)
        content = content.index_copy(0, place, mu.unsqueeze(0))
        log_mass = log_mass.index_copy(0, place, (Z.log() + top).unsqueeze(0))
    return SlotState(content, log_mass)


def write_weights(
    state: SlotState,
    query: Tensor,
    key: Tensor,
    index: Tensor | Plan | None = None,
    *,
    log_weight: Tensor | None = None,
    null_logit: Tensor | None = None,
    alone: bool = True,
) -> Tensor:
    """:func:`mooring.ops.write_weights` of a state of these nodes alone: the softmax over nodes."""
    assert alone
    ids, _ = _ids(index, len(key), state.log_mass.size(0))
    scores, writes = _scores(query, key, log_weight, None, null_logit)
    weights = torch.zeros_like(scores)
    for graph in ids[writes].unique().tolist():
        rows = (writes & (ids == graph)).nonzero().squeeze(1)
        weights = weights.index_copy(0, rows, scores[rows].softmax(dim=0))
    return weights


def read(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    index: Tensor | Plan | None = None,
    *,
    where: Tensor | None = None,
    sum_heads: bool = False,
    residual: bool = False,
) -> Tensor:
    """:func:`mooring.ops.read`: the mean of a graph's values under a softmax over its slots."""
    ids, _ = _ids(index, len(query), value.size(0))
    context = torch.einsum("nmh,nmhd->nhd", read_weights(query, key, ids), value.double()[ids])
    context = context.sum(dim=1, keepdim=True) if sum_heads else context
    context = context if where is None else context.masked_fill(~where[:, None, None], 0.0)
    return query + context if residual else context


def read_weights(query: Tensor, key: Tensor, index: Tensor | Plan | None = None) -> Tensor:
    """:func:`mooring.ops.read_weights`: the softmax over slots."""
    ids, _ = _ids(index, len(query), None)
    key = key.double()
    keys = key[ids] if key.dim() == 4 and key.size(0) > 1 else key.expand(len(query), *key.shape[-3:])
    return torch.einsum("nhd,nmhd->nmh", query.double().expand(-1, key.size(-2), -1), keys).softmax(dim=1)


def film(x: Tensor, context: Tensor, *parameters: Tensor) -> Tensor:
    """:func:`mooring.ops.film`, ``eq:slot-film`` with its bounds."""
    node_weight, node_bias, film_weight, film_bias = parameters
    hidden = torch.nn.functional.gelu(x @ node_weight.mT + node_bias + context)
    gamma, beta = (hidden @ film_weight.mT + film_bias).tanh().chunk(2, dim=1)
    return (1 + gamma / 2) * x + beta


def map_heads(x: Tensor, weight: Tensor, *, transposed: bool = False) -> Tensor:
    """:func:`mooring.ops.map_heads`: a matrix for each head."""
    return torch.einsum("...hd,hed->...he", x, weight.mT if transposed else weight)


def _ids(index: Tensor | Plan | None, num_nodes: int, num_graphs: int | None) -> tuple[Tensor, int]:
    """Graph id of each node, and the number of graphs."""
    if isinstance(index, Plan):
        index, num_graphs = index.batch, index.num_graphs
    return torch.zeros(num_nodes, dtype=torch.long) if index is None else index, num_graphs or 1


def _scores(
    query: Tensor, key: Tensor, log_weight: Tensor | None, where: Tensor | None, null_logit: Tensor | None
) -> tuple[Tensor, Tensor]:
    """``[nodes, slots, heads]`` scores, weights and competition among them, and the nodes that write."""
    scores = torch.einsum("mhd,nhd->nmh", query.double(), key.double().expand(-1, query.size(1), -1))
    writes = torch.ones(len(key), dtype=torch.bool) if where is None else where
    if null_logit is not None:
        rivals = torch.cat([scores, null_logit.double().expand(len(key), 1, -1)], dim=1)
        scores = scores - rivals.logsumexp(dim=1, keepdim=True)
    if log_weight is not None:
        writes = writes & ~log_weight.isneginf()
        scores = scores + log_weight.double()[:, None, None]
    return scores, writes


@contextmanager
def by_definition() -> Iterator[None]:
    """The definitions in place of the fast ops, for the modules over them as well."""
    here: dict[str, Any] = globals()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("write", "write_weights", "read", "read_weights", "film", "map_heads"):
            patch.setattr(ops, name, here[name])
        for name in FROM_REFERENCE:
            patch.setattr(ops, name, getattr(reference, name))
        yield
