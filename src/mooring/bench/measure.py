"""Time of one call."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

# A contestant that takes this many seconds a call is timed once, warm-up and all: its ratio needs no second digit.
PATIENCE = 4.0


class Timing(NamedTuple):
    """The least time counts, since noise only adds; the median over it says how noisy the machine was."""

    least: float
    median: float


def seconds(functions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Timing]:
    """Time the functions; rounds take turns, so that a noisy moment hits all of them alike.

    A turn is two calls: the second one finds the memory that the first one needed.
    """
    times = {name: [_seconds(function)] for name, function in functions.items()}
    quick = {name: function for name, function in functions.items() if times[name][0] < PATIENCE}
    for name in quick:
        times[name].clear()
    for _ in range(repeats):
        for name, function in quick.items():
            times[name] += [_seconds(function), _seconds(function)]
    return {name: Timing(min(values), statistics.median(values)) for name, values in times.items()}


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def step(forward: Callable[[Tensor], Tensor], module: nn.Module, x: Tensor, *, backward: bool) -> Callable[[], object]:
    """One training step's share, forward and backward to parameters and input, or a forward without gradients."""
    slope: list[Tensor] = []

    def with_gradients() -> None:
        module.zero_grad(set_to_none=True)
        leaf = x.detach().requires_grad_()
        out = forward(leaf)
        if not slope:  # what a caller hands to the backward is the caller's, in time and in memory
            slope.append(torch.ones_like(out))
        out.backward(slope[0])

    def without_gradients() -> None:
        with torch.no_grad():
            forward(x)

    return with_gradients if backward else without_gradients
