"""Checkpoints: tensors and JSON only, in safetensors files, so that loading one runs no code.

Beside them is ``history.csv``, the curves so far, to watch while a run trains.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from mooring.suite.files import write_atomic
from mooring.suite.records.identity import Identity, digest
from mooring.suite.records.record import RecordError

GENERATIONS = 2
GROUPS = ("weights", "best_weights", "optimizer")

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
    git_commit: str = "unknown"


class CheckpointStore:
    """The checkpoints of one run: a folder with the last two generations, written atomically and checked when read.

    Loading a checkpoint with another identity raises RecordError.
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
        curves = io.StringIO()
        writer = csv.DictWriter(curves, list(dict.fromkeys(name for row in checkpoint.history for name in row)))
        writer.writeheader()
        writer.writerows(checkpoint.history)
        write_atomic(self.folder / "history.csv", curves.getvalue())
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


def load_weights(net: nn.Module, weights: Tensors, folder: Path) -> None:
    """Load the weights of a checkpoint in a folder; RecordError if they do not fit."""
    try:
        net.load_state_dict(weights)
    except RuntimeError as error:
        raise misfit(folder, " ".join(str(error).split())) from error


def misfit(folder: Path, reason: str) -> RecordError:
    """Return the error of a checkpoint that does not fit the network."""
    return RecordError(
        f"{folder}: its checkpoint does not fit the network ({reason}). The code has changed since it was written; "
        "delete the folder to start over."
    )


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> Tensors:
    """Return the optimizer's state as flat tensors keyed ``<parameter index>.<name>``."""
    state = optimizer.state_dict()["state"]
    return {f"{index}.{name}": value.cpu() for index, values in state.items() for name, value in values.items()}


def optimizer_fault(tensors: Tensors, parameters: Sequence[Tensor]) -> str:
    """Return why AdamW cannot resume with these tensors, or an empty text; its kernels do not check shapes."""
    for index, states in _by_parameter(tensors).items():
        if index >= len(parameters):
            return f"{index}.{next(iter(states))} belongs to parameter {index}, but there are {len(parameters)}"
        for name, value in states.items():
            expected = () if name == "step" else tuple(parameters[index].shape)
            if tuple(value.shape) != expected:
                return f"{index}.{name} has shape {tuple(value.shape)}, expected {expected}"
            if not value.is_floating_point():
                return f"{index}.{name} is {value.dtype}, expected real numbers"
        if states.keys() != {"step", "exp_avg", "exp_avg_sq"}:
            return f"parameter {index} has {', '.join(sorted(states))}, expected exp_avg, exp_avg_sq and step"
    return ""


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    """Put :func:`optimizer_tensors` back; the groups' settings come from the config, not from the file."""
    # Copies: several ranks receive the same memory, and each takes its own steps.
    state = _by_parameter({key: value.clone() for key, value in tensors.items()})
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _by_parameter(tensors: Tensors) -> dict[int, Tensors]:
    state: dict[int, Tensors] = defaultdict(dict)
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        state[int(index)][name] = value
    return dict(state)


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
    groups: dict[str, Any] = defaultdict(dict)
    for key, tensor in tensors.items():
        group, _, name = key.partition("/")
        groups[group][name] = tensor
    try:
        facts = json.loads(metadata["mooring"])
        # Older checkpoints have only the config of their run: they can be looked at, but no run resumes from them.
        identity = facts.pop("identity") if "identity" in facts else {"config": facts.pop("config")}
        return Checkpoint(**facts, **groups), identity
    except (ValueError, TypeError, LookupError) as error:
        return f"its header is of another version: {error}"


def _digest(tensors: Tensors, text: str) -> str:
    def parts() -> Iterator[Any]:
        yield text
        for name in sorted(tensors):
            tensor = tensors[name].contiguous()
            yield f"{name} {tensor.dtype} {tuple(tensor.shape)}"
            # Viewed as bytes because numpy has no bfloat16.
            yield tensor.reshape(-1).view(torch.uint8).numpy().data

    return digest(parts())
