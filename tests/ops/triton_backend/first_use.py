"""The first use of a device, which is the CPU with Triton's interpreter, by each of the arguments ``FAULT:HOW``.

Prints for each what was called or chosen, in this order, and every warning.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

from unittest.mock import patch

import torch

from mooring import ops
from mooring.nn import SlotVirtualNode
from mooring.ops import backend
from mooring.ops.triton import launch, proof

RUN, FIND = launch.run, proof.find_fault


def broken(fault: str) -> Any:
    """Return a way to run kernels by which one does not compile, or has an output a hundredth too large."""
    kernel, _, output = fault.partition(".")

    def run(one: Any, grid: tuple[int, ...], **arguments: Any) -> None:
        if one.__name__ == kernel and not output:
            raise RuntimeError(f"{kernel} does not compile")
        RUN(one, grid, **arguments)
        if one.__name__ == kernel:
            arguments[output].mul_(1.01)

    return run


def use(how: str) -> list[str]:
    """Return what was called or chosen."""
    torch.manual_seed(0)
    memory, batch, x = SlotVirtualNode(16, 2, 2), torch.arange(3).repeat_interleave(4), torch.randn(12, 16)
    called: list[str] = []

    def find(*key: Any) -> str:
        called.append("check")
        return FIND(*key)

    def choose() -> None:
        called.append(backend.select(ops.plan(batch), x.unsqueeze(1)).__name__.rpartition(".")[2])

    # Without the C++ operators the code for a CPU is the plain one.
    plain = patch.object(backend, "load_native", lambda: None)
    with plain, patch.object(proof, "find_fault", find), patch.dict(proof._faults, clear=True):
        if how == "threads":
            threads = [threading.Thread(target=choose) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        elif how == "modes":
            with torch.inference_mode(), torch.autocast("cpu"), torch.device("meta"):
                choose()
        elif how == "forced":
            with ops.use_backend("triton"):
                choose()
                try:
                    memory(x, batch)
                except RuntimeError as error:
                    called.append(str(error).replace(" ", "-"))
        elif how == "compiled":
            with ops.use_backend("plain"):
                expected = memory(x, batch)
            torch.compiler.reset()
            out = torch.compile(memory, fullgraph=True, backend="aot_eager")(x, batch, num_graphs=3)
            called.append(f"{torch.allclose(out, expected, atol=1e-5)}")
        choose()
    return called


def main(cases: list[str]) -> None:
    backend.TRITON_DEVICES = ("cpu",)
    for case in cases:
        fault, how = case.split(":")
        with patch.object(launch, "run", broken(fault)), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            called = use(how)
        said = [str(one.message) for one in caught if "mooring" in str(one.message)]
        print(json.dumps([called, said]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
