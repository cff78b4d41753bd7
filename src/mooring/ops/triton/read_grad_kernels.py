# mypy: disable-error-code=no-untyped-def
r"""Kernels of the read's backward: scores are recomputed, sums are taken in a fixed order.

With :math:`\rho_m = \operatorname{softmax}_m(q_j^\top k_m)` and the gradient :math:`g_j` of the context:

.. math::
    \mathrm{d}s_{jm} = \rho_{jm} (g_j^\top v_m - \textstyle\sum_n \rho_{jn} g_j^\top v_n), \qquad
    \mathrm{d}q_j = \sum_m \mathrm{d}s_{jm} k_m, \quad \mathrm{d}k_m = \sum_j \mathrm{d}s_{jm} q_j, \quad
    \mathrm{d}v_m = \sum_j \rho_{jm} g_j
"""

from __future__ import annotations

from mooring.ops.triton.chunks import (
    chunks_of,
    find_chunk,
    find_nodes,
    finite,
    load_tile,
    scratch_row,
    store_tile,
    zero_if_excluded,
)
from mooring.ops.triton.language import jit, tl
from mooring.ops.triton.read_kernels import load_slots, score_slots


@jit
def segment_grads(scores, along, NODES: tl.constexpr, GROUPS: tl.constexpr, SLOTS: tl.constexpr):
    """Return the softmax within each segment of ``SLOTS`` columns, and the gradients of the scores."""
    scores = tl.reshape(scores, (NODES, GROUPS, SLOTS))
    along = tl.reshape(along, (NODES, GROUPS, SLOTS))
    shares = tl.exp(scores - finite(tl.max(scores, axis=2))[:, :, None])
    mass = tl.sum(shares, axis=2)
    shares = shares / tl.where(mass == 0.0, 1.0, mass)[:, :, None]
    grad_scores = shares * (along - tl.sum(shares * along, axis=2)[:, :, None])
    return tl.reshape(shares, (NODES, GROUPS * SLOTS)), tl.reshape(grad_scores, (NODES, GROUPS * SLOTS))


@jit
def read_rows(
    query, key, value, ptr, order, grad_context, log_mass, offset,
    grad_query, grad_key, grad_value, partial_key, partial_value,
    num_nodes, num_graphs, half, slots, parts, groups, dim, width,
    query_node, query_part, key_graph, key_slot, key_head, value_graph, value_slot, value_head,
    CHUNK: tl.constexpr, NODES: tl.constexpr, GROUPS: tl.constexpr, SLOTS: tl.constexpr,
    DIM: tl.constexpr, WIDTH: tl.constexpr, ALL_SLOTS: tl.constexpr, RESIDUAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute gradients of a block of keys and values, summed over the nodes of one chunk.

    They are stored like the states of a write. With ``ALL_SLOTS`` the block has all slots of the ``groups`` of its
    part, one segment per group, and the gradients of the queries are computed in the same pass. Otherwise it has slots
    of one head (``GROUPS`` is one), and the softmax uses ``log_mass`` and ``offset`` ``[nodes, heads]`` of
    :func:`read_nodes`.
    """
    chunk, part = tl.program_id(0), tl.program_id(1)
    if ALL_SLOTS:
        group = tl.arange(0, GROUPS * SLOTS) // SLOTS
        slot = tl.arange(0, GROUPS * SLOTS) % SLOTS
    else:
        blocks = tl.cdiv(slots, SLOTS)
        group = tl.zeros((SLOTS,), tl.int32) + tl.program_id(2) // blocks
        slot = (tl.program_id(2) % blocks) * SLOTS + tl.arange(0, SLOTS)
    slot_ok = (slot < slots) & (group < groups)
    head = part + group
    heads = parts * groups
    graph, start, stop = find_chunk(chunk, ptr, num_nodes, num_graphs, CHUNK)
    if start < stop:
        known_ok = slot_ok & (slot < zero_if_excluded(graph, num_graphs, slots))
        keys = load_slots(key, graph, slot, known_ok, head, key_graph, key_slot, key_head, dim, DIM)
        values = load_slots(value, graph, slot, known_ok, head, value_graph, value_slot, value_head, width, WIDTH)
        grad_keys = tl.zeros((GROUPS * SLOTS, DIM), tl.float32)
        grad_values = tl.zeros((GROUPS * SLOTS, WIDTH), tl.float32)
        for at in range(start, stop, NODES):
            node, inside, live = find_nodes(at, stop, graph, num_graphs, order, NODES)
            queries = load_tile(query + part * query_part, node, live, query_node, dim, DIM)
            scores = score_slots(queries, keys, slot_ok, PRECISION)
            grads = load_tile(grad_context, node * parts + part, live, width, width, WIDTH)
            along = tl.dot(grads, tl.trans(values), input_precision=PRECISION)
            if ALL_SLOTS:
                shares, grad_scores = segment_grads(scores, along, NODES, GROUPS, SLOTS)
            else:
                place = node * heads + part + tl.program_id(2) // tl.cdiv(slots, SLOTS)
                log = tl.load(log_mass + place, mask=live, other=0.0)
                mean = tl.load(offset + place, mask=live, other=0.0)
                shares = tl.exp(scores - log[:, None])
                grad_scores = shares * (along - mean[:, None])
            grad_values = tl.dot(tl.trans(shares), grads, grad_values, input_precision=PRECISION)
            grad_keys = tl.dot(tl.trans(grad_scores), queries, grad_keys, input_precision=PRECISION)
            if ALL_SLOTS:
                plus = tl.zeros((NODES, DIM), tl.float32)
                if RESIDUAL:
                    plus = load_tile(grad_context, node * parts + part, inside, width, width, DIM)
                grad_queries = tl.dot(grad_scores, keys, plus, input_precision=PRECISION)
                store_tile(grad_query, grad_queries, node * parts + part, inside, dim, dim, DIM)
        if graph < num_graphs:
            first, count = chunks_of(graph, ptr, CHUNK)
            if count == 1:
                cell = (graph * slots + slot) * heads + head
                store_tile(grad_key, grad_keys, cell, slot_ok, dim, dim, DIM)
                store_tile(grad_value, grad_values, cell, slot_ok, width, width, WIDTH)
            else:
                cell = (scratch_row(chunk, graph, first, count, half) * slots + slot) * heads + head
                store_tile(partial_key, grad_keys, cell, slot_ok, dim, dim, DIM)
                store_tile(partial_value, grad_values, cell, slot_ok, width, width, WIDTH)


@jit
def read_nodes(
    query, key, value, ptr, order, grad_context, log_mass, offset, grad_query,
    num_nodes, num_graphs, slots, parts, groups, dim, width,
    query_node, query_part, key_graph, key_slot, key_head, value_graph, value_slot, value_head,
    NODES: tl.constexpr, SLOTS: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
    RESIDUAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    r"""Compute gradients of a block of queries over all blocks of slots, if slots do not fit into one block.

    Stores :math:`\log \sum_m e^{s_{jm}}` and :math:`\sum_m \rho_{jm} g_j^\top v_m` of each head for :func:`read_rows`.
    """
    part = tl.program_id(1)
    graph, start, stop = find_chunk(tl.program_id(0), ptr, num_nodes, num_graphs, NODES)
    if start < stop:
        node, inside, live = find_nodes(start, stop, graph, num_graphs, order, NODES)
        known_slots = zero_if_excluded(graph, num_graphs, slots)
        queries = load_tile(query + part * query_part, node, live, query_node, dim, DIM)
        grads = load_tile(grad_context, node * parts + part, live, width, width, WIDTH)
        grad_queries = tl.zeros((NODES, DIM), tl.float32)
        if RESIDUAL:
            grad_queries = load_tile(grad_context, node * parts + part, inside, width, width, DIM)
        for group in range(groups):
            head = part + group
            top = tl.full((NODES,), float("-inf"), tl.float32)
            mass = tl.zeros((NODES,), tl.float32)
            total = tl.zeros((NODES,), tl.float32)
            for first in range(0, slots, SLOTS):
                slot = first + tl.arange(0, SLOTS)
                slot_ok = slot < slots
                keys = load_slots(key, graph, slot, slot < known_slots, head, key_graph, key_slot, key_head, dim, DIM)
                values = load_slots(
                    value, graph, slot, slot < known_slots, head, value_graph, value_slot, value_head, width, WIDTH
                )
                scores = score_slots(queries, keys, slot_ok, PRECISION)
                new_top = tl.maximum(top, tl.max(scores, axis=1))
                shrink = tl.exp(top - finite(new_top))
                shares = tl.exp(scores - finite(new_top)[:, None])
                along = tl.dot(grads, tl.trans(values), input_precision=PRECISION)
                mass = mass * shrink + tl.sum(shares, axis=1)
                total = total * shrink + tl.sum(shares * along, axis=1)
                top = new_top
            log, mean = tl.log(mass) + finite(top), total / mass
            tl.store(log_mass + node * (parts * groups) + head, log, mask=inside)
            tl.store(offset + node * (parts * groups) + head, mean, mask=inside)
            for first in range(0, slots, SLOTS):
                slot = first + tl.arange(0, SLOTS)
                slot_ok = slot < slots
                keys = load_slots(key, graph, slot, slot < known_slots, head, key_graph, key_slot, key_head, dim, DIM)
                values = load_slots(
                    value, graph, slot, slot < known_slots, head, value_graph, value_slot, value_head, width, WIDTH
                )
                shares = tl.exp(score_slots(queries, keys, slot_ok, PRECISION) - log[:, None])
                along = tl.dot(grads, tl.trans(values), input_precision=PRECISION)
                grad_scores = shares * (along - mean[:, None])
                grad_queries = tl.dot(grad_scores, keys, grad_queries, input_precision=PRECISION)
        store_tile(grad_query, grad_queries, node * parts + part, inside, dim, dim, DIM)


@jit
def merge_sums(
    grad_key, grad_value, partial_key, partial_value, ptr, half, cells, dim, width,
    CHUNK: tl.constexpr, COUNT: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Sum the partial gradients of one graph; zero for an empty graph. One program per graph and cell."""
    graph, cell = tl.program_id(0).to(tl.int64), tl.program_id(1)
    first, count = chunks_of(graph, ptr, CHUNK)
    if count != 1:
        key_sum = tl.zeros((DIM,), tl.float32)
        value_sum = tl.zeros((WIDTH,), tl.float32)
        for at in range(0, count, COUNT):
            number = at + tl.arange(0, COUNT)
            row = first + number + tl.where(number == count - 1, half, 0)
            place = row * cells + cell
            key_sum += tl.sum(load_tile(partial_key, place, number < count, dim, dim, DIM), axis=0)
            value_sum += tl.sum(load_tile(partial_value, place, number < count, width, width, WIDTH), axis=0)
        column = tl.arange(0, DIM)
        tl.store(grad_key + (graph * cells + cell) * dim + column, key_sum, mask=column < dim)
        column = tl.arange(0, WIDTH)
        tl.store(grad_value + (graph * cells + cell) * width + column, value_sum, mask=column < width)
