"""Peak memory of one call, in a process of its own: ``python -m mooring.bench.peak PEER NODES``."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import torch

from mooring.bench.measure import step
from mooring.bench.peers import PEERS


def peak_bytes(peer: str, num_nodes: int, dim: int, slots: int, heads: int) -> dict[str, int]:
    """Extra peak memory of a forward and backward on one graph, and the size of input + output + input gradient."""
    request = json.dumps([peer, num_nodes, dim, slots, heads])
    done = subprocess.run(
        [sys.executable, "-m", "mooring.bench.peak", request], capture_output=True, text=True, check=True
    )
    found: dict[str, int] = json.loads(done.stdout)
    return found


def _measure(peer: str, num_nodes: int, dim: int, slots: int, heads: int) -> dict[str, int]:
    torch.set_num_threads(1)
    module = PEERS[peer].build(dim, slots, heads)
    forward = PEERS[peer].call(module)

    def run(nodes: int) -> None:
        batch = torch.zeros(nodes, dtype=torch.long)
        step(lambda x: forward(x, batch, 1), module, torch.randn(nodes, dim), backward=True)()

    run(10_000)  # code, thread pools and parameter gradients are not the call's
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(num_nodes)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # x, the output, its gradient given to backward (ones), and the gradient of x; plus the graph ids.
    tensors = num_nodes * dim * 4
    return {"peak": (after - before) * 1024, "input_output_gradient": 3 * tensors, "tensor": tensors}


if __name__ == "__main__":
    print(json.dumps(_measure(*json.loads(sys.argv[1]))))
