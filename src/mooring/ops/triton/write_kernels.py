# mypy: disable-error-code=no-untyped-def
"""Kernels of the write. Tiles of scores are ``[ROWS, NODES]``; all arithmetic is float32.

Heads with separate keys or values are ``parts`` with one row per slot. Heads that share both are rows of one part.
"""

from __future__ import annotations

from mooring.ops.triton.chunks import chunks_of, find_chunk, find_nodes, finite, load_tile, scratch_row, store_tile
from mooring.ops.triton.language import jit, tl


@jit
def load_nodes(
    key, value, log_weight, node, inside, part, row, row_ok, dim, width,
    key_node, key_part, value_node, value_part, weight_node, weight_row, weight_part,
    DIM: tl.constexpr, WIDTH: tl.constexpr, PER_ROW: tl.constexpr,
):  # fmt: skip
    """Load keys ``[NODES, DIM]``, values ``[NODES, WIDTH]`` and log-weights ``[ROWS or 1, NODES]``.

    Excluded nodes get zeros and ``-inf``; their rows are not read.
    """
    if log_weight is None:
        weight = tl.where(inside, 0.0, float("-inf"))[None, :]
        live = inside
    elif PER_ROW:
        place = node[None, :] * weight_node + row[:, None] * weight_row + part * weight_part
        mask = row_ok[:, None] & inside[None, :]
        weight = tl.load(log_weight + place, mask=mask, other=float("-inf")).to(tl.float32)
        live = tl.max(weight, axis=0) > float("-inf")
    else:
        vector = tl.load(log_weight + node * weight_node, mask=inside, other=float("-inf")).to(tl.float32)
        weight = vector[None, :]
        live = vector > float("-inf")
    keys = load_tile(key + part * key_part, node, live, key_node, dim, DIM)
    values = keys
    if value is not None:
        values = load_tile(value + part * value_part, node, live, value_node, width, WIDTH)
    return keys, values, weight


@jit
def store_mass(log_mass, top, rest, mass, origin, place, mask):
    """Store the log-mass, ``-inf`` for no mass, and its two summands for the backward, which are finite.

    ``mass`` is relative to ``origin``. Return ``mass`` with zeros replaced by one, as a divisor.
    """
    some = tl.where(mass == 0.0, 1.0, mass)
    log = tl.log(some)
    tl.store(log_mass + place, tl.where(mass == 0.0, float("-inf"), log + finite(origin)), mask=mask)
    tl.store(top + place, finite(origin), mask=mask)
    tl.store(rest + place, log, mask=mask)
    return some


@jit
def write_chunks(
    query, key, value, ptr, order, log_weight,
    content, log_mass, top, rest, partial_total, partial_mass, partial_top,
    num_nodes, num_graphs, half, rows, parts, dim, width,
    query_row, query_part, key_node, key_part, value_node, value_part, weight_node, weight_row, weight_part,
    CHUNK: tl.constexpr, ROWS: tl.constexpr, NODES: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
    PER_ROW: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    r"""Compute the state of one chunk: :math:`\log Z = \log \sum_i e^{s_i}`, :math:`\mu = \sum_i e^{s_i} v_i / Z`.

    Scores are relative to a running maximum ``origin``, so that no exponential overflows. One program per chunk, part
    and block of rows. A graph of one chunk gets its state here. The chunks of a larger graph store mass and total
    relative to ``origin``: a log-mass of 1e4 would have a rounding error of 5e-4, and so would the share of the chunk.
    """
    chunk, part = tl.program_id(0), tl.program_id(1)
    row = tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    row_ok = row < rows
    graph, start, stop = find_chunk(chunk, ptr, num_nodes, num_graphs, CHUNK)
    if graph < num_graphs:
        queries = load_tile(query + part * query_part, row, row_ok, query_row, dim, DIM)
        origin = tl.full((ROWS,), float("-inf"), tl.float32)
        mass = tl.zeros((ROWS,), tl.float32)
        total = tl.zeros((ROWS, WIDTH), tl.float32)
        for at in range(start, stop, NODES):
            node, _, live = find_nodes(at, stop, graph, num_graphs, order, NODES)
            keys, values, weight = load_nodes(
                key, value, log_weight, node, live, part, row, row_ok, dim, width,
                key_node, key_part, value_node, value_part, weight_node, weight_row, weight_part,
                DIM, WIDTH, PER_ROW,
            )  # fmt: skip
            scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION) + weight
            new_origin = tl.maximum(origin, tl.max(scores, axis=1))
            shrink = tl.exp(origin - finite(new_origin))
            shares = tl.exp(scores - finite(new_origin)[:, None])
            mass = mass * shrink + tl.sum(shares, axis=1)
            total = tl.dot(shares, values, total * shrink[:, None], input_precision=PRECISION)
            origin = new_origin
        first, count = chunks_of(graph, ptr, CHUNK)
        if count == 1:
            cell = (graph * rows + row) * parts + part
            some = store_mass(log_mass, top, rest, mass, origin, cell, row_ok)
            store_tile(content, total / some[:, None], cell, row_ok, width, width, WIDTH)
        else:
            cell = (scratch_row(chunk, graph, first, count, half) * rows + row) * parts + part
            store_tile(partial_total, total, cell, row_ok, width, width, WIDTH)
            tl.store(partial_mass + cell, mass, mask=row_ok)
            tl.store(partial_top + cell, origin, mask=row_ok)


@jit
def merge_states(
    content, log_mass, top, rest, partial_total, partial_mass, partial_top, ptr, half, cells, width,
    CHUNK: tl.constexpr, COUNT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    r"""Merge the partial states of one graph in a fixed order.

    .. math::
        \log Z = \log \sum_c Z_c, \qquad \mu = \sum_c Z_c \mu_c / Z

    One program per graph and cell (a row of a part), ``COUNT`` partial states at a time. An empty graph gets the
    identity, content 0 and log_mass ``-inf``. A graph of one chunk is finished already.
    """
    graph, cell = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = tl.arange(0, WIDTH)
    first, count = chunks_of(graph, ptr, CHUNK)
    if count != 1:
        origin = tl.full((), float("-inf"), tl.float32)
        mass = tl.full((), 0.0, tl.float32)
        total = tl.zeros((WIDTH,), tl.float32)
        for at in range(0, count, COUNT):
            number = at + tl.arange(0, COUNT)
            row = first + number + tl.where(number == count - 1, half, 0)
            place = row * cells + cell
            tops = tl.load(partial_top + place, mask=number < count, other=float("-inf"))
            masses = tl.load(partial_mass + place, mask=number < count, other=0.0)
            totals = load_tile(partial_total, place, number < count, width, width, WIDTH)
            new_origin = tl.maximum(origin, tl.max(tops, axis=0))
            shrink = tl.exp(origin - finite(new_origin))
            scale = tl.exp(tops - finite(new_origin))
            mass = mass * shrink + tl.sum(scale * masses, axis=0)
            total = total * shrink + tl.sum(scale[:, None] * totals, axis=0)
            origin = new_origin
        out = graph * cells + cell
        some = store_mass(log_mass, top, rest, mass, origin, out, None)
        tl.store(content + out * width + column, total / some, mask=column < width)
