"""Targets of ``mooring look``: a run, one of its checkpoints, or a module by name with data for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import torch
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

from mooring.look import NoMemory, Page, look
from mooring.look.graphs import as_batch
from mooring.look.record import memories
from mooring.named import import_object
from mooring.suite.records import DEFAULT_HARDWARE, Identity, Record, RecordError, RunRecord, load
from mooring.suite.records.identity import code_hashes
from mooring.suite.report.groups import rank
from mooring.suite.report.page import Inside
from mooring.suite.train.checkpoint import load_weights, read_checkpoint
from mooring.suite.train.config import strict
from mooring.suite.train.experiment import Experiment, get_experiment, registered_experiment

if TYPE_CHECKING:  # imported only for an audit
    from mooring.audit import Card

# A report shows no more memories than this, of graphs no larger than that.
MOST_INSIDES, FEW_NODES = 8, 500
# The classes of PyG data in a file.
PLAIN = (Data, DataEdgeAttr, DataTensorAttr, HeteroData, BaseStorage, EdgeStorage, GlobalStorage, NodeStorage)


@dataclass(frozen=True)
class TrainedRun:
    """A network with the weights that a run selected, and the experiment it is from."""

    net: nn.Module
    experiment: Experiment
    title: str

    def page(self, data: str | None = None, **options: Any) -> Page:
        """Return the page of the network on the run's first training batch, or on data as in :func:`page_of`."""
        if data is not None:
            return look(self.net, load_data(data), title=self.title, **options)
        name, batch = self.experiment.name, self.experiment.train_batch(0, 0)
        try:
            as_batch(batch)
        except TypeError as error:
            raise ValueError(
                f"look: a training batch of {name} is not PyG data ({str(error).removeprefix('look: ')}) Pass data for "
                "the network with --data."
            ) from error
        try:
            return look(
                self.net, batch, call=lambda net, _: self.experiment.loss(net, batch, 0), title=self.title, **options
            )
        except NoMemory as error:
            raise NoMemory(f"look: {self.title}: this model has no memory to show.") from error


def page_of(
    target: str,
    data: str | None = None,
    *,
    channels: int = 16,
    arguments: Mapping[str, Any] | None = None,
    graphs: Sequence[int] | None = None,
    max_nodes: int = 2000,
    audited: bool = False,
    task: str | None = None,
    trust: bool = False,
) -> Page:
    """Return the page of a run or of a module; :mod:`mooring.suite.molecules` has that of a model of `mooring train`.

    Args:
        target: a record, the folder of a run, a checkpoint in it, ``package.module:Name`` or ``zoo.NAME``.
        data: a file that ``torch.save`` wrote, or ``package.module:Name`` of PyG data or of a function that returns it.
            By default a run shows its first training batch.
        channels, arguments: arguments of a class, as in :func:`mooring.audit.resolve`.
        graphs, max_nodes: as in :func:`mooring.look.look`.
        audited: measure the memory too, and show its audit card.
        task: ``package.module:ClassName`` of a run's user-defined experiment; a record cannot name code to run.
        trust: import a run's model if its name is ``package.module:Name``.
    """
    options: dict[str, Any] = {"graphs": graphs, "max_nodes": max_nodes}
    if Path(target).exists():
        run = trained(Path(target), task, trust=trust)
        return run.page(data, card=audit_card(run.net) if audited else None, **options)
    from mooring import audit

    module = _module(target, channels, arguments or {})
    if data is None:
        raise ValueError(
            f"look: {target} is a module, so it needs --data, a file of PyG data or package.module:Name. (There is no "
            "file or folder of that name, so it is not a run.)"
        )
    shown = load_data(data)
    card = audit.audit(module, channels=channels, name=target) if audited else None
    return look(module, shown, card=card, title=target, **options)


def insides(sources: Sequence[Path], *, trust: bool = False) -> tuple[list[Inside], list[str]]:
    """Return pages for a report, of each model with weights beside its record at its first seed, and notes."""
    runs: dict[tuple[Path, str], Record] = {}
    for record in sorted(load(sources, skip=True).kind("run"), key=lambda record: record.seed):
        if any(record.path.with_suffix("").glob("epoch-*.safetensors")):
            runs.setdefault((record.path.parent, record.model), record)
    pages: list[Inside] = []
    notes: list[str] = []
    for record in sorted(runs.values(), key=lambda record: rank(record.model), reverse=True):
        command = f"mooring look {shlex.quote(str(record.path))}{' --trust' if ':' in record.model else ''}"
        if len(pages) == MOST_INSIDES:
            notes.append(f"No more than {MOST_INSIDES} memories are shown; this is one of the others: `{command}`.")
            continue
        try:
            run = trained(record.path, trust=trust)
            pages.append(Inside(run.title, command, run.page(max_nodes=FEW_NODES).html))
        except NoMemory:
            continue
        # Weights or data that are missing cost one picture and not the page.
        except (ValueError, RuntimeError, OSError) as error:
            reason = " ".join(str(error).split())
            notes.append(f"Not looked into: {reason if str(record.path) in reason else f'{record.path}: {reason}'}")
    return pages, notes


def trained(path: Path, imported: str | None = None, *, trust: bool = False) -> TrainedRun:
    """Return the network of a run, from its record, its folder or one of its checkpoints.

    `imported` is the import name of a user-defined experiment, `trust` as in :func:`page_of`.
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


def load_data(source: str) -> Any:
    """Return PyG data from a file or by import name."""
    try:
        return as_batch(_read_data(source))
    except TypeError as error:
        raise ValueError(f"look: --data {source}: {str(error).removeprefix('look: ')}") from error


def _read_data(source: str) -> Any:
    path = Path(source)
    if path.is_file():
        try:
            # Tensors and these classes only, so that loading a file runs no code.
            with torch.serialization.safe_globals(list(PLAIN)):
                return torch.load(path, weights_only=True)
        except Exception as error:  # bytes of another kind of file may raise anything
            raise ValueError(
                f"look: {path} is not a file of PyG data ({type(error).__name__} while reading it). Write one with "
                "torch.save(data, path); it may hold tensors and PyG's own classes."
            ) from error
    if ":" not in source:
        raise ValueError(f"look: --data {source!r} is neither a file nor of the form package.module:Name.")
    data = import_object(source, "look")
    # PyG's data is callable too.
    if isinstance(data, (Data, HeteroData)) or not callable(data):
        return data
    try:
        signature(data).bind()
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"look: --data {source} cannot be called without arguments ({error}). Name data, or a function without "
            "arguments that returns it."
        ) from error
    return data()


def _module(target: str, channels: int, arguments: Mapping[str, Any]) -> nn.Module:
    from mooring import audit
    from mooring.audit import catalogue

    if target.startswith(catalogue.ZOO):
        entries = catalogue.zoo_entries([target.removeprefix(catalogue.ZOO)], channels, arguments)
        target = f"{target} builds no module"
        module: Any = entries[0].build() if entries else None
    elif ":" in target:
        module = audit.resolve(target, channels, arguments)
    else:
        raise ValueError(
            f"look: {target!r} is neither a file, a folder nor of the form package.module:Name or zoo.NAME. Point it "
            "at a record such as runs/two-radius/quick/anchored-seed0.json."
        )
    if not isinstance(module, nn.Module):
        raise ValueError(f"look: {target}, so there is no nn.Module to look into.")
    return module


def audit_card(net: nn.Module) -> Card | None:
    """Return the audit card of a network's first memory; None if there is none, which :func:`look` reports."""
    from mooring import audit

    name, memory = next(iter(memories(net)), ("", None))
    if memory is None:
        return None
    if getattr(memory, "address_channels", None) is not None:
        raise ValueError(
            f"look: --audit calls a module as module(x, batch), and {name} of this run needs addresses. Leave it out."
        )
    width: Any = memory.channels
    return audit.audit(memory, channels=width, name=name)
