"""Mathematics on tensors: the state that a slot computes from a set of nodes, and how nodes read it.

Axes come in one order everywhere: nodes, graphs, slots, heads, dim.
"""

from typing import TYPE_CHECKING

from mooring.named import late
from mooring.ops.backend import current_backend, use_backend
from mooring.ops.film import film
from mooring.ops.flops import register as _register_flops
from mooring.ops.heads import map_heads
from mooring.ops.plan import Plan, plan
from mooring.ops.read import read, read_weights
from mooring.ops.state import SlotState, anchor_weight, anchored, log_odds, merge, softplus_odds
from mooring.ops.write import compete, write, write_weights

if TYPE_CHECKING:
    from mooring.ops.distributed import all_merge
    from mooring.ops.stream import NodeChunk, write_stream

__getattr__ = late(__name__, {"NodeChunk": "stream", "all_merge": "distributed", "write_stream": "stream"})


_register_flops()

__all__ = [
    "NodeChunk",
    "Plan",
    "SlotState",
    "all_merge",
    "anchor_weight",
    "anchored",
    "compete",
    "current_backend",
    "film",
    "log_odds",
    "map_heads",
    "merge",
    "plan",
    "read",
    "read_weights",
    "softplus_odds",
    "use_backend",
    "write",
    "write_stream",
    "write_weights",
]
