"""Checkpoints: tensors and JSON only, in safetensors files, so that loading one runs no code.

Beside them is ``history.csv``, the curves so far, to watch while a run trains.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
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
        git_commit: the commit of the code that trained it, or several (:func:`mooring.suite.train.run.after`).
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
    """Why AdamW could not go on with these tensors, or nothing: its kernels read memory without looking at shapes."""
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
    for index, found in names.items():
        if found != {"step", "exp_avg", "exp_avg_sq"}:
            return f"parameter {index} has {', '.join(sorted(found))}, expected exp_avg, exp_avg_sq and step"
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
    """One row per epoch; the columns are those of all rows, in order of first appearance."""
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
    except json.JSONDecodeError as error:
        return f"its header is not JSON: {error}"
    if isinstance(facts, dict):
        facts.setdefault("git_commit", UNKNOWN)
        if "identity" not in facts and "config" in facts:
            # Written before checkpoints named their run: it can be looked at, but no run resumes from it.
            facts["identity"] = {"config": facts.pop("config")}
    groups = _split(tensors)
    fault = _fault(facts, groups)
    if fault:
        return fault
    identity = facts.pop("identity")
    return Checkpoint(**{**facts, **groups}), identity


def _split(tensors: Tensors) -> dict[str, Tensors]:
    groups: dict[str, Tensors] = {}
    for name, tensor in tensors.items():
        group, _, rest = name.partition("/")
        groups.setdefault(group, {})[rest] = tensor
    return groups


def _fault(facts: Any, groups: Mapping[str, Tensors]) -> str:
    """Why a run could not resume from these, or nothing. A checksum says that they are unchanged, not that they fit."""
    kinds = {
        "identity": dict,
        "epochs_done": int,
        "selected_epoch": int,
        "wall_seconds": float,
        "history": list,
        "git_commit": str,
    }
    if not isinstance(facts, dict) or facts.keys() != {*kinds, "done"}:
        return f"its header has other fields than {', '.join([*kinds, 'done'])}"
    for name, kind in kinds.items():
        value = facts[name]
        # A whole number of seconds is a number too, and to Python True is one.
        if not isinstance(value, (int, float) if kind is float else kind) or isinstance(value, bool):
            return f"{name} is {value!r:.80}, not of type {kind.__name__}"
    if not isinstance(facts["done"], bool):
        return f"done is {facts['done']!r:.80}, not true or false"
    epochs, selected, seconds = facts["epochs_done"], facts["selected_epoch"], facts["wall_seconds"]
    if epochs < 0:
        return f"epochs_done is {epochs}"
    if not (0 <= selected < epochs or selected == -1 == epochs - 1):
        return f"selected_epoch is {selected}, with {epochs} epochs done"
    if not 0 <= seconds < math.inf:
        return f"wall_seconds is {seconds}"
    fault = _identity_fault(facts["identity"])
    if fault:
        return fault
    # Only if the config says how many; whether it is the run's own is checked later.
    most = facts["identity"]["config"].get("epochs")
    if isinstance(most, int) and (epochs > most or (epochs == most and not facts["done"])):
        return f"epochs_done is {epochs} of {most}, and done is {facts['done']}"
    return _history_fault(facts["history"], epochs) or _tensors_fault(groups, epochs)


def _identity_fault(identity: dict[str, Any]) -> str:
    config, data, code = (identity.get(name) for name in ("config", "data", "code"))
    if not isinstance(config, dict):
        return f"the config of its identity is {config!r:.80}"
    if not isinstance(data, str | None):
        return f"the hash of its data is {data!r:.80}"
    if code is not None and not (isinstance(code, dict) and all(isinstance(value, str) for value in code.values())):
        return f"the hashes of its code are {code!r:.80}"
    return ""


def _history_fault(history: list[Any], epochs: int) -> str:
    if len(history) != epochs:
        return f"its history has {len(history)} rows for {epochs} epochs"
    for epoch, row in enumerate(history):
        if not isinstance(row, dict) or row.get("epoch") != epoch:
            return f"row {epoch} of its history is not of epoch {epoch}"
        for name, value in row.items():
            # A metric may be nan, but not a word.
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                return f"{name} of epoch {epoch} is {value!r:.80}, not a number"
    return ""


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
