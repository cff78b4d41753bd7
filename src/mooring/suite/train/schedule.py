"""Learning-rate schedules that more than one task uses."""

from __future__ import annotations

import math

LOWEST_RATE = 0.01


def warmup_then_cosine(epoch: int, step: int, *, epochs: int, steps_per_epoch: int, warmup_epochs: float) -> float:
    """Factor on the learning rate: it rises linearly over ``warmup_epochs``, then falls as a cosine to a hundredth.

    >>> [warmup_then_cosine(epoch, 0, epochs=3, steps_per_epoch=4, warmup_epochs=1.0) for epoch in range(4)]
    [0.2, 1.0, 0.505, 0.01]
    """
    done = epoch + step / steps_per_epoch
    if done < warmup_epochs:
        # From the first step on above zero, so that it is not wasted.
        return (done + 1 / steps_per_epoch) / (warmup_epochs + 1 / steps_per_epoch)
    share = (done - warmup_epochs) / max(epochs - warmup_epochs, 1e-9)
    return LOWEST_RATE + (1 - LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))
