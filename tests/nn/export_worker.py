"""Export modules by strict tracing, and one of them to AOTInductor; run by test_export without shape checks.

Argument: where to put the package. Prints one JSON object: how far each is off, on batches of other sizes: several
graphs, one node, no nodes.
"""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mooring.nn import SlotVirtualNode, VirtualNode

CHANNELS = 16


def batch(*sizes: int) -> tuple[Tensor, Tensor]:
    index = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes, dtype=torch.long))
    return torch.randn(index.numel(), CHANNELS), index


def export(module: nn.Module) -> Any:
    nodes = torch.export.Dim("nodes", min=2)
    return torch.export.export(module, batch(4, 7), dynamic_shapes=({0: nodes}, {0: nodes}), strict=True)


def ahead(program: Any, path: str) -> Callable[..., Tensor]:
    # Compiled for a check and not for speed.
    options = {"aot_inductor.compile_wrapper_opt_level": "O0"}
    package = torch._inductor.aoti_compile_and_package(program, package_path=path, inductor_configs=options)
    return torch._inductor.aoti_load_package(package)


def difference(program: Callable[..., Tensor], module: nn.Module) -> float:
    error = 0.0
    for sizes in ((5, 3, 9), (1,), ()):
        arguments = batch(*sizes)
        out, expected = program(*arguments), module(*arguments)
        assert out.shape == expected.shape, sizes
        error = max(error, *(out - expected).abs().flatten().tolist(), 0.0)
    return error


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # torch's, about itself
    errors = {}
    for name, module in (("sum", VirtualNode(CHANNELS, "sum")), ("slots", SlotVirtualNode(CHANNELS, 3, init_std=0.5))):
        program = export(module.eval())
        errors[f"strict, {name}"] = difference(program.module(), module)
    if shutil.which("g++") is not None:
        errors["ahead of time"] = difference(ahead(program, sys.argv[1]), module)
    print(json.dumps(errors))
