"""Configs, the Lightning module, resume and run records: one trainer for every task."""

from typing import TYPE_CHECKING

from mooring.named import late
from mooring.suite.records import RecordError, RunRecord
from mooring.suite.train.config import ConfigError, TrainConfig, parse_overrides, parse_seeds, strict
from mooring.suite.train.experiment import Experiment, get_experiment, list_experiments, register_experiment
from mooring.suite.train.run import Run, RunRequest, resolve, run_one
from mooring.suite.train.view import Monitor, Progress

if TYPE_CHECKING:
    from mooring.suite.train.engine import RunsFailed, run_many

__all__ = [
    "ConfigError",
    "Experiment",
    "Monitor",
    "Progress",
    "RecordError",
    "Run",
    "RunRecord",
    "RunRequest",
    "RunsFailed",
    "TrainConfig",
    "get_experiment",
    "list_experiments",
    "parse_overrides",
    "parse_seeds",
    "register_experiment",
    "resolve",
    "run_many",
    "run_one",
    "strict",
]

__getattr__ = late(__name__, dict.fromkeys(("RunsFailed", "run_many"), "engine"))
