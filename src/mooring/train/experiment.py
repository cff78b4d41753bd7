"""One trainable question, as the trainer sees it, and the registry of the questions there are."""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from torch import Tensor, nn

from mooring.train.config import did_you_mean


@dataclass(frozen=True)
class TrainConfig:
    """What every run has; each task subclasses it and adds its own fields.

    Args:
        epochs: Number of epochs at most (:meth:`Experiment.should_stop` may end earlier).
        steps_per_epoch: Optimizer steps between two evaluations.
        learning_rate: AdamW's learning rate.
        memory_lr_scale: Factor on it for the parameters under ``net.memory``.
        weight_decay: AdamW's decoupled weight decay.
        clip_norm: Largest gradient norm; None leaves gradients alone.
    """

    epochs: int
    steps_per_epoch: int
    learning_rate: float
    memory_lr_scale: float = 1.0
    weight_decay: float = 0.0
    clip_norm: float | None = 5.0


class Experiment(ABC):
    """A task, a model and a seed: data, network, loss and metrics, with everything random a pure function of
    (seed, epoch, step). Epochs and steps count from 0, here and in the records.

    Nothing may be carried from one call to the next (a cache of pure results is fine): a resumed run makes a new object
    and calls only what is left.

    Args:
        config: An instance of `config_type`.
        model: Which variant to build, one of those the task knows.
        seed: Seed of the whole run.
    """

    name: ClassVar[str]
    config_type: ClassVar[type[TrainConfig]]
    presets: ClassVar[Mapping[str, TrainConfig]]
    #: Default models of a run, in table order.
    models: ClassVar[tuple[str, ...]]
    #: Metric of :meth:`evaluate` by which the weights are selected, and its better direction.
    select: ClassVar[tuple[str, Literal["max", "min"]]]

    def __init__(self, config: Any, model: str, seed: int) -> None:
        self.config = config
        self.model = model
        self.seed = seed

    @abstractmethod
    def build(self) -> nn.Module:
        """Return a new network; the caller has set torch's global seed from `seed`."""

    @abstractmethod
    def train_batch(self, epoch: int, step: int) -> Any:
        """Return one training batch, a pure function of (seed, epoch, step)."""

    @abstractmethod
    def loss(self, net: nn.Module, batch: Any, epoch: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        """Return the loss to minimise and parts worth a curve: their epoch means are recorded as ``train/<name>``."""

    @abstractmethod
    def evaluate(self, net: nn.Module, epoch: int) -> dict[str, float]:
        """Return validation metrics; the network is in eval mode and gradients are off."""

    def parameter_groups(self, net: nn.Module) -> list[dict[str, Any]]:
        """Return AdamW's parameter groups: those under ``net.memory`` learn at memory_lr_scale * learning_rate."""
        memory = [parameter for name, parameter in net.named_parameters() if is_memory(name)]
        local = [parameter for name, parameter in net.named_parameters() if not is_memory(name)]
        rate = self.config.learning_rate
        groups = [{"params": local, "lr": rate}, {"params": memory, "lr": rate * self.config.memory_lr_scale}]
        return [group for group in groups if group["params"]]

    def learning_rate_factor(self, epoch: int, step: int) -> float:
        """Return the factor on every group's learning rate at this step."""
        return 1.0

    def should_stop(self, history: list[dict[str, float]]) -> bool:
        """Return whether to stop after the last epoch of `history`; a pure function of it."""
        return False

    def finish(self, net: nn.Module) -> tuple[dict[str, float], dict[str, Any]]:
        """Return (final metrics, JSON-able diagnostics) of the selected weights; eval mode, gradients off."""
        return {}, {}


def is_memory(parameter: str) -> bool:
    """Return whether a parameter's qualified name lies under ``net.memory``."""
    return parameter == "memory" or parameter.startswith("memory.")


ExperimentType = TypeVar("ExperimentType", bound=type[Experiment])

EXPERIMENTS: dict[str, type[Experiment]] = {}


def register_experiment(cls: ExperimentType) -> ExperimentType:
    """Class decorator: make an experiment known under its `name`."""
    known = EXPERIMENTS.get(cls.name)
    if known is not None and known.__qualname__ != cls.__qualname__:
        raise ValueError(
            f"experiment {cls.name!r} is already {known.__qualname__}. Give {cls.__qualname__} another name."
        )
    EXPERIMENTS[cls.name] = cls
    return cls


def get_experiment(task: str) -> type[Experiment]:
    """Return the experiment class of a task: a registered name, or ``module.path:ClassName`` for one's own."""
    if ":" in task:
        return _own_experiment(*task.split(":", 1))
    if task not in EXPERIMENTS:
        # Only the package its name begins with, where there is one: some tasks import heavy solvers.
        packages = _task_packages()
        _import_tasks([name for name in packages if task.replace("-", "_").startswith(name)] or packages)
    if task not in EXPERIMENTS:
        guess = did_you_mean(task, EXPERIMENTS)
        remedy = f"did you mean {guess!r}?" if guess else f"the tasks are {', '.join(EXPERIMENTS)}."
        raise ValueError(f"unknown task {task!r}; {remedy}")
    return EXPERIMENTS[task]


def list_experiments() -> dict[str, type[Experiment]]:
    """Return every task by name. The subpackages of ``mooring.train`` are the tasks, imported when first asked for."""
    _import_tasks(_task_packages())
    return dict(EXPERIMENTS)


def _own_experiment(module: str, name: str) -> type[Experiment]:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        # An import that fails inside the module is the module's business, and its traceback is what helps.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ValueError(f"task '{module}:{name}': cannot import {module!r}. Put its folder on PYTHONPATH.") from None
    if not isinstance(getattr(found, name, None), type):
        raise ValueError(f"task '{module}:{name}': no class {name!r} in {module}.")
    return getattr(found, name)


def _task_packages() -> list[str]:
    train = importlib.import_module("mooring.train")
    return [module.name for module in pkgutil.iter_modules(train.__path__) if module.ispkg]


def _import_tasks(packages: list[str]) -> None:
    for package in packages:
        importlib.import_module(f"mooring.train.{package}")
