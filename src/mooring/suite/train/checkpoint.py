"""Checkpoints: tensors and JSON only, in safetensors files, so that loading one runs no code.

Beside them is ``history.csv``, the curves so far, to watch while a run trains.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from mooring.suite.files import write_atomic
from mooring.suite.records.identity import Identity, digest

GENERATIONS = 2
GROUPS = ("weights", "best_weights", "optimizer")
# The commit of a checkpoint that was written before checkpoints named theirs.
UNKNOWN = "unknown"

Tensors = dict[str, Tensor]


@dataclass
class Checkpoint:
    """Everything a run needs to resume: its state after `epochs_done` epochs.

    Args:
        weights, best_weights: state dicts of the network now and at the selected epoch.
        optimizer: :func:`optimizer_tensors`.
        history: one row per finished epoch.
        done: training has ended (last epoch reached, or stopped early); only the final evaluation may be missing.
        git_commit: the commit of the code that trained it, or several (:func:`mooring.suite.train.run.join_commits`).
    """

    epochs_done: int = 0
    weights: Tensors = field(default_factory=dict)
    best_weights: Tensors = field(default_factory=dict)
    optimizer: Tensors = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    selected_epoch: int = -1
    wall_seconds: float = 0.0
    done: bool = False
    git_commit: str = UNKNOWN


class CheckpointStore:
    """The checkpoints of one run: a folder with the last two generations, written atomically and checked when read.

    Args:
        folder: where the files are.
        identity: the run's; a checkpoint of another one is refused.
    """

    def __init__(self, folder: Path, identity: Identity) -> None:
        self.folder = Path(folder)
        self.identity = identity

    def paths(self) -> list[Path]:
        """Return the files, newest first."""
        return sorted(self.folder.glob("epoch-*.safetensors"), reverse=True)

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a new generation and the curves, and drop the generation before last."""
        # Cloned because safetensors refuses tensors that share memory, as tied weights do.
        tensors = {
            f"{group}/{name}": tensor.detach().clone(memory_format=torch.contiguous_format)
            for group in GROUPS
            for name, tensor in getattr(checkpoint, group).items()
        }
        facts = {name: value for name, value in vars(checkpoint).items() if name not in GROUPS}
        text = json.dumps({"identity": self.identity.facts(), **facts})
        path = self.folder / f"epoch-{checkpoint.epochs_done:06d}.safetensors"
        write_atomic(path, save(tensors, metadata={"mooring": text, "sha256": _digest(tensors, text)}))
        for old in self.paths()[GENERATIONS:]:
            old.unlink()
        write_atomic(self.folder / "history.csv", _csv(checkpoint.history))
        return path

    def load(self, report: Callable[[str], None]) -> Checkpoint | None:
        """Return the newest readable checkpoint, or None.

        Every unreadable one on the way is reported with the reason and set aside as ``*.corrupt``.
        """
        paths = self.paths()
        for path, previous in itertools.zip_longest(paths, paths[1:]):
            content = read_checkpoint(path)
            if isinstance(content, str):
                path.replace(path.with_name(path.name + ".corrupt"))
                instead = f"the one before it, {previous.name}" if previous else "a new start from epoch 0"
                report(f"{path}: corrupt checkpoint ({content}), set aside as {path.name}.corrupt. Using {instead}.")
                continue
            checkpoint, facts = content
            self.identity.require(facts, path, f"Use another --out, or delete {self.folder} to start over.")
            return checkpoint
        return None


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's state as flat tensors keyed ``<parameter index>.<name>``."""
    state = optimizer.state_dict()["state"]
    return {f"{index}.{name}": value.cpu() for index, values in state.items() for name, value in values.items()}


def optimizer_fault(tensors: Tensors, parameters: Sequence[Tensor]) -> str:
    """Return why AdamW cannot resume with these tensors, or an empty text; its kernels do not check shapes."""
    names: dict[int, set[str]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        index = int(number)
        names.setdefault(index, set()).add(name)
        if index >= len(parameters):
            return f"{key} belongs to parameter {index}, but there are {len(parameters)}"
        expected = () if name == "step" else tuple(parameters[index].shape)
        if tuple(value.shape) != expected:
            return f"{key} has shape {tuple(value.shape)}, expected {expected}"
        if not value.is_floating_point():
            return f"{key} is {value.dtype}, expected real numbers"
    for index, states in names.items():
        if states != {"step", "exp_avg", "exp_avg_sq"}:
            return f"parameter {index} has {', '.join(sorted(states))}, expected exp_avg, exp_avg_sq and step"
    return ""


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put :func:`optimizer_tensors` back; the groups' settings come from the config, not from the file."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        # A copy: several ranks are handed the same memory, and each takes its own steps.
        state.setdefault(int(index), {})[name] = value.clone()
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _csv(history: Sequence[dict[str, float]]) -> str:
    """Return one row per epoch with the columns of all rows, in order of first appearance."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in history for name in row)))
    writer.writeheader()
    writer.writerows(history)
    return text.getvalue()


def read_checkpoint(path: Path) -> tuple[Checkpoint, Mapping[str, Any]] | str:
    """Return the file's checkpoint and the facts of its identity, or the reason why it cannot be trusted."""
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    if not {"mooring", "sha256"} <= metadata.keys():
        return "no checksum in its header"
    if _digest(tensors, metadata["mooring"]) != metadata["sha256"]:
        return "its content does not match its checksum"
    try:
        facts = json.loads(metadata["mooring"])
        if isinstance(facts, dict) and "identity" not in facts and "config" in facts:
            # Written before checkpoints named their run: it can be looked at, but no run resumes from it.
            facts["identity"] = {"config": facts.pop("config")}
        Header.model_validate(facts)
    except json.JSONDecodeError as error:
        return f"its header is not JSON: {error}"
    except ValidationError as error:
        return _first_fault(error)
    groups = _split(tensors)
    if fault := _tensors_fault(groups, facts["epochs_done"]):
        return fault
    identity = facts.pop("identity")
    return Checkpoint(**{**facts, **groups}), identity


class IdentityFacts(BaseModel):
    """The facts of an identity as a header stores them; which run they name is checked later."""

    model_config = ConfigDict(strict=True)

    config: dict[str, Any]
    data: str | None = None
    code: dict[str, str] | None = None


class Header(BaseModel):
    """The facts of a checkpoint that a run can resume from; a checksum only proves that they are unchanged."""

    model_config = ConfigDict(strict=True, extra="forbid")

    identity: IdentityFacts
    epochs_done: int = Field(ge=0)
    selected_epoch: int
    wall_seconds: float = Field(ge=0, allow_inf_nan=False)
    # A metric may be NaN, but not a word.
    history: list[dict[str, int | float]]
    done: bool
    git_commit: str = UNKNOWN

    @model_validator(mode="after")
    def check_epochs(self) -> Header:
        """Check that the epochs of all fields agree."""
        done = self.epochs_done
        if not (0 <= self.selected_epoch < done or self.selected_epoch == -1 == done - 1):
            raise ValueError(f"selected_epoch is {self.selected_epoch}, with {done} epochs done")
        # Only if the config has the number of epochs; whether the config is the run's own is checked later.
        most = self.identity.config.get("epochs")
        if isinstance(most, int) and (done > most or (done == most and not self.done)):
            raise ValueError(f"epochs_done is {done} of {most}, and done is {self.done}")
        if [row.get("epoch") for row in self.history] != list(range(done)):
            raise ValueError(f"the {len(self.history)} rows of its history are not those of {done} epochs")
        return self


def _first_fault(error: ValidationError) -> str:
    """Return the first error of a header in a few words."""
    first = error.errors(include_url=False)[0]
    name = ".".join(map(str, first["loc"]))
    if first["type"] in ("value_error", "missing"):
        return f"{name}: {first['msg']}".removeprefix(": ").removeprefix("Value error, ")
    return f"{name or 'its header'} is {first['input']!r:.80}: {first['msg']}"


def _split(tensors: Tensors) -> dict[str, Tensors]:
    groups: dict[str, Tensors] = {}
    for name, tensor in tensors.items():
        group, _, rest = name.partition("/")
        groups.setdefault(group, {})[rest] = tensor
    return groups


def _tensors_fault(groups: Mapping[str, Tensors], epochs: int) -> str:
    unknown = groups.keys() - set(GROUPS)
    if unknown:
        return f"it has tensors of {', '.join(sorted(unknown))}"
    missing = [group for group in ("weights", "best_weights") if epochs and group not in groups]
    if missing:
        return f"it has no {' and no '.join(missing)}"
    for key in groups.get("optimizer", {}):
        if not re.fullmatch(r"\d+\..+", key):
            return f"{key!r} is not of an optimizer"
    return ""


def _digest(tensors: Tensors, text: str) -> str:
    def parts() -> Iterator[Any]:
        yield text
        for name in sorted(tensors):
            tensor = tensors[name].contiguous()
            yield f"{name} {tensor.dtype} {tuple(tensor.shape)}"
            # Viewed as bytes because numpy has no bfloat16.
            yield tensor.reshape(-1).view(torch.uint8).numpy().data

    return digest(parts())
