"""Generated data sets: made in parallel by a function of the index, and kept on disk."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

from rich.console import Console
from rich.progress import track

from mooring.suite.files import hold
from mooring.suite.packed import Packed, in_chunks
from mooring.suite.records import RecordError
from mooring.suite.records.identity import Identity, digest

Data = TypeVar("Data", bound=Packed[Any])


def pack(
    dataset: type[Data],
    generate: Callable[..., Any],
    num_graphs: int,
    *,
    task: str,
    title: str = "",
    chunk: int,
    workers: int,
) -> Data:
    """Return graphs ``0..num_graphs-1`` as one data set, the same for any number of worker processes.

    Args:
        dataset: class of the result.
        generate: makes a graph, ``generate(index=...)``; other processes import it.
        num_graphs: number of graphs.
        task: name of the caller, for messages.
        title: what a terminal shows beside the progress; nothing is shown without.
        chunk: graphs per message between processes, a second of work or less.
        workers: processes; 1 uses the current one.
    """
    if num_graphs < 1 or workers < 1:
        raise ValueError(f"{task}: num_graphs={num_graphs} and workers={workers} must be at least 1.")
    chunks = in_chunks(partial(_generate_range, generate), num_graphs, chunk, workers)
    console, total = Console(stderr=True), math.ceil(num_graphs / chunk)
    silent = not title or not console.is_terminal
    tracked = track(chunks, title, total, console=console, disable=silent, transient=True)
    return dataset.pack([graph for graphs in tracked for graph in graphs])


def _generate_range(generate: Callable[..., Any], indices: range) -> list[Any]:
    return [generate(index=index) for index in indices]


def from_cache(
    dataset: type[Data], name: str, identity: Identity, make: Callable[[], Data], folder: Path | None
) -> Data:
    """Return a data set from its file in the cache; make and write it if there is none.

    A file that is unreadable, of other graphs, or changed since it was written is made again. If several processes need
    the same file, only one makes it.

    Args:
        dataset: class of the data set.
        name: name of its file.
        identity: task, seed and settings of the graphs.
        make: makes the data set.
        folder: the cache; ``$MOORING_CACHE`` or ``~/.cache/mooring`` if None.
    """
    folder = folder or Path(os.environ.get("MOORING_CACHE") or Path.home() / ".cache" / "mooring")
    path = folder / identity.task / f"{name}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with hold(path.with_suffix(".lock")):
        try:
            return dataset.load(path, identity)
        except RecordError as error:
            warnings.warn(str(error), stacklevel=2)
        except (FileNotFoundError, KeyError, ValueError, EOFError, BadZipFile):
            pass
        data = make()
        data.save(path, identity)
        return data


def cache_key(*arguments: Any) -> str:
    """Return the part of a file name that depends on all arguments."""
    return digest([json.dumps(arguments, sort_keys=True)])[:20]
