"""Slots compete for nodes: a weight per node and head that turns masses into soft counts."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mooring.ops import plain
from mooring.ops.plan import Plan, make_plan
from mooring.ops.state import full_precision, statistics_dtype


def compete(
    query: Float[Tensor, "*graphs slots heads dim"],
    key: Float[Tensor, "nodes #heads dim"],
    index: Int[Tensor, " nodes"] | Plan | None = None,
    *,
    null_logit: Float[Tensor, " heads"] | None = None,
) -> Float[Tensor, "nodes 1 heads"]:
    r"""Slot queries and nodes -> a log weight per node and head for :func:`~mooring.ops.write`.

    .. math::
        \log w_i = -\log \Big( e^{s_\varnothing} + \sum_m e^{q_m^\top k_i} \Big), \qquad
        e^{q_m^\top k_i + \log w_i} = \operatorname{softmax}_{m, \varnothing}(q^\top k_i)_m

    With it the masses of the slots are soft counts: a node hands out one unit over the slots and a null slot that
    nobody reads. Being a log weight, it leaves merging, streaming and multiplicities as they are; the log of a
    multiplicity is added to it.

    Args:
        query, key, index: as in :func:`~mooring.ops.write`.
        null_logit: the null slot's score in each head; None for none, so that every node is written in full.

    Cost: ``O(nodes * slots * heads * dim)``, and room for ``nodes * slots * heads`` numbers.

    >>> query, key = torch.randn(3, 1, 4), torch.randn(5, 1, 4)
    >>> weight = compete(query, key)
    >>> (torch.einsum("mhd,nhd->nmh", query, key) + weight).exp().sum(dim=1).allclose(torch.ones(5, 1))
    True
    """
    plan = make_plan("compete", index, num_nodes=key.size(0), name="index", of="key", device=key.device)
    slots, heads = query.shape[-3:-1]
    dtype = statistics_dtype(key.dtype)
    # Rows as in `write`: all slots and heads over a shared key, or the slots of each head over its own.
    if key.size(1) == 1:
        folded = query.reshape(*query.shape[:-3], 1, slots * heads, query.size(-1))
    else:
        folded = query.transpose(-3, -2)
    with full_precision(key.device):
        scores = plain.scores(folded.to(dtype), key.to(dtype), plan)
    scores = scores.view(-1, slots, heads) if key.size(1) == 1 else scores.transpose(1, 2)
    total = scores.logsumexp(dim=1, keepdim=True)
    return -total if null_logit is None else -torch.logaddexp(total, null_logit.to(dtype))
