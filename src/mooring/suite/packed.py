"""Graphs packed end to end, one array per field, and graphs made in parallel."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from mooring.suite.files import end_with_parent, write_atomic
from mooring.suite.records.identity import ABSENT, Identity, digest

Graph = TypeVar("Graph")


class Packed(Generic[Graph]):
    """Graphs ``0..len-1`` of one split: each field of a graph is one array, and an attribute of the same name.

    The two arrays named in ``starts`` [graphs + 1] are the first node and the first edge of each graph.
    """

    #: The dataclass of one graph; its fields with nodes along the first axis, and with edges along the last. Every
    #: other field has one value per graph.
    graph_type: ClassVar[type]
    per_node: ClassVar[tuple[str, ...]]
    per_edge: ClassVar[tuple[str, ...]]
    starts: ClassVar[tuple[str, str]]

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.arrays = dict(arrays)

    def __getattr__(self, name: str) -> NDArray[Any]:
        try:
            return vars(self)["arrays"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no {name!r}") from None

    @classmethod
    def pack(cls, graphs: Sequence[Graph]) -> Self:
        """Concatenate the graphs."""
        arrays = {}
        for field in fields(cls.graph_type):
            values = [getattr(graph, field.name) for graph in graphs]
            if field.name in (*cls.per_node, *cls.per_edge):
                arrays[field.name] = np.concatenate(values, axis=0 if field.name in cls.per_node else -1)
            else:
                arrays[field.name] = np.stack(values)
        for start, of, axis in ((cls.starts[0], cls.per_node[0], 0), (cls.starts[1], cls.per_edge[0], -1)):
            arrays[start] = np.cumsum([0] + [getattr(graph, of).shape[axis] for graph in graphs])
        return cls(arrays)

    def __len__(self) -> int:
        return len(self.arrays[self.starts[0]]) - 1

    def __getitem__(self, index: int) -> Graph:
        if not 0 <= index < len(self):
            raise IndexError(f"{type(self).__name__}: graph {index} of {len(self)}.")
        nodes, edges = (slice(*self.arrays[start][index : index + 2]) for start in self.starts)
        values = {}
        for name in (field.name for field in fields(self.graph_type)):
            array = self.arrays[name]
            if name in self.per_node:
                values[name] = array[nodes]
            elif name in self.per_edge:
                values[name] = array[..., edges]
            else:
                values[name] = array[index] if array.ndim > 1 else array[index].item()
        return cast(Graph, self.graph_type(**values))

    def sha256(self) -> str:
        """Return the hash of the arrays."""
        parts: list[str | bytes] = []
        for name, array in sorted(self.arrays.items()):
            parts += [f"{name} {array.dtype} {array.shape}", array.tobytes()]
        return digest(parts)

    def save(self, path: Path, identity: Identity) -> None:
        """Write the identity, the hash of the arrays and the arrays to ``path``, atomically."""
        content = io.BytesIO()
        facts = json.dumps({**identity.facts(), "data": self.sha256()})
        np.savez(content, identity=np.array(facts), **self.arrays)  # type: ignore[arg-type] # not called allow_pickle
        write_atomic(path, content.getvalue())

    @classmethod
    def load(cls, path: Path, identity: Identity) -> Self:
        """Read :meth:`save` back; RecordError if identity or hash differ."""
        # Opened here, because numpy does not close a file that turns out to be broken.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            names = (*(field.name for field in fields(cls.graph_type)), *cls.starts)
            packed, facts = cls({name: stored[name] for name in names}), json.loads(str(stored["identity"]))
        if not isinstance(facts, dict) or not isinstance(facts.get("config"), dict):
            raise ValueError(f"{path}: its identity is {facts!r:.80}, expected a JSON object with a config.")
        # A file without a hash is not trusted.
        facts |= {"data": facts.get("data") or ABSENT, "code": identity.code}
        replace(identity, data=packed.sha256()).require(facts, path, "It is made again.")
        return packed


def ragged(start: NDArray[np.int64], graphs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of all elements of some graphs, and the place of the graph of each in ``graphs``.

    Args:
        start: first element of each graph, and the end of the last.
        graphs: numbers of the graphs, in any order; a number may come twice.

    >>> [part.tolist() for part in ragged(np.array([0, 2, 5]), np.array([1, 0]))]
    [[2, 3, 4, 0, 1], [0, 0, 0, 1, 1]]
    """
    sizes = np.diff(start)[graphs]
    owner = np.repeat(np.arange(len(graphs)), sizes)
    within = np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner]
    return start[graphs][owner] + within, owner


def in_chunks(make: Callable[[range], list[Graph]], num_graphs: int, size: int, workers: int) -> Iterator[list[Graph]]:
    """Yield graphs ``0..num_graphs-1`` in order, in chunks of ``size``, made in this process or in ``workers`` others.

    Args:
        make: makes the graphs of a range; a function that another process can import.
        workers: processes; 1 is this one.
    """
    ranges = [range(start, min(start + size, num_graphs)) for start in range(0, num_graphs, size)]
    if workers == 1:
        yield from map(make, ranges)
        return
    # Spawned, not forked: a fork of a process in which torch runs threads may hang. When their parent is killed, the
    # processes of a pool would wait for work forever.
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=end_with_parent) as pool:
        yield from pool.map(make, ranges)
