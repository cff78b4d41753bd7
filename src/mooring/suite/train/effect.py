"""Options of a memory that a model has no use for: seen from its first step, not from a list that could be wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from mooring.nn import MemoryOptions
from mooring.suite.train.config import flat, leaves
from mooring.suite.train.experiment import Experiment, MemoryConfig, TrainConfig
from mooring.suite.train.fit import derive_seed, seed_torch


def idle_note(experiment: Experiment, preset: str, changed: Iterable[str]) -> str:
    """What to tell of the options that were set and leave the model as it is; nothing if there are none."""
    with torch.random.fork_rng(devices=[]):
        idle = idle_options(experiment, type(experiment).presets[preset], changed)
    if not idle:
        return ""
    return (
        f"set without effect: {', '.join(idle)}. {experiment.model!r} has no such option or sets it itself; the record "
        "has it under 'config' all the same, and the options as built under 'options'."
    )


def idle_options(experiment: Experiment, preset: TrainConfig, changed: Iterable[str]) -> list[str]:
    """Those of the changed options of the memory with which the model starts, and takes its first step, as without.

    A module may fix an option that others leave open, or have no place for it. The random state is changed.

    Args:
        experiment: what is to be trained.
        preset: what it was made from.
        changed: the fields in which it differs.
    """
    config = experiment.config
    if not isinstance(config, MemoryConfig):
        return []
    ours, before = flat(config), flat(preset)
    options = [name for name in changed if name in leaves(MemoryOptions) and ours[name] != before[name]]
    if not options:
        return []
    batch = experiment.train_batch(0, 0)
    first = _first_step(experiment, batch)

    def idle(name: str) -> bool:
        try:
            back = type(experiment)(config.but(**{name: before[name]}), experiment.model, experiment.seed)
            return _equal(first, _first_step(back, batch))
        except ValueError:  # the other options cannot do without it
            return False

    return [name for name in options if idle(name)]


def _first_step(experiment: Experiment, batch: Any) -> list[Tensor | None]:
    """Initial weights, the first loss and its gradients, which also tell of what starts at nothing, such as FiLM."""
    seed_torch(derive_seed(experiment.seed, "build"))
    net: nn.Module = experiment.build().train()
    start = [value.clone() for value in net.state_dict().values()]
    with torch.enable_grad():
        loss, _ = experiment.loss(net, batch, 0)
        loss.backward()
    return [*start, loss.detach(), *(parameter.grad for parameter in net.parameters())]


def _equal(left: list[Tensor | None], right: list[Tensor | None]) -> bool:
    if len(left) != len(right):
        return False
    pairs = zip(left, right, strict=True)
    return all(a is b if a is None or b is None else torch.equal(a, b) for a, b in pairs)
