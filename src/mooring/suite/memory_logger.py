"""A Lightning callback that logs measurements of the memories while a model trains, and Lightning's loggers by name."""

from __future__ import annotations

import importlib.util
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch import loggers

from mooring.look.record import by_place, watched
from mooring.named import suggest
from mooring.ops.checks import check_count

LOGGERS = ("tensorboard", "csv", "wandb")


class MemoryLogger(lightning.Callback):
    """Logs the numbers of :func:`mooring.look.measure` for every memory, to whatever logger the trainer has.

    They come from the training step itself, so nothing is computed twice and training does not change. Their names are
    ``memory/PLACE/NUMBER``, e.g. ``memory/net.memories.0/slots_read``.

    Args:
        every: steps from one measurement to the next. A measured step keeps its weights of write and read, which adds a
            quarter to two thirds to the time of its memories.
        first_step: number of the first step, for a resumed training.

    >>> trainer = lightning.Trainer(callbacks=[MemoryLogger(every=100)], logger=False, enable_checkpointing=False)
    """

    def __init__(self, every: int = 50, first_step: int = 0) -> None:
        self.every = check_count(type(self).__name__, "every", every)
        self.first_step = first_step
        self._open = ExitStack()
        self._calls: list[Any] = []

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._close()
        if trainer.loggers and trainer.is_global_zero and trainer.global_step % self.every == 0:
            self._calls = self._open.enter_context(watched(pl_module))

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        calls = self._close()
        if calls:
            numbers = {f"memory/{name}": number for name, number in by_place(calls).items()}
            for logger in trainer.loggers:
                # The step is counted already; the numbers are of the weights before it.
                logger.log_metrics(numbers, step=self.first_step + trainer.global_step - 1)

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        self._close()

    def _close(self) -> list[Any]:
        calls, self._calls = self._calls, []
        self._open.close()
        return calls


def check_logger(name: str) -> None:
    """Raise ValueError for a logger that does not exist or whose package is missing."""
    if name not in LOGGERS:
        meant = suggest(name, LOGGERS, f"the loggers are {', '.join(LOGGERS)}.")
        raise ValueError(f"run: unknown logger {name!r}; {meant}")
    if name != "csv" and importlib.util.find_spec(name) is None:
        raise ValueError(f"run: --logger {name} needs a package that is missing: pip install {name}")


def follow(name: str, experiment: Any, folder: Path, epochs_done: int) -> tuple[Any, MemoryLogger]:
    """Return a logger for a run, which writes under ``logs/``, and a callback that logs its memories once per epoch.

    Args:
        name: one of :data:`LOGGERS`. W&B stays offline unless ``WANDB_MODE`` says otherwise.
        experiment: what is trained.
        folder: of the run.
        epochs_done: epochs of earlier starts. A resumed run writes beside its earlier logs.
    """
    check_logger(name)
    steps, version = experiment.config.steps_per_epoch, f"from-epoch-{epochs_done}"
    memories = MemoryLogger(every=steps, first_step=epochs_done * steps)
    if name == "csv":
        return loggers.CSVLogger(folder, name="logs", version=version, flush_logs_every_n_steps=1), memories
    if name == "tensorboard":
        return loggers.TensorBoardLogger(folder, name="logs", version=version, default_hp_metric=False), memories
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    title = f"{experiment.name} {experiment.model} seed {experiment.seed} {version}"
    offline = os.environ.get("WANDB_MODE", "offline") == "offline"
    return loggers.WandbLogger(title, folder / "logs", offline=offline, project="mooring"), memories
