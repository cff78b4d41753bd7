"""The network of a finished run, read from its record, its folder or a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import torch
from torch import nn

from mooring.suite.records import DEFAULT_HARDWARE, Identity, RecordError, RunRecord
from mooring.suite.records.identity import code_hashes
from mooring.suite.train.checkpoint import load_weights, read_checkpoint
from mooring.suite.train.config import strict
from mooring.suite.train.experiment import Experiment, get_experiment, registered_experiment


@dataclass(frozen=True)
class TrainedRun:
    """A network with the weights that a run selected, and the experiment it is from."""

    net: nn.Module
    experiment: Experiment
    title: str


def trained(path: Path, imported: str | None = None, *, trust: bool = False) -> TrainedRun:
    """Return the network of a run, from its record, its folder or one of its checkpoints.

    `imported` is the import name of a user-defined experiment, `trust` as in :func:`mooring.suite.look.page_of`.
    """
    if path.suffix == ".json":
        record = RunRecord.read(path)
        task, model, seed, folder = record.task, record.model, record.seed, path.with_suffix("")
    else:
        folder = (path if path.is_dir() else path.parent).absolute()
        # The folder of a run is task/variant/model-seed0.
        quoted, separator, number = folder.name.rpartition("-seed")
        if not separator or not number.isdigit():
            raise RecordError(f"{path}: not the folder of a run, e.g. runs/two-radius/quick/anchored-seed0.")
        task, model, seed = folder.parents[1].name, unquote(quoted.replace("@", ":")), int(number)
    whole = path.is_dir() or path.suffix == ".json"
    checkpoints = sorted(folder.glob("epoch-*.safetensors")) if whole else [path]
    if not checkpoints:
        raise RecordError(
            f"{path}: {folder} has no checkpoint, so there are no weights to look at. Train it with `mooring run`."
        )
    checkpoint = checkpoints[-1]
    # Building the network imports a name with a colon.
    if ":" in model and not trust:
        raise RecordError(
            f"{path}: its model is {model!r}, and importing that would run code that a file names. If you trust the "
            "file and the code, add --trust.",
            path,
        )
    content = read_checkpoint(checkpoint)
    if isinstance(content, str):
        raise RecordError(f"{checkpoint}: cannot be read: {content}. Pick another, or run again.")
    state, facts = content
    cls = _experiment(task, imported, path)
    config = {name: value for name, value in facts["config"].items() if name not in DEFAULT_HARDWARE}
    experiment = cls(strict(type(cls.presets[cls.usual_preset()]), config, str(checkpoint)), model, seed)
    if "task" in facts:
        code = code_hashes(experiment.source_modules())
        identity = Identity(task, model, seed, facts["config"], data=None, code=code)
        identity.require(facts, checkpoint, "Its weights are not those of this run: train it again.")
    with torch.random.fork_rng(devices=[]):
        net = experiment.build()
    load_weights(net, state.best_weights, folder)
    return TrainedRun(net, experiment, f"{task}: {model}, seed {seed}, after epoch {state.selected_epoch + 1}")


def _experiment(task: str, imported: str | None, path: Path) -> type[Experiment]:
    try:
        cls = get_experiment(imported) if imported else registered_experiment(task)
    except ValueError as error:
        if imported:
            raise
        raise RecordError(
            f"{path}: {error} For a user-defined task add --task package.module:ClassName.", path
        ) from None
    if cls.name != task:
        raise RecordError(
            f"{path}: a run of {task!r}, but --task {imported} is called {cls.name!r}. Name its class.", path
        )
    return cls
