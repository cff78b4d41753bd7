"""A virtual node on the Triton back end and on the plain one: how many outputs and gradients differ."""

from __future__ import annotations

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from mooring import ops
from mooring.nn import VirtualNode

torch.manual_seed(0)
module, batch = VirtualNode(16, pool=sys.argv[1]), torch.arange(12) % 3  # type: ignore[arg-type]
x = torch.randn(12, 16)


def found(backend: ops.Backend) -> list[torch.Tensor]:
    with ops.use_backend(backend):
        nodes = x.clone().requires_grad_()
        out = module(nodes, batch)
        return [out, *torch.autograd.grad(out.square().sum(), [nodes, *module.parameters()])]


kernels, plain = found("triton"), found("plain")
different = [not torch.allclose(one, other, atol=1e-5) for one, other in zip(kernels, plain, strict=True)]
print(sum(different[:1]), sum(different[1:]))
