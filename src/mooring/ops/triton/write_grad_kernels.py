# mypy: disable-error-code=no-untyped-def
r"""Kernels of the write's backward: scores are recomputed, sums are taken in a fixed order.

With :math:`p_i = e^{s_i} / Z` and the gradients :math:`g` of :math:`\mu` and :math:`\gamma` of :math:`\log Z`:

.. math::
    \mathrm{d}s_i = p_i (g^\top v_i - g^\top \mu + \gamma), \qquad
    \mathrm{d}q = \sum_i \mathrm{d}s_i k_i, \quad \mathrm{d}k_i = \sum_q \mathrm{d}s_i q, \quad
    \mathrm{d}v_i = \sum_q p_i g, \quad \mathrm{d}\log w_i = \sum_q \mathrm{d}s_i
"""

from __future__ import annotations

from mooring.ops.triton.chunks import find_chunk, find_nodes, load_tile, store_tile, zero_if_excluded
from mooring.ops.triton.language import jit, tl
from mooring.ops.triton.write_kernels import load_nodes


@jit
def load_grads(
    content, top, rest, grad_content, grad_log_mass, graph, num_graphs, part, row, rows, parts, width,
    WIDTH: tl.constexpr,
):  # fmt: skip
    r"""Load :math:`g` and both summands of :math:`\log Z`; compute :math:`g^\top \mu - \gamma` of each row."""
    cell = (graph * rows + row) * parts + part
    cell_ok = row < zero_if_excluded(graph, num_graphs, rows)
    grads = load_tile(grad_content, cell, cell_ok, width, width, WIDTH)
    means = load_tile(content, cell, cell_ok, width, width, WIDTH)
    # Rows beyond the last have infinite mass, so that all their weights are zero.
    origin = tl.load(top + cell, mask=cell_ok, other=0.0)
    log = tl.load(rest + cell, mask=cell_ok, other=float("inf"))
    offset = tl.sum(grads * means, axis=1) - tl.load(grad_log_mass + cell, mask=cell_ok, other=0.0)
    return grads, origin, log, offset


@jit
def score_grads(queries, keys, values, weight, grads, origin, log, offset, PRECISION: tl.constexpr):
    """Return the softmax and the gradients of the scores, ``[NODES, ROWS]``; both zero for excluded nodes."""
    scores = tl.dot(keys, tl.trans(queries), input_precision=PRECISION) + tl.trans(weight)
    shares = tl.exp(scores - origin[None, :] - log[None, :])
    along = tl.dot(values, tl.trans(grads), input_precision=PRECISION)
    # The incoming gradient of a row to which nothing was written may be NaN.
    return shares, tl.where(shares == 0.0, 0.0, shares * (along - offset[None, :]))


@jit
def store_weight_grads(
    grad_log_weight, grad_scores, node, inside, part, row, row_ok, rows, parts, PER_ROW: tl.constexpr
):
    """Store the gradients of log weights: per row as they are, per node summed over the rows of each part."""
    if PER_ROW:
        place = (node[:, None] * rows + row[None, :]) * parts + part
        tl.store(grad_log_weight + place, grad_scores, mask=inside[:, None] & row_ok[None, :])
    else:
        tl.store(grad_log_weight + node * parts + part, tl.sum(grad_scores, axis=1), mask=inside)


@jit
def write_rows(
    query, key, value, ptr, order, log_weight, content, top, rest, grad_content, grad_log_mass,
    grad_query, grad_key, grad_value, grad_log_weight,
    num_nodes, num_graphs, num_chunks, rows, parts, dim, width,
    query_row, query_part, key_node, key_part, value_node, value_part, weight_node, weight_row, weight_part,
    CHUNK: tl.constexpr, ROWS: tl.constexpr, NODES: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
    PER_ROW: tl.constexpr, ALL_ROWS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute gradients of a block of queries, summed over every ``num_programs``-th chunk.

    A sum over programs follows. With ``ALL_ROWS`` the block has every row of its part, and the gradients of the nodes
    are computed in the same pass.
    """
    program, part = tl.program_id(0), tl.program_id(1)
    row = tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    row_ok = row < rows
    queries = load_tile(query + part * query_part, row, row_ok, query_row, dim, DIM)
    grad_queries = tl.zeros((ROWS, DIM), tl.float32)
    for chunk in range(program, num_chunks, tl.num_programs(0)):
        graph, start, stop = find_chunk(chunk, ptr, num_nodes, num_graphs, CHUNK)
        grads, origin, log, offset = load_grads(
            content, top, rest, grad_content, grad_log_mass, graph, num_graphs, part, row, rows, parts, width,
            WIDTH,
        )  # fmt: skip
        for at in range(start, stop, NODES):
            node, inside, live = find_nodes(at, stop, graph, num_graphs, order, NODES)
            keys, values, weight = load_nodes(
                key, value, log_weight, node, live, part, row, row_ok, dim, width,
                key_node, key_part, value_node, value_part, weight_node, weight_row, weight_part,
                DIM, WIDTH, PER_ROW,
            )  # fmt: skip
            shares, grad_scores = score_grads(queries, keys, values, weight, grads, origin, log, offset, PRECISION)
            grad_queries = tl.dot(tl.trans(grad_scores), keys, grad_queries, input_precision=PRECISION)
            if ALL_ROWS:
                if log_weight is not None:
                    store_weight_grads(
                        grad_log_weight, grad_scores, node, inside, part, row, row_ok, rows, parts, PER_ROW
                    )
                if value is None:
                    grad_keys = tl.dot(shares, grads, input_precision=PRECISION)
                else:
                    grad_values = tl.dot(shares, grads, input_precision=PRECISION)
                    store_tile(grad_value, grad_values, node * parts + part, inside, width, width, WIDTH)
                    grad_keys = tl.zeros((NODES, DIM), tl.float32)
                grad_keys = tl.dot(grad_scores, queries, grad_keys, input_precision=PRECISION)
                store_tile(grad_key, grad_keys, node * parts + part, inside, dim, dim, DIM)
    store_tile(grad_query, grad_queries, (program * rows + row) * parts + part, row_ok, dim, dim, DIM)


@jit
def write_nodes(
    query, key, value, ptr, order, log_weight, content, top, rest, grad_content, grad_log_mass,
    grad_key, grad_value, grad_log_weight,
    num_nodes, num_graphs, rows, parts, dim, width,
    query_row, query_part, key_node, key_part, value_node, value_part, weight_node, weight_row, weight_part,
    ROWS: tl.constexpr, NODES: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
    PER_ROW: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute gradients of a block of nodes, summed over all blocks of rows, if rows do not fit into one block."""
    part = tl.program_id(1)
    graph, start, stop = find_chunk(tl.program_id(0), ptr, num_nodes, num_graphs, NODES)
    if start < stop:
        node, inside, live = find_nodes(start, stop, graph, num_graphs, order, NODES)
        grad_keys = tl.zeros((NODES, DIM), tl.float32)
        grad_values = tl.zeros((NODES, WIDTH), tl.float32)
        grad_weights = tl.zeros((NODES,), tl.float32)
        for first in range(0, rows, ROWS):
            row = first + tl.arange(0, ROWS)
            row_ok = row < rows
            queries = load_tile(query + part * query_part, row, row_ok, query_row, dim, DIM)
            grads, origin, log, offset = load_grads(
                content, top, rest, grad_content, grad_log_mass, graph, num_graphs, part, row, rows, parts, width,
                WIDTH,
            )  # fmt: skip
            keys, values, weight = load_nodes(
                key, value, log_weight, node, live, part, row, row_ok, dim, width,
                key_node, key_part, value_node, value_part, weight_node, weight_row, weight_part,
                DIM, WIDTH, PER_ROW,
            )  # fmt: skip
            shares, grad_scores = score_grads(queries, keys, values, weight, grads, origin, log, offset, PRECISION)
            if value is None:
                grad_keys = tl.dot(shares, grads, grad_keys, input_precision=PRECISION)
            else:
                grad_values = tl.dot(shares, grads, grad_values, input_precision=PRECISION)
            grad_keys = tl.dot(grad_scores, queries, grad_keys, input_precision=PRECISION)
            if PER_ROW:
                store_weight_grads(grad_log_weight, grad_scores, node, inside, part, row, row_ok, rows, parts, PER_ROW)
            else:
                grad_weights += tl.sum(grad_scores, axis=1)
        store_tile(grad_key, grad_keys, node * parts + part, inside, dim, dim, DIM)
        if value is not None:
            store_tile(grad_value, grad_values, node * parts + part, inside, width, width, WIDTH)
        if log_weight is not None and not PER_ROW:
            tl.store(grad_log_weight + node * parts + part, grad_weights, mask=inside)
