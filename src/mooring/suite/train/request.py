"""What to run: a task, a model, a seed, a preset and changes to it, and where the record goes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mooring.suite.train.config import ConfigError, did_you_mean, flat, override, to_json
from mooring.suite.train.experiment import Experiment, TrainConfig, get_experiment
from mooring.suite.train.record import Record, record_path, require_same_config

# Generators of every library take a seed of 32 bits.
LARGEST_SEED = 2**32 - 1
# More runs than anyone means; a list of them would fill the memory first.
MOST_SEEDS = 10_000


@dataclass(frozen=True)
class RunRequest:
    """One run.

    Args:
        task: A registered task, or ``module.path:ClassName``.
        preset: One of the task's presets.
        overrides: Config fields to change, as values or as text (:func:`mooring.suite.train.parse_overrides`).
        out: Folder of the records.
        devices: Processes that train this one run together. Each takes its own batches of every step and gradients are
            averaged, so k devices mean a batch k times as large, and another run than one device.
    """

    task: str
    model: str
    seed: int
    preset: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    out: Path = Path("results")
    devices: int = 1

    @property
    def where(self) -> str:
        """Who asks, for messages."""
        return f"{get_experiment(self.task).name} {self.preset!r}"

    @property
    def record_path(self) -> Path:
        """Where the record goes."""
        return record_path(self.out, get_experiment(self.task).name, self.variant, self.model, self.seed)

    @property
    def variant(self) -> str:
        """The preset and what was changed in it, e.g. ``full,num_identifiers=50``: each variant has a folder."""
        config = flat(self.config)
        preset = flat(get_experiment(self.task).presets[self.preset])
        changed = [name for name in sorted(self.overrides) if config[name] != preset[name]]
        return ",".join([self.preset, *(f"{name}={_plain(config[name])}" for name in changed)])

    @property
    def config(self) -> TrainConfig:
        """The preset with its changes."""
        cls = get_experiment(self.task)
        if self.preset not in cls.presets:
            guess = did_you_mean(self.preset, cls.presets)
            remedy = f"did you mean {guess!r}?" if guess else f"the presets are {', '.join(cls.presets)}."
            raise ConfigError(f"{cls.name}: unknown preset {self.preset!r}; {remedy}")
        return override(cls.presets[self.preset], self.overrides, self.where)

    @property
    def folder(self) -> Path:
        """Where checkpoints, log and curves go while the run is under way."""
        return self.record_path.with_suffix("")

    def experiment(self) -> Experiment:
        """Build the experiment, which checks preset, overrides and model."""
        config = self.config
        if self.devices < 1:
            raise ConfigError(f"{self.where}: devices={self.devices}, expected 1 or more.")
        return get_experiment(self.task)(config, self.model, self.seed)

    def identity(self, experiment: Experiment) -> dict[str, Any]:
        """Return what must agree for a record or checkpoint to belong to this run."""
        return {**to_json(experiment.config), "devices": self.devices}

    def finished(self, experiment: Experiment) -> Record | None:
        """Return the record if the run is finished; an error if it was finished with another config."""
        if not self.record_path.exists():
            return None
        record = Record.read(self.record_path)
        have = {**record.config, "devices": record.devices}
        require_same_config(have, self.identity(experiment), self.record_path, remove=self.record_path)
        return record

    def to_json(self) -> str:
        """Return the request as one line of text, for another process."""
        return json.dumps({**dataclasses.asdict(self), "overrides": dict(self.overrides), "out": str(self.out)})

    @classmethod
    def from_json(cls, text: str) -> RunRequest:
        """Read :meth:`to_json` back."""
        content = json.loads(text)
        return cls(**{**content, "out": Path(content["out"])})

    def __str__(self) -> str:
        return f"{self.task} {self.preset} {self.model} seed {self.seed}"


def parse_seeds(text: str) -> list[int]:
    """``"0"``, ``"0,3"`` or ``"0-4"`` -> seeds.

    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    seeds: list[int] = []
    for part in text.split(","):
        first_text, dash, last_text = part.partition("-")
        try:
            first, last = int(first_text), int(last_text if dash else first_text)
        except ValueError:
            raise ValueError(f"run: --seeds is {text!r}; expected numbers as in 0, 0,3 or 0-4.") from None
        if last < first:
            raise ValueError(
                f"run: --seeds is {text!r}; {part.strip()} counts down and is empty. Write {last}-{first}."
            )
        if last > LARGEST_SEED or last - first >= MOST_SEEDS:
            raise ValueError(
                f"run: --seeds is {text!r}; expected seeds up to {LARGEST_SEED}, {MOST_SEEDS:,} of them at most."
            )
        seeds += range(first, last + 1)
    return seeds


def _plain(value: Any) -> str:
    """A value as a part of a folder's name."""
    return "+".join(map(_plain, value)) if isinstance(value, tuple) else str(value)
