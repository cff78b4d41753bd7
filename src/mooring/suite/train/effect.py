"""Options of a memory that a model ignores, detected from its first training step."""

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
    """Return a note on the overridden options that the model ignores; empty if there are none."""
    with torch.random.fork_rng(devices=[]):
        idle = idle_options(experiment, type(experiment).presets[preset], changed)
    if not idle:
        return ""
    return (
        f"set without effect: {', '.join(idle)}. {experiment.model!r} has no such option or sets it itself; the record "
        "has it under 'config' all the same, and the options as built under 'options'."
    )


def idle_options(experiment: Experiment, preset: TrainConfig, changed: Iterable[str]) -> list[str]:
    """Return the overridden options that do not change the first training step, i.e. that the model ignores.

    A module may fix an option that others leave open, or not have it. The random state is changed.

    Args:
        experiment: the experiment to be trained.
        preset: the config that its own was made from.
        changed: the fields in which the two configs differ.
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
        except ValueError:  # the other options require it
            return False

    return [name for name in options if idle(name)]


def _first_step(experiment: Experiment, batch: Any) -> list[Tensor | None]:
    """Return initial weights, the first loss and its gradients, which also reveal parts that start at zero, as FiLM."""
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
