"""Compiled modules on the Triton back end in the interpreter, beside uncompiled ones on the plain back end."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import torch
from torch import Tensor

from mooring import ops
from mooring.nn import SlotVirtualNode
from mooring.ops.triton import launch, operators, sort_graphs

NAMES: list[str] = []
SIZES = ([4, 0, 9, 3], [1, 20, 7, 2, 0, 5], [12, 3, 30])
CALLS = ("batch", "masks", "bfloat16")


def step(module: Any, x: Tensor, **how: Any) -> list[Tensor]:
    """Return the output, and the gradients of the nodes and of all parameters."""
    leaf = x.clone().requires_grad_()
    out = module(leaf, **how)
    inputs = [leaf, *(one for one in module.parameters() if one.requires_grad)]
    return [out, *torch.autograd.grad(out.float().square().sum(), inputs, allow_unused=True)]


def compare(backend: str) -> None:
    """Print the largest difference of each call; the sizes change without another trace."""
    torch.manual_seed(0)
    module = SlotVirtualNode(16, 3, 2, init_std=0.3)
    compiled = torch.compile(module, backend=backend, fullgraph=True, dynamic=True)
    from torch._dynamo.utils import counters

    for name in CALLS if backend == "aot_eager" else ("batch",):
        torch.compiler.reset()
        counters.clear()
        for sizes in SIZES[: 3 if name == "batch" else 1]:
            counts = torch.tensor(sizes)
            ids = torch.arange(len(sizes)).repeat_interleave(counts)
            ptr, x = torch.nn.functional.pad(counts.cumsum(0), (1, 0)), torch.randn(len(ids), 16)
            how: dict[str, Any] = {"ptr": ptr}
            if name == "batch":
                how = {"batch": ids.flip(0), "num_graphs": len(sizes)}
            elif name == "masks":
                how |= {
                    "sources": ids != 1,
                    "targets": torch.arange(len(ids)) % 3 > 0,
                    "log_weight": torch.randn(len(ids)),
                }
            with torch.autocast("cpu", enabled=name == "bfloat16"):
                with ops.use_backend("plain"):
                    right = step(module, x, **how)
                NAMES.clear()
                with ops.use_backend("triton"):
                    results = step(compiled, x, **how)
            pairs = [(a, b) for a, b in zip(results, right, strict=True) if b is not None]
            error = max(((a - b).abs().max() / b.abs().max().clamp(min=1e-3)).item() for a, b in pairs)
            launched = {"write_chunks", "write_rows", "read_context", "read_rows"} <= set(NAMES)
            graphs = counters["stats"]["unique_graphs"]
            print(name, len(sizes), f"{error:.1e}", launched, graphs, flush=True)


def check_operators() -> None:
    """Run ``torch.library.opcheck`` on each operator: schema, shapes, gradients, tracing with dynamic sizes."""
    torch.manual_seed(0)
    ptr, order = sort_graphs(torch.tensor([2, 0, -1, 0, 2, 2]), 3)
    draw = partial(torch.randn, requires_grad=True)
    half = partial(draw, dtype=torch.bfloat16)
    query, x = draw(3, 2, 4), draw(6, 1, 4)
    writes = [
        (query, x, None, None, ptr, order),
        (query.transpose(0, 1), draw(6, 3, 4), draw(6, 3, 5), draw(6), torch.tensor([0, 6]), None),
        (query, x, draw(6, 1, 5), draw(6, 3, 2), ptr, order),
        (half(3, 2, 4), half(6, 2, 4), half(6, 2, 5), None, ptr, order),
    ]
    slots = draw(3, 5, 2, 4)
    reads = [
        (x, slots, draw(3, 5, 2, 4), ptr, order, True, True),
        (draw(6, 2, 4), draw(1, 5, 2, 4), draw(3, 5, 2, 7), ptr, order, False, False),
        (half(6, 2, 4), half(3, 5, 2, 4), half(3, 5, 2, 7), ptr, order, False, False),
    ]
    for call in writes:
        torch.library.opcheck(operators.write_op, call)
        held = [one.detach() if isinstance(one, Tensor) else one for one in call]
        content, log_mass, *parts = operators.write_op(*held)
        torch.library.opcheck(operators.write_backward_op, (content, log_mass, *held, content, *parts))
    for call in reads:
        torch.library.opcheck(operators.read_op, call)
        held = [one.detach() if isinstance(one, Tensor) else one for one in call]
        torch.library.opcheck(operators.read_backward_op, (operators.read_op(*held), *held))
    print(len(writes), len(reads))


if __name__ == "__main__":
    run = launch.run
    launch.run = lambda kernel, grid, **arguments: (NAMES.append(kernel.__name__), run(kernel, grid, **arguments))
    check_operators() if sys.argv[1] == "operators" else compare(sys.argv[1])
