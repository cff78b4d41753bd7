"""Time and memory of one call."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn


def seconds(functions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The least time of each function; rounds take turns, so that a noisy moment hits all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: min(values) for name, values in times.items()}


def spread(values: list[float]) -> float:
    """Median over least: how noisy the machine was."""
    return statistics.median(values) / min(values)


def step(forward: Callable[[Tensor], Tensor], module: nn.Module, x: Tensor, *, backward: bool) -> Callable[[], object]:
    """One training step's share, forward and backward to parameters and input, or a forward without gradients."""

    def with_gradients() -> None:
        module.zero_grad(set_to_none=True)
        leaf = x.detach().requires_grad_()
        out = forward(leaf)
        out.backward(torch.ones_like(out))

    def without_gradients() -> None:
        with torch.no_grad():
            forward(x)

    return with_gradients if backward else without_gradients
