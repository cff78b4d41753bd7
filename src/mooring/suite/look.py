"""Targets of ``mooring look``: a run, a checkpoint, a model of ``mooring train``, or a module with data for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage
from torch_geometric.utils import from_smiles

from mooring.look import NoMemory, Page, look
from mooring.look.graphs import as_batch
from mooring.look.record import memories
from mooring.named import import_object
from mooring.suite.molecules import ABOUT, TrainedGNN
from mooring.suite.records import Record, load
from mooring.suite.report.groups import rank
from mooring.suite.report.page import Inside
from mooring.suite.train.trained import TrainedRun, trained

if TYPE_CHECKING:  # imported only for an audit
    from mooring.audit import Card

# A report shows no more memories than this, of graphs no larger than that.
MOST_INSIDES, FEW_NODES = 8, 500
# The classes of PyG data in a file.
PLAIN = (Data, DataEdgeAttr, DataTensorAttr, HeteroData, BaseStorage, EdgeStorage, GlobalStorage, NodeStorage)


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
    """Return the page of a run, of a model of `mooring train`, or of a module.

    Args:
        target: a record, the folder of a run, a checkpoint in it, the folder of a model of `mooring train`,
            ``package.module:Name`` or ``zoo.NAME``.
        data: a file that ``torch.save`` wrote, or ``package.module:Name`` of PyG data or of a function that returns it.
            By default a run shows its first training batch, and a model of `mooring train` some molecules of its test.
        channels, arguments: arguments of a class, as in :func:`mooring.audit.resolve`.
        graphs, max_nodes: as in :func:`mooring.look.look`.
        audited: measure the memory too, and show its audit card.
        task: ``package.module:ClassName`` of a run's user-defined experiment; a record cannot name code to run.
        trust: import a run's model if its name is ``package.module:Name``.
    """
    options: dict[str, Any] = {"graphs": graphs, "max_nodes": max_nodes}
    if is_model(Path(target)):
        return _page_of_model(Path(target), data, audited, **options)
    if Path(target).exists():
        run = trained(Path(target), task, trust=trust)
        return _page_of_run(run, data, card=_card(run.net) if audited else None, **options)
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


def is_model(folder: Path) -> bool:
    """Return whether a folder is that of a model of `mooring train`."""
    return (folder / ABOUT).is_file()


def _page_of_model(folder: Path, data: str | None, audited: bool, **options: Any) -> Page:
    model = TrainedGNN.load(folder)
    if data is None and not model.examples:
        raise ValueError(f"look: {folder} names no molecules to show. Pass --data, or train the model again.")
    graphs = [from_smiles(smiles) for smiles in model.examples] if data is None else load_data(data)
    card = _card(model.net) if audited else None
    return look(model.net, graphs, card=card, title=f"{folder}: {', '.join(model.targets)}", **options)


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
            pages.append(Inside(run.title, command, _page_of_run(run, max_nodes=FEW_NODES).html))
        except NoMemory:
            continue
        # Weights or data that are missing cost one picture and not the page.
        except (ValueError, RuntimeError, OSError) as error:
            reason = " ".join(str(error).split())
            notes.append(f"Not looked into: {reason if str(record.path) in reason else f'{record.path}: {reason}'}")
    return pages, notes


def _page_of_run(run: TrainedRun, data: str | None = None, **options: Any) -> Page:
    """Return the page of the network on the run's first training batch, or on data as in :func:`page_of`."""
    if data is not None:
        return look(run.net, load_data(data), title=run.title, **options)
    name, batch = run.experiment.name, run.experiment.train_batch(0, 0)
    try:
        as_batch(batch)
    except TypeError as error:
        raise ValueError(
            f"look: a training batch of {name} is not PyG data ({str(error).removeprefix('look: ')}) Pass data for "
            "the network with --data."
        ) from error
    try:
        return look(run.net, batch, call=lambda net, _: run.experiment.loss(net, batch, 0), title=run.title, **options)
    except NoMemory as error:
        raise NoMemory(f"look: {run.title}: this model has no memory to show.") from error


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


def _card(net: nn.Module) -> Card | None:
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
