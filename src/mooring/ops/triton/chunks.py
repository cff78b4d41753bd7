# mypy: disable-error-code=no-untyped-def
"""How programs find their nodes: each graph is cut into chunks of at most ``CHUNK`` nodes.

The chunks of graph ``g`` are numbered from ``ptr[g] // CHUNK + g``. That leaves room for ``ceil(size / CHUNK)`` of
them, whatever the sizes, so no prefix sum is needed and ``num_nodes // CHUNK + num_graphs + 1`` programs cover every
batch. Numbers without nodes are idle, at most one per graph. Nodes behind ``ptr[-1]`` are left out; they come as a
graph of their own, number ``num_graphs``, so that their outputs can be set to zero.

A graph in one chunk is finished by its program. The chunks of a larger graph leave partial sums for a second kernel:
chunk ``c`` of graph ``g`` at row ``c - g`` of a scratch tensor, the graph's last chunk ``half`` rows further down,
where it cannot meet the first chunk of the next graph. The ``2 * half = 2 * (num_nodes // CHUNK + 1)`` rows do not grow
with the number of graphs.
"""

from __future__ import annotations

from mooring.ops.triton.language import jit, tl


@jit
def find_chunk(chunk, ptr, num_nodes, num_graphs, CHUNK: tl.constexpr):
    """Number of a chunk -> its graph, and where its places in the sorted batch start and stop.

    An idle number has no places and no graph: it comes with the number of the nodes left out, which load no slots.
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
    """The scratch row of a graph's first chunk, and the number of its chunks."""
    begin = tl.load(ptr + graph)
    end = tl.load(ptr + graph + 1)
    return begin // CHUNK, (end - begin + CHUNK - 1) // CHUNK


@jit
def scratch_row(chunk, graph, first, count, half):
    """The scratch row of one chunk."""
    row = chunk - graph
    return tl.where(row == first + count - 1, row + half, row)


@jit
def find_nodes(at, stop, graph, num_graphs, order, NODES: tl.constexpr):
    """Places ``at, at + 1, ...`` of the sorted batch -> node ids, which lie before ``stop``, and which take part."""
    node = at + tl.arange(0, NODES)
    inside = node < stop
    live = node < of_known(graph, num_graphs, stop)
    if order is not None:
        node = tl.load(order + node, mask=inside, other=0)
    return node, inside, live


@jit
def of_known(graph, num_graphs, count):
    """A count, or zero for the nodes that are left out, which have neither states nor slots."""
    return tl.where(graph < num_graphs, count, 0)


@jit
def load_tile(pointer, row, row_ok, stride, width, WIDTH: tl.constexpr):
    """Rows of a matrix in float32, zero where ``row_ok`` is false and beyond ``width``."""
    column = tl.arange(0, WIDTH)
    mask = row_ok[:, None] & (column < width)[None, :]
    return tl.load(pointer + row[:, None] * stride + column[None, :], mask=mask, other=0.0).to(tl.float32)


@jit
def store_tile(pointer, tile, row, row_ok, stride, width, WIDTH: tl.constexpr):
    """The counterpart of :func:`load_tile`, in the dtype of the matrix."""
    column = tl.arange(0, WIDTH)
    mask = row_ok[:, None] & (column < width)[None, :]
    tl.store(pointer + row[:, None] * stride + column[None, :], tile, mask=mask)


@jit
def finite(top):
    """Zero where there was no score, so that ``-inf - -inf`` is never formed."""
    return tl.where(top == float("-inf"), 0.0, top)
