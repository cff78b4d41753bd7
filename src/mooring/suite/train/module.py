"""The Lightning module around an experiment: the loss, AdamW, the learning rate, clipping, and the check for NaN."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import lightning
import torch
from torch import Tensor

from mooring.suite.train.experiment import Experiment


class NonFiniteLoss(ArithmeticError):
    """Training met a loss or gradient that is nan or infinite."""


class TrainingModule(lightning.LightningModule):
    """Trains one experiment from `first_epoch` on.

    Nothing here outlives an epoch except weights and optimizer state: the learning rate is set anew at each step and
    the global random state at each epoch, so a run that resumes at an epoch repeats the uninterrupted one exactly.

    Args:
        experiment: What to train.
        net: Its network.
        first_epoch: Where to go on; Lightning itself always counts from 0.
        optimizer_state: Tensors of :func:`optimizer_tensors` to go on with.
    """

    def __init__(
        self,
        experiment: Experiment,
        net: torch.nn.Module,
        first_epoch: int = 0,
        optimizer_state: dict[str, Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.experiment = experiment
        self.net = net
        self.first_epoch = first_epoch
        self.optimizer_state = optimizer_state or {}
        self.base_rates: list[float] = []
        self.sums: dict[str, float] = {}

    @property
    def epoch(self) -> int:
        """The epoch of the run, counted from 0 over all resumes."""
        return self.first_epoch + self.current_epoch

    def configure_optimizers(self) -> torch.optim.Optimizer:
        config = self.experiment.config
        groups = self.experiment.parameter_groups(self.net)
        optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)
        self.base_rates = [group["lr"] for group in optimizer.param_groups]
        if self.optimizer_state:
            restore_optimizer(optimizer, self.optimizer_state)
        return optimizer

    def on_train_epoch_start(self) -> None:
        seed_torch(derive_seed(self.experiment.seed, "epoch", self.epoch, self.global_rank))
        self.net.train()
        self.sums = {}

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        factor = self.experiment.learning_rate_factor(self.epoch, batch_idx)
        optimizer = self.optimizers(use_pl_optimizer=False)
        for group, rate in zip(optimizer.param_groups, self.base_rates, strict=True):
            group["lr"] = rate * factor

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss, parts = self.experiment.loss(self.net, batch, self.epoch)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise NonFiniteLoss(self._where(f"the loss is {value}", batch_idx))
        for name, part in {"loss": value, **parts}.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(part)
        return loss

    def configure_gradient_clipping(self, optimizer: torch.optim.Optimizer, *_: Any, **__: Any) -> None:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        clip = self.experiment.config.clip_norm
        # With no clipping the norm is still taken: one bad gradient would poison the weights of the next checkpoint.
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, math.inf if clip is None else clip))
        if not math.isfinite(norm):
            raise NonFiniteLoss(self._where(f"the gradient norm is {norm}", self.trainer.fit_loop.batch_idx))

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        # Batches are made where they are used; Lightning's walk through nested containers would cost more than a step's
        # bookkeeping.
        return batch

    def epoch_means(self) -> dict[str, float]:
        """Return the mean loss and parts over the epoch's steps (and ranks), and the last learning rate."""
        steps = self.experiment.config.steps_per_epoch
        sums = torch.tensor(list(self.sums.values()), dtype=torch.float64) / steps
        means = self.trainer.strategy.reduce(sums, reduce_op="mean").tolist()
        rate = self.optimizers(use_pl_optimizer=False).param_groups[0]["lr"]
        return {**{f"train/{name}": mean for name, mean in zip(self.sums, means, strict=True)}, "learning_rate": rate}

    def _where(self, what: str, step: int) -> str:
        run = f"{self.experiment.name}: {self.experiment.model}, seed {self.experiment.seed}"
        steps = self.experiment.config.steps_per_epoch
        return (
            f"{run}: {what} at epoch {self.epoch}, step {step} of {steps}. The last good checkpoint is kept. Lower "
            f"learning_rate ({self.experiment.config.learning_rate:g}) or clip_norm "
            f"({self.experiment.config.clip_norm}) and run again with another --out."
        )


class Steps:
    """One epoch's batches, made when they are asked for; rank r of k takes the batches of steps s * k + r."""

    def __init__(self, module: TrainingModule) -> None:
        self.module = module

    def __len__(self) -> int:
        return self.module.experiment.config.steps_per_epoch

    def __iter__(self) -> Iterator[Any]:
        ranks, rank = self.module.trainer.world_size, self.module.global_rank
        for step in range(len(self)):
            yield self.module.experiment.train_batch(self.module.epoch, step * ranks + rank)


def derive_seed(*parts: int | str) -> int:
    """Return a seed that depends on all parts and on nothing else, on every machine.

    >>> derive_seed(0, "build") == derive_seed(0, "build") != derive_seed(1, "build")
    True
    """
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:7], "big")


def seed_torch(seed: int) -> None:
    """Seed the generator that stochastic layers draw from on the CPU.

    ``torch.manual_seed`` would also queue a call, with its stack trace, for every kind of device that is absent.
    """
    torch.default_generator.manual_seed(seed)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's state as flat tensors keyed ``<parameter index>.<name>``."""
    state = optimizer.state_dict()["state"]
    return {f"{index}.{name}": value for index, values in state.items() for name, value in values.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put :func:`optimizer_tensors` back; the groups' settings come from the config, not from the file."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
