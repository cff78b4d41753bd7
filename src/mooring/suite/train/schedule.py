"""Training on a finite set: an epoch shows a graph at most once; the learning rate warms up and decays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mooring.suite.train.config import OutOfRange
from mooring.suite.train.experiment import Experiment, TrainConfig

LOWEST_RATE = 0.01


@dataclass(frozen=True)
class FiniteConfig(TrainConfig):
    """A :class:`TrainConfig` with a finite training set.

    Args:
        batch_size: graphs per step.
        train_graphs: size of the training set.
        warmup_epochs: epochs over which the learning rate rises, before it falls as a cosine.
    """

    batch_size: int = 16
    train_graphs: int = 4000
    warmup_epochs: float = 1.0

    at_least_one: ClassVar[tuple[str, ...]] = ("batch_size", "train_graphs")
    not_negative: ClassVar[tuple[str, ...]] = ("warmup_epochs",)

    def check_ranges(self) -> None:
        super().check_ranges()
        if self.steps_per_epoch * self.batch_size > self.train_graphs:
            raise OutOfRange(
                type(self).__name__,
                f"{self.steps_per_epoch} steps of {self.batch_size} graphs are more than "
                f"train_graphs={self.train_graphs}, and an epoch shows a graph once. Lower one of them.",
            )


class WarmedExperiment(Experiment):
    """An experiment whose config has ``warmup_epochs``."""

    def learning_rate_factor(self, epoch: int, step: int) -> float:
        config = self.config
        return warmup_then_cosine(
            epoch,
            step,
            epochs=config.epochs,
            steps_per_epoch=config.steps_per_epoch,
            warmup_epochs=config.warmup_epochs,
        )


class FiniteExperiment(WarmedExperiment):
    """An experiment on a finite training set."""

    config: FiniteConfig

    def chosen(self, epoch: int, step: int) -> NDArray[np.int64]:
        """Return the training graphs of a step."""
        return shuffled(np.arange(self.config.train_graphs), self.config.batch_size, self.seed, epoch, step)


def shuffled(numbers: NDArray[np.int64], batch_size: int, seed: int, epoch: int, step: int) -> NDArray[np.int64]:
    """Return the numbers that a step takes; every epoch has its own order."""
    order = np.random.default_rng((seed, epoch)).permutation(numbers)
    # With several devices an epoch has more batches than fit into the set, and starts over.
    first = step * batch_size % len(numbers)
    return np.take(order, range(first, first + batch_size), mode="wrap")


def warmup_then_cosine(epoch: int, step: int, *, epochs: int, steps_per_epoch: int, warmup_epochs: float) -> float:
    """Return the factor on the learning rate: a linear rise over ``warmup_epochs``, then a cosine down to a hundredth.

    >>> [warmup_then_cosine(epoch, 0, epochs=3, steps_per_epoch=4, warmup_epochs=1.0) for epoch in range(4)]
    [0.2, 1.0, 0.505, 0.01]
    """
    done = epoch + step / steps_per_epoch
    if done < warmup_epochs:
        # Above zero from the first step on.
        return (done + 1 / steps_per_epoch) / (warmup_epochs + 1 / steps_per_epoch)
    share = (done - warmup_epochs) / max(epochs - warmup_epochs, 1e-9)
    return LOWEST_RATE + (1 - LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))
