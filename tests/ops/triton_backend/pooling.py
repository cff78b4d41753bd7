"""A virtual node on the Triton back end and on the plain one: how many outputs and gradients differ."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch


def main(pool: Any) -> None:
    # Read when Triton is imported, which the ops do when they need it.
    os.environ["TRITON_INTERPRET"] = "1"
    from mooring import ops
    from mooring.nn import SlotVirtualNode, VirtualNode

    torch.manual_seed(0)
    module = SlotVirtualNode(16, 3, 2) if pool == "slots" else VirtualNode(16, pool=pool)
    batch, x, slopes = torch.arange(12) % 3, torch.randn(12, 16), torch.randn(2, 12, 16)
    found = []
    for backend in ("triton", "plain"):
        with ops.use_backend(backend):  # type: ignore[arg-type]
            nodes = x.clone().requires_grad_()
            out = module(nodes, batch)
            batched = torch.autograd.grad(out, nodes, slopes, retain_graph=True, is_grads_batched=True)
            found.append([out, *batched, *torch.autograd.grad(out.square().sum(), [nodes, *module.parameters()])])
    different = [not torch.allclose(one, other, atol=1e-5) for one, other in zip(*found, strict=True)]
    print(sum(different[:1]), sum(different[1:]))


if __name__ == "__main__":
    main(sys.argv[1])
