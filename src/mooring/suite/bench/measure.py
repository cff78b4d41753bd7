"""Time of one call."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

# A contestant whose first call takes this many seconds is timed in one round only: its ratio needs no second digit.
PATIENCE = 4.0


class Timing(NamedTuple):
    """The least time counts, since noise only adds; the median over it says how noisy the machine was."""

    least: float
    median: float


def seconds(functions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Timing]:
    """Time the functions; rounds take turns, so that a noisy moment hits all of them alike.

    A turn is two calls: the second one finds the memory that the first one needed. The very first call of each is not
    counted, since it fetches its memory from the system.
    """
    rounds = {name: repeats if _seconds(function) < PATIENCE else 1 for name, function in functions.items()}
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(repeats):
        for name, function in functions.items():
            if turn < rounds[name]:
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
