"""Training from a checkpoint to the end: Lightning runs the steps, the epoch's end is ours."""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Iterator

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor, nn

from mooring.suite.train.checkpoint import Checkpoint, CheckpointStore
from mooring.suite.train.experiment import Experiment
from mooring.suite.train.history import write_csv
from mooring.suite.train.module import Steps, TrainingModule, derive_seed, optimizer_tensors, seed_torch
from mooring.suite.train.progress import Monitor, Progress

# A checkpoint costs tens of milliseconds and an epoch may be as short: lost epochs are simply repeated, exactly.
SECONDS_BETWEEN_CHECKPOINTS = 2.0


def fit(
    experiment: Experiment,
    net: nn.Module,
    state: Checkpoint,
    store: CheckpointStore,
    monitor: Monitor,
    devices: int = 1,
) -> None:
    """Train `net` from `state` on; the outcome is the newest checkpoint of `store`, whose `done` is then set.

    With several devices each is a process with its own batches (see :class:`Steps`) and gradients are averaged.
    """
    module = TrainingModule(experiment, net, state.epochs_done, state.optimizer)
    # Spawned because Lightning gives each rank weights of its own only then: ranks of a fork server share their memory,
    # and every rank's step would be applied to the same weights.
    distributed = DDPStrategy(process_group_backend="gloo", start_method="spawn", find_unused_parameters=True)
    with _quiet():
        trainer = lightning.Trainer(
            accelerator="cpu",
            devices=devices,
            strategy="auto" if devices == 1 else distributed,
            max_epochs=experiment.config.epochs - state.epochs_done,
            callbacks=[EpochEnd(experiment, state, store, monitor)],
            default_root_dir=store.folder,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        trainer.fit(module, train_dataloaders=Steps(module))


class EpochEnd(lightning.Callback):
    """After each epoch: evaluate, select, checkpoint, report, and stop when the experiment says so."""

    def __init__(self, experiment: Experiment, state: Checkpoint, store: CheckpointStore, monitor: Monitor) -> None:
        self.experiment = experiment
        self.state = state
        self.store = store
        self.monitor = monitor
        self.started = self.saved = 0.0
        self.seconds_before, self.epochs_before = state.wall_seconds, state.epochs_done

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self.started = self.saved = time.monotonic()
        if trainer.world_size > 1:
            threading.Thread(target=_die_with_launcher, daemon=True).start()

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        assert isinstance(pl_module, TrainingModule)
        means = pl_module.epoch_means()
        if trainer.is_global_zero:
            self._close_epoch(pl_module, means)
        done = trainer.strategy.reduce_boolean_decision(self.state.done, all=False)
        trainer.should_stop = trainer.should_stop or done

    def _close_epoch(self, module: TrainingModule, means: dict[str, float]) -> None:
        state, config, epoch = self.state, self.experiment.config, module.epoch
        with evaluation(module.net, derive_seed(self.experiment.seed, "evaluate", epoch)):
            metrics = self.experiment.evaluate(module.net, epoch)
        row = {"epoch": epoch, **means, **{name: float(value) for name, value in metrics.items()}}
        state.history.append(row)
        state.weights = module.net.state_dict()
        best = state.history[state.selected_epoch] if state.selected_epoch >= 0 else None
        if improves(self.experiment, row, best):
            state.selected_epoch = epoch
            state.best_weights = copied(state.weights)
        state.epochs_done = epoch + 1
        state.done = state.epochs_done >= config.epochs or self.experiment.should_stop(state.history)
        elapsed = time.monotonic() - self.started
        state.wall_seconds = self.seconds_before + elapsed
        if state.done or time.monotonic() - self.saved >= SECONDS_BETWEEN_CHECKPOINTS:
            state.optimizer = optimizer_tensors(module.optimizers(use_pl_optimizer=False))
            self.store.save(state)
            write_csv(self.store.folder / "history.csv", state.history)
            self.saved = time.monotonic()
        left = (config.epochs - state.epochs_done) * elapsed / (state.epochs_done - self.epochs_before)
        self.monitor.epoch(Progress(state.epochs_done, config.epochs, row, 0.0 if state.done else left))


def improves(experiment: Experiment, row: dict[str, float], best: dict[str, float] | None) -> bool:
    """Return whether `row` beats `best` by the experiment's `select`; ties keep the earlier, nan beats only None."""
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
    """Eval mode, no gradients, and a random state of its own, so that evaluating changes nothing in training."""
    training = net.training
    net.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            seed_torch(seed)
            yield
    finally:
        net.train(training)


def copied(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the state dict as tensors that training will not change."""
    return {name: tensor.detach().clone() for name, tensor in weights.items()}


def _die_with_launcher() -> None:
    """End this rank when the process that launched it is killed, or it would train on beside the resumed run."""
    launcher = multiprocessing.parent_process()
    assert launcher is not None
    launcher.join()
    os._exit(1)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    # Lightning announces devices, tips and the end of fitting for every run; our own progress says what matters.
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
