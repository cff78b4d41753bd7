"""Training from a checkpoint to the end. Lightning runs the steps."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import time
import warnings
from collections.abc import Iterator
from typing import Any

import lightning
import torch
from lightning.fabric.plugins.environments.lightning import LightningEnvironment, find_free_network_port
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch import Tensor, nn

from mooring.suite.files import end_with_parent
from mooring.suite.train.checkpoint import Checkpoint, CheckpointStore, optimizer_tensors, restore_optimizer
from mooring.suite.train.experiment import Experiment, derive_seed, seed_torch
from mooring.suite.train.view import Monitor, Progress

# A checkpoint costs tens of milliseconds and an epoch may be as short: lost epochs are simply repeated, exactly.
SECONDS_BETWEEN_CHECKPOINTS = 2.0


def fit(
    experiment: Experiment,
    net: nn.Module,
    state: Checkpoint,
    store: CheckpointStore,
    monitor: Monitor,
    devices: int,
    accelerator: str,
    logger: str | None,
) -> None:
    """Train `net` from `state` onwards; the result is the newest checkpoint of `store`, whose `done` is then set.

    With several devices each is a process with its own batches (see :class:`Steps`) and gradients are averaged. Only
    the training steps use a GPU; the network is evaluated on the CPU, where the batches are made.
    """
    module = TrainingModule(experiment, net, state, store, monitor)
    writer: Any = False
    callbacks: list[lightning.Callback] = []
    if logger is not None:
        from mooring.suite.memory_logger import follow

        writer, memories = follow(logger, experiment, store.folder, state.epochs_done)
        callbacks.append(memories)
    strategy: DDPStrategy | str = "auto"
    if devices > 1:
        # Spawned, because ranks of a fork server would share the memory of the weights and each apply its step to it.
        backend = "nccl" if accelerator == "cuda" else "gloo"
        strategy = DDPStrategy(process_group_backend=backend, start_method="spawn", find_unused_parameters=True)
    with _quiet():
        trainer = lightning.Trainer(
            accelerator=accelerator,
            devices=devices,
            strategy=strategy,
            plugins=[OneMachine()],
            max_epochs=experiment.config.epochs - state.epochs_done,
            callbacks=callbacks,
            default_root_dir=store.folder,
            logger=writer,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        try:
            trainer.fit(module, train_dataloaders=Steps(module))
        except SIGTERMException:
            # Without a code this would end the process as if it had succeeded.
            raise SystemExit(128 + signal.SIGTERM) from None


class NonFiniteLoss(ArithmeticError):
    """A loss or gradient became NaN or infinite in training."""


class OneMachine(LightningEnvironment):
    """The environment of the ranks of one run, independent of variables of Slurm, torchrun or an earlier run.

    A rank is one of the processes that train a run together, all on one machine.
    """

    def __init__(self) -> None:
        super().__init__()
        self.launcher = os.getpid()
        self.port = 0

    @property
    def creates_processes_externally(self) -> bool:
        return False

    @property
    def main_address(self) -> str:
        return "127.0.0.1"

    @property
    def main_port(self) -> int:
        # Read by the launcher before the ranks, which are given a copy of this object.
        self.port = self.port or find_free_network_port()
        return self.port

    def node_rank(self) -> int:
        return 0

    def local_rank(self) -> int:
        # In the launcher the variable was not set by Lightning.
        return 0 if os.getpid() == self.launcher else super().local_rank()


class TrainingModule(lightning.LightningModule):
    """Trains one experiment from a checkpoint onwards; evaluates, selects, saves and reports after each epoch.

    Nothing here outlives an epoch except the checkpoint's content: the learning rate is set anew at each step and the
    global random state at each epoch, so a run that resumes at an epoch repeats the uninterrupted one exactly.

    Args:
        checkpoint: where to resume; it is updated after each epoch.
        store, monitor: receive the checkpoints and the progress.
    """

    def __init__(
        self, experiment: Experiment, net: nn.Module, checkpoint: Checkpoint, store: CheckpointStore, monitor: Monitor
    ) -> None:
        super().__init__()
        self.experiment = experiment
        self.net = net
        self.checkpoint = checkpoint
        self.store = store
        self.monitor = monitor
        self.first_epoch, self.seconds_before = checkpoint.epochs_done, checkpoint.wall_seconds
        self.started = self.saved = 0.0
        self.base_rates: list[float] = []
        self.sums: dict[str, float] = {}

    @property
    def epoch(self) -> int:
        """The epoch of the run, counted from 0 over all resumes; Lightning itself always counts from 0."""
        return self.first_epoch + self.current_epoch

    def configure_optimizers(self) -> torch.optim.Optimizer:
        config = self.experiment.config
        groups = self.experiment.parameter_groups(self.net)
        optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)
        self.base_rates = [group["lr"] for group in optimizer.param_groups]
        if self.checkpoint.optimizer:
            restore_optimizer(optimizer, self.checkpoint.optimizer)
        return optimizer

    def on_train_start(self) -> None:
        self.started = self.saved = time.monotonic()
        if self.trainer.world_size > 1:
            # A rank whose launcher is killed would go on training beside the resumed run.
            end_with_parent()
            # Lightning's handler would wait for the other ranks, which received no signal.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

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
        self._check_finite("loss", value, batch_idx)
        for name, part in {"loss": value, **parts}.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(part)
        return loss

    def configure_gradient_clipping(self, optimizer: torch.optim.Optimizer, *_: Any, **__: Any) -> None:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        clip = self.experiment.config.clip_norm
        # Without clipping the norm is still computed: one bad gradient would spoil the weights of the next checkpoint.
        norm = float(nn.utils.clip_grad_norm_(parameters, math.inf if clip is None else clip))
        self._check_finite("gradient norm", norm, self.trainer.fit_loop.batch_idx)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        # On a CPU batches are made where they are used; Lightning's walk through nested containers would cost more than
        # a step's bookkeeping.
        return batch if device.type == "cpu" else super().transfer_batch_to_device(batch, device, dataloader_idx)

    def _check_finite(self, quantity: str, value: float, step: int) -> None:
        if math.isfinite(value):
            return
        experiment, config = self.experiment, self.experiment.config
        raise NonFiniteLoss(
            f"{experiment.name}: {experiment.model}, seed {experiment.seed}: the {quantity} is {value} at epoch "
            f"{self.epoch}, step {step} of {config.steps_per_epoch}. The last good checkpoint is kept. Lower "
            f"learning_rate ({config.learning_rate:g}) or clip_norm ({config.clip_norm}) and run again with another "
            "--out."
        )

    def on_train_epoch_end(self) -> None:
        trainer, steps = self.trainer, self.experiment.config.steps_per_epoch
        # Over the steps, and then over the ranks.
        sums = torch.tensor(list(self.sums.values()), dtype=torch.float64) / steps
        means = trainer.strategy.reduce(sums, reduce_op="mean").tolist()
        if trainer.is_global_zero:
            row = self._close_epoch({f"train/{name}": mean for name, mean in zip(self.sums, means, strict=True)})
            for logger in trainer.loggers:
                logger.log_metrics(row, step=self.checkpoint.epochs_done * steps - 1)
        done = trainer.strategy.reduce_boolean_decision(self.checkpoint.done, all=False)
        trainer.should_stop = trainer.should_stop or done

    def _close_epoch(self, means: dict[str, float]) -> dict[str, float]:
        """Evaluate, select, save and report; return the epoch's row."""
        state, config, epoch = self.checkpoint, self.experiment.config, self.epoch
        optimizer = self.optimizers(use_pl_optimizer=False)
        with evaluation(self.net, derive_seed(self.experiment.seed, "evaluate", epoch)):
            metrics = self.experiment.evaluate(self.net, epoch)
            state.weights = self.net.state_dict()
        row = {"epoch": epoch, **means, "learning_rate": optimizer.param_groups[0]["lr"]}
        if taken := sorted(row.keys() & metrics.keys()):
            raise ValueError(
                f"{self.experiment.name}: evaluate returns {taken[0]!r}, which the trainer sets. Rename it."
            )
        row |= {name: float(value) for name, value in metrics.items()}
        state.history.append(row)
        best = state.history[state.selected_epoch] if state.selected_epoch >= 0 else None
        if improves(self.experiment, row, best):
            state.selected_epoch = epoch
            state.best_weights = {name: tensor.detach().clone() for name, tensor in state.weights.items()}
        state.epochs_done = epoch + 1
        state.done = state.epochs_done >= config.epochs or self.experiment.should_stop(state.history)
        elapsed = time.monotonic() - self.started
        state.wall_seconds = self.seconds_before + elapsed
        if state.done or time.monotonic() - self.saved >= SECONDS_BETWEEN_CHECKPOINTS:
            state.optimizer = optimizer_tensors(optimizer)
            self.store.save(state)
            self.saved = time.monotonic()
        left = (config.epochs - state.epochs_done) * elapsed / (state.epochs_done - self.first_epoch)
        self.monitor.epoch(Progress(state.epochs_done, config.epochs, row, 0.0 if state.done else left))
        return row


class Steps:
    """The batches of one epoch, made on demand; rank r of k takes the batches of steps s * k + r."""

    def __init__(self, module: TrainingModule) -> None:
        self.module = module

    def __len__(self) -> int:
        return self.module.experiment.config.steps_per_epoch

    def __iter__(self) -> Iterator[Any]:
        ranks, rank = self.module.trainer.world_size, self.module.global_rank
        for step in range(len(self)):
            yield self.module.experiment.train_batch(self.module.epoch, step * ranks + rank)


def improves(experiment: Experiment, row: dict[str, float], best: dict[str, float] | None) -> bool:
    """Return whether `row` beats `best` by the experiment's `select`; ties keep the earlier, NaN beats only None."""
    name, direction = experiment.select
    if name not in row:
        known = ", ".join(row)
        raise KeyError(f"{experiment.name}: selects by {name!r}, which evaluate does not return; it returns {known}.")
    if best is None:
        return True
    new, old = (row[name], best[name]) if direction == "max" else (-row[name], -best[name])
    return new > old or (math.isnan(old) and not math.isnan(new))


@contextlib.contextmanager
def evaluation(net: nn.Module, seed: int) -> Iterator[None]:
    """Enter eval mode on the CPU, without gradients and with a separate random state: training is not affected."""
    training = net.training
    device = next((parameter.device for parameter in net.parameters()), torch.device("cpu"))
    net.cpu().eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            seed_torch(seed)
            yield
    finally:
        net.to(device).train(training)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    # Lightning announces devices, tips and the end of fitting for every run; our progress line is enough.
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"lightning\.")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
