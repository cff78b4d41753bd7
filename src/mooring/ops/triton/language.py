"""Triton's language if Triton is installed; else placeholders, with which kernels can be imported but not launched."""

from __future__ import annotations

import os
from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = tl = None

# Whether kernels run in Triton's interpreter on the CPU; Triton reads the variable when a kernel is decorated.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
HINT = (
    "mooring.ops.triton: this back end needs Triton, which is not installed. Run `pip install triton` (Linux, a GPU), "
    "or use another back end."
)


def jit(kernel: Any) -> Any:
    """Apply ``triton.jit`` without specialisation on the numbers of nodes and graphs: all batches share a binary."""
    if triton is None:
        return kernel
    return triton.jit(do_not_specialize=["num_nodes", "num_graphs", "num_chunks", "half"])(kernel)


__all__ = ["HINT", "INTERPRETED", "jit", "tl", "triton"]
