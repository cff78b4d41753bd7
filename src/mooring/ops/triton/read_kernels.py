# mypy: disable-error-code=no-untyped-def
"""Kernels of the read. Tiles of scores are ``[NODES, SLOTS]``; all arithmetic is float32.

A program computes one part: a single head, or ``groups`` heads that share a query and whose contexts are summed
(projections folded into keys and values). In both cases the head is ``part + group``.
"""

from __future__ import annotations

from mooring.ops.triton.chunks import find_chunk, find_nodes, finite, load_tile, store_tile, zero_if_excluded
from mooring.ops.triton.language import jit, tl


@jit
def load_slots(tensor, graph, slot, slot_ok, head, stride_graph, stride_slot, stride_head, width, WIDTH: tl.constexpr):
    """Load slots ``[SLOTS, WIDTH]`` of one graph; ``head`` is a number, or one per slot of the tile."""
    row = graph * stride_graph + slot * stride_slot + head * stride_head
    return load_tile(tensor, row, slot_ok, 1, width, WIDTH)


@jit
def score_slots(queries, keys, slot_ok, PRECISION: tl.constexpr):
    """Return scores ``[NODES, SLOTS]``, ``-inf`` for columns without a slot."""
    return tl.where(slot_ok[None, :], tl.dot(queries, tl.trans(keys), input_precision=PRECISION), float("-inf"))


@jit
def read_context(
    query, key, value, ptr, order, context,
    num_nodes, num_graphs, slots, parts, groups, dim, width,
    query_node, query_part, key_graph, key_slot, key_head, value_graph, value_slot, value_head,
    NODES: tl.constexpr, SLOTS: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
    RESIDUAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    r"""Compute the context of a block of nodes of one graph.

    .. math::
        O_j = \sum_h \sum_m \operatorname{softmax}_m(q_j^\top k_{mh}) v_{mh}

    The softmax runs over blocks of slots with a running maximum. With ``RESIDUAL`` the query is added. Excluded nodes
    get zero, or their query.
    """
    part = tl.program_id(1)
    graph, start, stop = find_chunk(tl.program_id(0), ptr, num_nodes, num_graphs, NODES)
    if start < stop:
        node, inside, live = find_nodes(start, stop, graph, num_graphs, order, NODES)
        known_slots = zero_if_excluded(graph, num_graphs, slots)
        queries = load_tile(query + part * query_part, node, live, query_node, dim, DIM)
        out = tl.zeros((NODES, WIDTH), tl.float32)
        if RESIDUAL:
            out = load_tile(query + part * query_part, node, inside, query_node, dim, DIM)
        for group in range(groups):
            top = tl.full((NODES,), float("-inf"), tl.float32)
            mass = tl.zeros((NODES,), tl.float32)
            total = tl.zeros((NODES, WIDTH), tl.float32)
            for first in range(0, slots, SLOTS):
                slot = first + tl.arange(0, SLOTS)
                slot_ok = slot < slots
                keys = load_slots(
                    key, graph, slot, slot < known_slots, part + group, key_graph, key_slot, key_head, dim, DIM
                )
                values = load_slots(
                    value,
                    graph,
                    slot,
                    slot < known_slots,
                    part + group,
                    value_graph,
                    value_slot,
                    value_head,
                    width,
                    WIDTH,
                )
                scores = score_slots(queries, keys, slot_ok, PRECISION)
                new_top = tl.maximum(top, tl.max(scores, axis=1))
                shrink = tl.exp(top - finite(new_top))
                shares = tl.exp(scores - finite(new_top)[:, None])
                mass = mass * shrink + tl.sum(shares, axis=1)
                total = tl.dot(shares, values, total * shrink[:, None], input_precision=PRECISION)
                top = new_top
            out += total / mass[:, None]
        store_tile(context, out, node * parts + part, inside, width, width, WIDTH)
