"""Many link-set graphs packed end to end, generated in parallel and kept on disk."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from mooring.suite.linksets.data.generator import generate
from mooring.suite.linksets.data.graph import STATUS_OPTIMAL, LinkGraph
from mooring.suite.linksets.data.settings import LinkSettings

# Part of the cache key: raise it when the same settings would give other graphs.
_VERSION = 1
_CHUNK = 20  # graphs per message between processes: about 0.4 s of work


@dataclass(frozen=True, eq=False)
class LinkDataset:
    """Graphs ``0..len-1`` of one split, concatenated.

    Shapes:
        the arrays of :class:`LinkGraph`, nodes and pairs of all graphs one after the other (pairs numbered inside
        each graph); status [graphs]; node_start, pair_start [graphs + 1] say where each graph begins.
    """

    position: NDArray[np.float64]
    orientation: NDArray[np.float64]
    gain: NDArray[np.float64]
    parity: NDArray[np.uint8]
    pairs: NDArray[np.int32]
    sector: NDArray[np.uint8]
    weight: NDArray[np.int64]
    chosen: NDArray[np.bool_]
    status: NDArray[np.int8]
    node_start: NDArray[np.int64]
    pair_start: NDArray[np.int64]

    @classmethod
    def pack(cls, graphs: Sequence[LinkGraph]) -> LinkDataset:
        return cls(
            **{
                name: np.concatenate([getattr(graph, name) for graph in graphs], axis=-1 if name != "position" else 0)
                for name in ("position", "orientation", "gain", "parity", "pairs", "sector", "weight", "chosen")
            },
            status=np.array([graph.status for graph in graphs], dtype=np.int8),
            node_start=np.cumsum([0] + [graph.num_nodes for graph in graphs]),
            pair_start=np.cumsum([0] + [len(graph.weight) for graph in graphs]),
        )

    def __len__(self) -> int:
        return len(self.status)

    def __getitem__(self, index: int) -> LinkGraph:
        if not 0 <= index < len(self):
            raise IndexError(f"LinkDataset: graph {index} of {len(self)}.")
        nodes = slice(self.node_start[index], self.node_start[index + 1])
        pairs = slice(self.pair_start[index], self.pair_start[index + 1])
        return LinkGraph(
            position=self.position[nodes],
            orientation=self.orientation[nodes],
            gain=self.gain[nodes],
            parity=self.parity[nodes],
            pairs=self.pairs[:, pairs],
            sector=self.sector[:, pairs],
            weight=self.weight[pairs],
            chosen=self.chosen[pairs],
            status=int(self.status[index]),
        )

    @property
    def all_optimal(self) -> bool:
        """Whether the solver proved every link set optimal."""
        return bool((self.status == STATUS_OPTIMAL).all())

    def save(self, path: Path) -> None:
        """Write to ``path``; a kill at any moment leaves the old file or the new one, never a part of one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as file:
                np.savez(file, **{field.name: getattr(self, field.name) for field in fields(self)})
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> LinkDataset:
        # Opened here, because numpy forgets to close a file that turns out to be broken.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return cls(**{field.name: stored[field.name] for field in fields(cls)})


def generate_many(settings: LinkSettings, split: str, num_graphs: int, seed: int, *, workers: int = 1) -> LinkDataset:
    """Return the first graphs of a split, the same bytes for any number of worker processes."""
    settings.size_range(split)
    if num_graphs < 1 or workers < 1:
        raise ValueError(f"linksets: num_graphs={num_graphs} and workers={workers} must be at least 1.")
    starts = range(0, num_graphs, _CHUNK)
    make = partial(_generate_chunk, settings, split, num_graphs, seed)
    if workers == 1:
        chunks = _tracked(map(make, starts), split, len(starts))
    else:
        # Spawned, not forked: a fork of a process in which torch runs threads may never return.
        with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_end_with_parent) as pool:
            chunks = _tracked(pool.map(make, starts), split, len(starts))
    return LinkDataset.pack([graph for chunk in chunks for graph in chunk])


def cached(
    settings: LinkSettings,
    split: str,
    num_graphs: int,
    seed: int,
    *,
    workers: int = 1,
    folder: Path | None = None,
) -> LinkDataset:
    """:func:`generate_many`, kept in ``folder`` (``$MOORING_CACHE`` or ``~/.cache/mooring``) under a hash of the
    settings. An unreadable file is made again; of several processes that want one file, one makes it.
    """
    folder = folder or Path(os.environ.get("MOORING_CACHE") or Path.home() / ".cache" / "mooring")
    path = folder / "linksets" / f"{split}-{cache_key(settings, split, num_graphs, seed)}.npz"
    with _held(path.with_suffix(".lock")):
        try:
            return LinkDataset.load(path)
        except (FileNotFoundError, KeyError, ValueError, EOFError, BadZipFile):
            dataset = generate_many(settings, split, num_graphs, seed, workers=workers)
            dataset.save(path)
            return dataset


def cache_key(settings: LinkSettings, split: str, num_graphs: int, seed: int) -> str:
    """Return a name for these graphs: equal for equal arguments, and for no others."""
    asked = [_VERSION, asdict(settings), split, num_graphs, seed]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:20]


def _generate_chunk(settings: LinkSettings, split: str, num_graphs: int, seed: int, start: int) -> list[LinkGraph]:
    return [generate(settings, split, index, seed) for index in range(start, min(start + _CHUNK, num_graphs))]


def _end_with_parent() -> None:
    # Pool processes wait for work for ever when their parent is killed.
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _tracked(chunks: Iterator[list[LinkGraph]], split: str, total: int) -> list[list[LinkGraph]]:
    console = Console(stderr=True)
    return list(
        track(chunks, f"link sets, {split}", total, console=console, disable=not console.is_terminal, transient=True)
    )


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold a lock file; the system lets go of it when the process ends in any way."""
    try:
        import fcntl
    except ImportError:
        # Without locks several processes may do the same work, and each leaves a whole file.
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
