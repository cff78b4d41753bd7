"""The slow oracle in float64: one loop per index of the paper, no code shared with the fast back ends.

Notation as in the paper: ``s`` are scores, ``v`` values, ``Z`` the mass, ``mu`` the content.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mooring.ops.plan import Plan
from mooring.ops.state import SlotState


def write(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    index: Tensor | Plan | None = None,
    *,
    num_graphs: int | None = None,
    log_weight: Tensor | None = None,
    null_logit: Tensor | None = None,
) -> SlotState:
    """Compute :func:`mooring.ops.write` by the definitions of ``eq:slotread`` and ``prop:mass``."""
    if isinstance(index, Plan):
        num_graphs, index = index.num_graphs, index.batch
    query, key, value = query.double(), key.double(), value.double()
    slots, heads, _ = query.shape
    key, value = key.expand(-1, heads, -1), value.expand(-1, heads, -1)
    members = _members(index, key.size(0), num_graphs)
    content, log_mass = [], []
    for nodes in members:
        for m in range(slots):
            for h in range(heads):
                s = [query[m, h] @ key[i, h] for i in nodes]
                if null_logit is not None:
                    all_scores = [torch.stack([*(query[:, h] @ key[i, h]), null_logit[h].double()]) for i in nodes]
                    s = [s_i - scores.logsumexp(0) for s_i, scores in zip(s, all_scores, strict=True)]
                if log_weight is not None:
                    weights = [log_weight[i] if log_weight.dim() == 1 else log_weight[i, m, h] for i in nodes]
                    s = [s_i + weight.double() for s_i, weight in zip(s, weights, strict=True)]
                v = [value[i, h] for i in nodes]
                s_v = [(s_i, v_i) for s_i, v_i in zip(s, v, strict=True) if s_i != float("-inf")]
                if not s_v:
                    content.append(value.new_zeros(value.size(-1)))
                    log_mass.append(value.new_tensor(float("-inf")))
                    continue
                top = max(s_i.detach() for s_i, _ in s_v)
                Z = sum(((s_i - top).exp() for s_i, _ in s_v), value.new_zeros(()))
                mu = sum(((s_i - top).exp() / Z * v_i for s_i, v_i in s_v), value.new_zeros(value.size(-1)))
                content.append(mu)
                log_mass.append(Z.log() + top)
    shape = (len(members), slots, heads)
    if not content:
        return SlotState(value.new_zeros(*shape, value.size(-1)), value.new_zeros(shape))
    return SlotState(torch.stack(content).view(*shape, -1), torch.stack(log_mass).view(shape))


def read(query: Tensor, key: Tensor, value: Tensor, index: Tensor | Plan | None = None) -> Tensor:
    """Compute :func:`mooring.ops.read` by the definition of ``eq:target-slot-read``."""
    index = index.batch if isinstance(index, Plan) else index
    query, key, value = query.double(), key.double(), value.double()
    graphs, slots, heads, width = value.shape
    key = key.expand(graphs, slots, heads, -1)
    query = query.expand(-1, heads, -1)
    context = []
    for j in range(query.size(0)):
        g = 0 if index is None else int(index[j])
        for h in range(heads):
            s = torch.stack([query[j, h] @ key[g, m, h] for m in range(slots)])
            rho = s.softmax(dim=0)
            context.append(sum((rho[m] * value[g, m, h] for m in range(slots)), value.new_zeros(width)))
    return torch.stack(context).view(-1, heads, width) if context else value.new_zeros(0, heads, width)


def merge(*states: SlotState) -> SlotState:
    """Compute :func:`mooring.ops.merge`: sum the masses and average the contents weighted by mass."""
    log_Z = torch.stack([state.log_mass.double() for state in states])
    empty = log_Z.isneginf().all(dim=0)
    log_Z = log_Z.masked_fill(empty, 0.0)
    top = log_Z.detach().amax(dim=0)
    Z = (log_Z - top).exp().sum(dim=0)
    share = ((log_Z - top).exp() / Z).unsqueeze(-1)
    mu = sum((share[k] * state.content.double() for k, state in enumerate(states)), torch.zeros_like(share[0]))
    return SlotState(mu.masked_fill(empty.unsqueeze(-1), 0.0), (Z.log() + top).masked_fill(empty, float("-inf")))


def anchored(state: SlotState, anchor_logit: Tensor, anchor_value: Tensor) -> Tensor:
    """Compute ``eq:anchored``: attention over the anchor (``s_0``, ``a``) and the state (``log Z``, ``mu``)."""
    alpha_0, rest = _log_shares(state, anchor_logit).exp().unsqueeze(-1)
    return alpha_0 * anchor_value.double() + rest * state.content.double()


def anchor_weight(state: SlotState, anchor_logit: Tensor) -> Tensor:
    """Compute ``alpha_0`` of ``prop:mass``."""
    return _log_shares(state, anchor_logit)[0].exp()


def log_odds(state: SlotState, anchor_logit: Tensor) -> Tensor:
    """Compute ``log(1 - alpha_0) - log(alpha_0)``, the mass feature of ``app:protocol``."""
    alpha_0, rest = _log_shares(state, anchor_logit)
    return rest - alpha_0


def softplus_odds(state: SlotState, anchor_logit: Tensor) -> Tensor:
    """Compute ``-log(alpha_0)``, a mass feature that is finite for an empty set."""
    return -_log_shares(state, anchor_logit)[0]


def _log_shares(state: SlotState, anchor_logit: Tensor) -> Tensor:
    """Return ``[2, graphs, slots, heads]``: the logarithms of ``alpha_0`` and ``1 - alpha_0``."""
    s_0, log_Z = torch.broadcast_tensors(anchor_logit.double(), state.log_mass.double())
    return torch.stack([s_0, log_Z]).log_softmax(dim=0)


def _members(index: Tensor | None, num_nodes: int, num_graphs: int | None) -> list[list[int]]:
    """Return the node ids of each graph."""
    if index is None:
        return [list(range(num_nodes))]
    ids = index.tolist()
    members: list[list[int]] = [[] for _ in range(num_graphs if num_graphs is not None else max(ids, default=-1) + 1)]
    for node, graph in enumerate(ids):
        members[graph].append(node)
    return members
