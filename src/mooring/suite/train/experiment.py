"""Experiments: the interface that the trainer calls, and the registry."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mooring import suite, zoo
from mooring.named import import_object, suggest
from mooring.suite.train.config import FiniteConfig, TrainConfig, to_json


class Experiment(ABC):
    """One task, model and seed. All randomness is a pure function of (seed, epoch, step), both counted from 0.

    No state may pass from one call to the next (a cache of pure results is fine): a resumed run makes a new object and
    makes only the remaining calls.

    Args:
        config: one of the presets, or one with other values.
        model: the variant to build, one of the task's.
        seed: seed of the whole run.
    """

    name: ClassVar[str]
    presets: ClassVar[Mapping[str, TrainConfig]]
    #: The preset of a run that names none; if there is no such preset, the first one.
    default_preset: ClassVar[str] = "quick"
    #: Default models of a run, in table order.
    models: ClassVar[tuple[str, ...]]
    #: Metric of :meth:`evaluate` by which the weights are selected, and its better direction.
    select: ClassVar[tuple[str, Literal["max", "min"]]]
    #: Packages that a run needs beyond the library's own dependencies, each with what to install for it.
    requires: ClassVar[Mapping[str, str]] = {}

    def __init__(self, config: Any, model: str, seed: int) -> None:
        self.config = config
        self.model = model
        self.seed = seed

    @classmethod
    def usual_preset(cls) -> str:
        """Return the preset of a run that names none."""
        return cls.default_preset if cls.default_preset in cls.presets else next(iter(cls.presets))

    @classmethod
    def check_requirements(cls) -> None:
        """Raise ImportError with the command to type if a package that a run needs is not installed."""
        missing = [package for package in cls.requires if importlib.util.find_spec(package) is None]
        if missing:
            extras = " ".join(f"'{cls.requires[package]}'" for package in missing)
            raise ImportError(
                f"{cls.name}: needs {', '.join(missing)}, which is not installed. Install it with: pip install {extras}"
            )

    def check_inputs(self) -> None:
        """Raise OSError with what to type if a file that the run reads is missing; called before any run starts."""
        return

    def data_hash(self) -> str | None:
        """Return the hash of the files that the run reads: None if they are missing, empty if it reads none."""
        return ""

    def source_modules(self) -> set[str]:
        """Return the names of the modules that define the experiment and its model."""
        modules = {cls.__module__ for cls in type(self).__mro__}
        # A convolution and a memory are joined by a plus.
        for part in self.model.split("+"):
            if ":" in part:
                modules.add(part.partition(":")[0])
            elif part in zoo.names():
                modules.add(zoo.entry(part).build.__module__)
        return modules

    def describe(self) -> dict[str, Any]:
        """Return the model's ``title`` in tables, and its ``order`` among the others, for the record."""
        order = self.models.index(self.model) if self.model in self.models else len(self.models)
        return {"title": self.model, "order": order}

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


def is_memory(parameter: str) -> bool:
    """Return whether a parameter's qualified name is under ``net.memory``."""
    return parameter.partition(".")[0] == "memory"


def derive_seed(*parts: int | str) -> int:
    """Return a seed that depends on all parts and on nothing else, on every machine.

    >>> derive_seed(0, "build") == derive_seed(0, "build") != derive_seed(1, "build")
    True
    """
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:7], "big")


def seed_torch(seed: int) -> None:
    """Seed the generators that stochastic layers draw from.

    ``torch.manual_seed`` would also queue a call, with its stack trace, for every kind of device that is missing.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


LOWEST_RATE = 0.01
ExperimentType = TypeVar("ExperimentType", bound=type[Experiment])
EXPERIMENTS: dict[str, type[Experiment]] = {}
# The folders of the suite that are not tasks.
MACHINERY = ("bench", "records", "report", "train")


def register_experiment(cls: ExperimentType) -> ExperimentType:
    """Register an experiment class under its `name`; a class decorator."""
    known = EXPERIMENTS.get(cls.name)
    if known is not None and known.__qualname__ != cls.__qualname__:
        raise ValueError(
            f"experiment {cls.name!r} is already {known.__qualname__}. Give {cls.__qualname__} another name."
        )
    EXPERIMENTS[cls.name] = cls
    return cls


def get_experiment(task: str) -> type[Experiment]:
    """Return the experiment class of a task: a registered name, or ``module.path:ClassName``, which is imported.

    Pass only a name that a user typed, not one that was read from a file.
    """
    if ":" not in task:
        return registered_experiment(task)
    cls = import_object(task, "task")
    if not isinstance(cls, type) or not issubclass(cls, Experiment):
        raise ValueError(f"task: {task} is not a class derived from mooring.suite.train.Experiment.")
    return cls


def registered_experiment(task: str) -> type[Experiment]:
    """Return the experiment class of a registered name; no other name is imported, so a file may hold it."""
    if task not in EXPERIMENTS:
        # Only the module of this task: others may import heavy solvers.
        modules = _task_modules(task)
        if task not in modules:
            known = dict.fromkeys([*EXPERIMENTS, *modules])
            meant = suggest(task, known, f"the tasks are {', '.join(known)}.")
            raise ValueError(f"unknown task {task!r}; {meant}")
        importlib.import_module(modules[task])
    return EXPERIMENTS[task]


def list_experiments() -> dict[str, type[Experiment]]:
    """Return every task by name. Tasks are those that the folders of ``mooring.suite`` name in ``TASKS``."""
    for module in dict.fromkeys(_task_modules().values()):
        importlib.import_module(module)
    return dict(EXPERIMENTS)


def preset_configs() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the config of every task and preset as records store it."""
    # Zero steps stand for one pass over the data; the record has the number of steps.
    return {
        (task, preset): {
            name: value for name, value in to_json(config).items() if (name, value) != ("steps_per_epoch", 0)
        }
        for task, cls in list_experiments().items()
        for preset, config in cls.presets.items()
    }


def _task_modules(sought: str = "") -> dict[str, str]:
    """Return the module that registers each task, by the ``TASKS`` of the task folders, which are light to import.

    The folder that a sought task is named after is searched first, and no folder after the one that has it.
    """
    modules: dict[str, str] = {}
    folders = [item.name for item in pkgutil.iter_modules(suite.__path__) if item.ispkg and item.name not in MACHINERY]
    for name in sorted(folders, key=lambda name: not sought.startswith(name.replace("_", "-"))):
        folder = importlib.import_module(f"mooring.suite.{name}")
        modules |= {task: f"{folder.__name__}.{module}" for task, module in folder.TASKS.items()}
        if sought in modules:
            break
    return modules
