"""Configs, the Lightning module, resume and run records: one trainer for every task."""

from mooring.train.config import ConfigError, parse_overrides, strict
from mooring.train.experiment import Experiment, TrainConfig, get_experiment, list_experiments, register_experiment
from mooring.train.record import Record, RecordError, record_path

__all__ = [
    "ConfigError",
    "Experiment",
    "Record",
    "RecordError",
    "TrainConfig",
    "get_experiment",
    "list_experiments",
    "parse_overrides",
    "record_path",
    "register_experiment",
    "strict",
]
