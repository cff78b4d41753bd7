"""Random streams that depend on what is asked for, never on what was asked for before."""

from typing import Literal, get_args

import numpy as np

Split = Literal["train", "validation", "test", "diagnostic"]
SPLITS: tuple[Split, ...] = get_args(Split)


def stream(seed: int, split: Split, epoch: int = 0, step: int = 0) -> np.random.Generator:
    """Generator of one minibatch: a pure function of ``(seed, split, epoch, step)``.

    A run that is killed and resumed at any step therefore sees the data it would have seen.

    Args:
        seed: The run's seed, any size, not negative.
        split: Splits never share a stream, so validation data are fresh whatever the epoch.
        epoch: Epoch number.
        step: Minibatch number inside the epoch.

    Example:
        >>> int(stream(0, "train", epoch=3, step=7).integers(1000)) == int(stream(0, "train", 3, 7).integers(1000))
        True
    """
    if split not in SPLITS:
        raise ValueError(f"two-radius: unknown split {split!r}. Choose one of {', '.join(SPLITS)}.")
    # The key, unlike a list of entropy words, cannot run into a seed wider than 32 bits.
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(SPLITS.index(split), epoch, step)))
    )
