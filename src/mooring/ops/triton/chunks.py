# mypy: disable-error-code=no-untyped-def
"""Assignment of nodes to programs: each graph is cut into chunks of at most ``CHUNK`` nodes.

The chunks of graph ``g`` are numbered from ``ptr[g] // CHUNK + g``. For any sizes there are enough numbers for its
``ceil(size / CHUNK)`` chunks before those of the next graph, so no prefix sum is needed and
``num_nodes // CHUNK + num_graphs + 1`` programs cover every batch. Numbers without nodes are idle, at most one per
graph. Nodes at positions from ``ptr[-1]`` on are excluded; they form an additional graph, number ``num_graphs``, so
that their outputs can be set to zero.

A graph of one chunk is finished by its program. The chunks of a larger graph store partial sums for a second kernel:
chunk ``c`` of graph ``g`` in row ``c - g`` of a scratch tensor, but the last chunk of a graph ``half`` rows further on,
where it cannot collide with the first chunk of the next graph. The ``2 * half = 2 * (num_nodes // CHUNK + 1)`` rows do
not grow with the number of graphs.
"""

from __future__ import annotations

from mooring.ops.triton.language import jit, tl


@jit
def find_chunk(chunk, ptr, num_nodes, num_graphs, CHUNK: tl.constexpr):
    """Return the graph of a chunk, and the start and end of its positions in the sorted batch.

    An idle number has an empty range and the graph ``num_graphs`` of the excluded nodes, which loads no slots.
    """
    low = tl.full((), 0, tl.int32)
    high = low + num_graphs
    while low < high:
        middle = (low + high + 1) // 2
        reached = tl.load(ptr + middle) // CHUNK + middle <= chunk
        low = tl.where(reached, middle, low)
        high = tl.where(reached, high, middle - 1)
    begin = tl.load(ptr + low)
    end = tl.load(ptr + low + 1, mask=low < num_graphs, other=0)
    end = tl.where(low < num_graphs, end, num_nodes)
    start = begin + (chunk - low - begin // CHUNK) * CHUNK
    stop = tl.minimum(start + CHUNK, end)
    return tl.where(start < stop, low, num_graphs).to(tl.int64), start, stop


@jit
def chunks_of(graph, ptr, CHUNK: tl.constexpr):
    """Return the scratch row of the first chunk of a graph, and the number of its chunks."""
    begin = tl.load(ptr + graph)
    end = tl.load(ptr + graph + 1)
    return begin // CHUNK, (end - begin + CHUNK - 1) // CHUNK


@jit
def scratch_row(chunk, graph, first, count, half):
    """Return the scratch row of a chunk."""
    row = chunk - graph
    return tl.where(row == first + count - 1, row + half, row)


@jit
def find_nodes(at, stop, graph, num_graphs, order, NODES: tl.constexpr):
    """Return node ids at positions ``at, at + 1, ...``, the mask of those before ``stop``, and of active nodes."""
    node = at + tl.arange(0, NODES)
    inside = node < stop
    live = node < zero_if_excluded(graph, num_graphs, stop)
    if order is not None:
        node = tl.load(order + node, mask=inside, other=0)
    return node, inside, live


@jit
def zero_if_excluded(graph, num_graphs, count):
    """Return ``count``, or zero for the graph of the excluded nodes, which has neither states nor slots."""
    return tl.where(graph < num_graphs, count, 0)


@jit
def load_tile(pointer, row, row_ok, stride, width, WIDTH: tl.constexpr):
    """Load rows of a matrix as float32; zero if ``row_ok`` is false, and for columns from ``width`` on."""
    column = tl.arange(0, WIDTH)
    mask = row_ok[:, None] & (column < width)[None, :]
    return tl.load(pointer + row[:, None] * stride + column[None, :], mask=mask, other=0.0).to(tl.float32)


@jit
def store_tile(pointer, tile, row, row_ok, stride, width, WIDTH: tl.constexpr):
    """Store rows of a matrix in its dtype, with the same masks as :func:`load_tile`."""
    column = tl.arange(0, WIDTH)
    mask = row_ok[:, None] & (column < width)[None, :]
    tl.store(pointer + row[:, None] * stride + column[None, :], tile, mask=mask)


@jit
def finite(top):
    """Replace ``-inf`` by zero, so that ``-inf - -inf`` is never computed."""
    return tl.where(top == float("-inf"), 0.0, top)
