r"""The write and the read as Triton kernels, for GPUs: variable-length graphs given by ``ptr``, no padding of nodes.

Importing this package does not need Triton; calling a launcher without Triton raises. Inputs are float16, bfloat16 or
float32; statistics, accumulators and scores are float32. There is no host sync and no shape depends on the data, so
every call can be captured in a CUDA graph.

The batch is given by ``ptr`` ``[graphs + 1]`` int64, the offsets of the graphs in the sorted batch, and by ``order``
``[nodes]`` int64, the node at each position of the sorted batch (None: the batch is sorted). Nodes at positions from
``ptr[-1]`` on are excluded. :func:`sort_graphs` computes both from graph ids. Graphs may be empty.

``write_forward(query, key, value, ptr, order=None, log_weight=None) -> content, log_mass, top, rest``
    query ``[slots, heads, dim]``, key ``[nodes, heads or 1, dim]``, value ``[nodes, heads or 1, vdim]`` or None if
    the keys are the values, log_weight ``[nodes]`` or ``[nodes, slots, heads]``; ``-inf`` excludes a node, even one
    that contains NaN. Returns content ``[graphs, slots, heads, vdim]`` and log_mass ``[graphs, slots, heads]``, 0 and
    ``-inf`` if nothing was written; and, for the backward, top and rest, both finite, whose sum is the log-mass before
    rounding.
``write_backward(grad_content, grad_log_mass, query, key, value, ptr, order, log_weight, content, top, rest)``
    Returns the gradients of query, key, value and log_weight, None for arguments that are None.
``read_forward(query, key, value, ptr, order=None, *, sum_heads=False, residual=False) -> context``
    query ``[nodes, heads or 1, dim]``, key ``[graphs or 1, slots, heads, dim]``, value
    ``[graphs, slots, heads, vdim]``. Returns context ``[nodes, heads, vdim]``, or ``[nodes, 1, vdim]`` with
    ``sum_heads``; ``residual`` adds the query. Excluded nodes get zero, or their query.
``read_backward(grad_context, query, key, value, ptr, order=None, *, sum_heads=False, residual=False)``
    Returns the gradients of query, key and value.

Folded projections: keys and values with a heads axis of one are loaded once, and all heads become rows of one matrix
product. The same holds for a query with a heads axis of one in a read with ``sum_heads``. Pass a folded query
``[parts, rows, dim]`` as ``query.transpose(0, 1)``: rows are slots, parts are heads.

Launches per call, independent of the sizes of the graphs:

- ``write_forward``: 2, ``write_chunks`` and ``merge_states``.
- ``write_backward``: 2, ``write_rows`` and a sum over its programs. One more (``write_nodes``) for more rows than one
  tile holds, and one for each of key, value and ``[nodes]`` weights that heads share while others are separate.
- ``read_forward``: 1, ``read_context``. One more if heads with separate queries are summed.
- ``read_backward``: 2, ``read_rows`` and ``merge_sums``. One more (``read_nodes``) for more slots than one tile holds,
  one for keys that graphs share, one for a query that heads share without being summed.

Copies that change a dtype or make a tensor contiguous are added; they also depend on shapes, strides and dtypes only.
Gradients are summed in a fixed order, so they are reproducible bit by bit.

Limits: ``dim`` and ``vdim`` up to 256 (padded to a power of two in registers only), no float64. The backward of float32
wider than 128 spills registers: correct but slow.
"""

from mooring.ops.plain import scores
from mooring.ops.triton.function import read, write
from mooring.ops.triton.launch import sort_graphs
from mooring.ops.triton.read import read_backward, read_forward
from mooring.ops.triton.write import write_backward, write_forward

__all__ = ["read", "read_backward", "read_forward", "scores", "sort_graphs", "write", "write_backward", "write_forward"]
