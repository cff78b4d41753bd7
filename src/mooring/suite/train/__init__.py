"""Configs, the Lightning module, resume and run records: one trainer for every task."""

from mooring.suite.train.config import ConfigError, parse_overrides, strict
from mooring.suite.train.engine import RunsFailed, run_many
from mooring.suite.train.experiment import (
    Experiment,
    TrainConfig,
    get_experiment,
    list_experiments,
    register_experiment,
)
from mooring.suite.train.progress import Monitor, Progress
from mooring.suite.train.record import Record, RecordError, record_path
from mooring.suite.train.request import RunRequest, parse_seeds
from mooring.suite.train.run import run_one

__all__ = [
    "ConfigError",
    "Experiment",
    "Monitor",
    "Progress",
    "Record",
    "RecordError",
    "RunRequest",
    "RunsFailed",
    "TrainConfig",
    "get_experiment",
    "list_experiments",
    "parse_overrides",
    "parse_seeds",
    "record_path",
    "register_experiment",
    "run_many",
    "run_one",
    "strict",
]
