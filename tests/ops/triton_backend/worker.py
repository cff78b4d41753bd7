"""A process that runs kernels in Triton's interpreter, which must be chosen before anything imports Triton.

Reads pickled requests ``(function, arguments, keywords, settings)`` from its input and answers each in turn.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any
from unittest.mock import patch

os.environ["TRITON_INTERPRET"] = "1"

import torch

from mooring.ops import triton as kernels
from mooring.ops.triton import launch


def answer(function: str, arguments: list[Any], keywords: dict[str, Any], settings: dict[str, Any]) -> Any:
    """Return the outputs of a launcher with small tiles, so that few nodes fill several tiles."""
    with patch.multiple(launch, **settings):
        if function == "launches":
            return launches(*arguments, **keywords)
        return getattr(kernels, function)(*arguments, **keywords)


def launches(function: str, *arguments: Any, **keywords: Any) -> tuple[list[str], list[str]]:
    """Return the names of the kernels and torch operators that a launcher calls, without running kernels."""
    from torch.utils._python_dispatch import TorchDispatchMode

    operators: list[str] = []
    names: list[str] = []

    class Listen(TorchDispatchMode):
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            operators.append(str(operator))
            return operator(*args, **(kwargs or {}))

    def note(kernel: Any, grid: tuple[int, ...], **_: Any) -> None:
        names.append(f"{kernel.__name__}{grid}")

    with patch.object(launch, "run", note), Listen():
        getattr(kernels, function)(*arguments, **keywords)
    return names, operators


def main() -> None:
    torch.set_num_threads(1)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        try:
            done = ("done", answer(*request))
        except Exception as error:
            done = ("failed", f"{type(error).__name__}: {error}")
        pickle.dump(done, answers)
        answers.flush()


if __name__ == "__main__":
    main()
