"""Published records: one line of JSON each in `BOARD.jsonl`, curves and diagnostics in `BOARD.curves.jsonl.xz`.

The first line is of the board. It has the hash of the file of curves, the fields that most lines share, which those
lines leave out, and the order of all fields, in which tables list the changed ones. Every other line is a record and
names the `file` that the run wrote. So does each line of the curves, where the rows of all epochs are stored by column.
Nothing is rounded: what was packed is read back field for field.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from mooring.suite.records.identity import digest
from mooring.suite.records.reader import (
    LARGEST_FILE,
    check_content,
    check_schema,
    make_record,
    parse_json,
    read_text,
)
from mooring.suite.records.record import LINES, SCHEMA, Record, RecordError

CURVES, BOARD = ".curves.jsonl.xz", "board"
# Fields that a line always has itself.
NEVER_SHARED = ("file", "model", "preset", "seed", "metrics")
_RESTORE = "Restore the line from git, or delete it and publish the record again."

# The names that lead to a field, and fields by their paths.
Names = tuple[str, ...]
Fields = Mapping[Names, Any]
# Reads the curves and diagnostics of a record, given its `file` and the place of its line, for messages.
Curves = Callable[[str, Path], Mapping[str, Any]]


def pack(records: Mapping[str, Mapping[str, Any]]) -> tuple[bytes, bytes]:
    """Return the lines and the compressed curves of a board's records, the latter empty if there are none.

    Args:
        records: all fields of each record, by the file that the run wrote.
    """
    lines, curves = [], []
    for file, data in sorted(records.items()):
        bulk = {name: data[name] for name in ("diagnostics",) if name in data}
        light = {"file": file, **{name: value for name, value in data.items() if name not in bulk}}
        if data["kind"] == "run":
            light["metrics"] = dict(data["metrics"])
            bulk["epochs"] = by_column(light["metrics"].pop("epochs"))
        lines.append(light)
        curves += [_json({"file": file, **bulk})] if bulk else []
    packed = lzma.compress("".join(curves).encode(), preset=9 | lzma.PRESET_EXTREME) if curves else b""
    flat = [dict(flatten(line)) for line in lines]
    # The longest first: newer records have fields that older ones lack.
    longest = sorted(flat, key=lambda line: -len({place for path in line for place in above(path)}))
    order = list(dict.fromkeys(name for line in longest for path in line for name in path))
    flat = [ordered(line, order) for line in flat]
    shared = common(flat)
    hashed = digest([packed]) if packed else None
    board = {"schema": SCHEMA, "kind": BOARD, "curves": hashed, "order": order, "shared": nest(shared)}
    differing = [
        {path: value for path, value in line.items() if path not in shared or _json(value) != _json(shared[path])}
        for line in flat
    ]
    return "".join(map(_json, [board, *map(nest, differing)])).encode(), packed


def read_lines(path: Path) -> Iterator[Record | RecordError]:
    """Yield the records of a file of lines, or a RecordError in place of each that is not usable."""
    shared: Fields = {}
    order: list[str] = []
    curves: Curves | None = None
    texts = read_text(path, 16 * LARGEST_FILE).split("\n")
    first = Path(f"{path}:1")
    board = parse_json(texts[0], first, _RESTORE)
    if isinstance(board, dict) and board.get("kind") == BOARD:
        check_schema(board, first)
        header = Record(first, BOARD, board, _RESTORE)
        shared, order = dict(flatten(header.mapping("shared"))), list(map(str, header.items("order")))
        curves = reader_of_curves(board, path)
        texts[0] = ""
    for number, text in enumerate(texts, start=1):
        place = Path(f"{path}:{number}")
        try:
            if text:
                data = parse_json(text, place, _RESTORE)
                if isinstance(data, dict):
                    line = dict(flatten(data))
                    # A null of the line takes the place of a shared object.
                    inherited = {path: value for path, value in shared.items() if line.keys().isdisjoint(above(path))}
                    data = nest(ordered(inherited | line, order))
                yield _read_line(data, place, curves)
        except RecordError as error:
            yield error


def _read_line(data: Any, place: Path, curves: Curves | None) -> Record:
    if not isinstance(data, dict) or "file" not in data:
        return make_record(place, data)
    file = data.pop("file")
    if not isinstance(file, str) or PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
        raise RecordError(f"{place}: field 'file' is {file!r:.80}, expected a path below the folder. {_RESTORE}", place)

    def bulk() -> Mapping[str, Any]:
        assert curves is not None
        content = curves(file, place)
        check_content(content, place, _RESTORE)
        return content

    return make_record(place, data, file=place.parent / file, bulk=bulk if curves else None)


def reader_of_curves(board: Mapping[str, Any], path: Path) -> Curves | None:
    """Return the reader of a board's curves and diagnostics; None if its lines are whole.

    The file of curves is decompressed when the first of them is read; RecordError if it belongs to other lines.

    Args:
        board: the first line.
        path: the file of the lines.
    """
    source = path.with_name(path.name.removesuffix(LINES) + CURVES)
    if board.get("curves") is None:
        return None
    try:
        packed = source.read_bytes()
    except OSError as error:
        raise RecordError(
            f"{source}: cannot be read ({error.strerror or error}), but {path} needs it.", path
        ) from error
    if digest([packed]) != board["curves"]:
        raise RecordError(f"{source}: not the curves of {path.name}. Check out both files from one commit.", path)

    @cache
    def curves() -> dict[str, str]:
        text = lzma.decompress(packed).decode()
        return {json.JSONDecoder().raw_decode(line, len('{"file":'))[0]: line for line in text.split("\n") if line}

    def read(file: str, where: Path) -> Mapping[str, Any]:
        try:
            bulk = json.loads(curves()[file])
            epochs = {"epochs": by_row(bulk["epochs"])} if "epochs" in bulk else {}
        except (lzma.LZMAError, ValueError, KeyError, RecursionError) as error:
            raise RecordError(f"{where}: its curves cannot be read from {source} ({error}).", where) from error
        return {name: value for name, value in bulk.items() if name != "file"} | epochs

    return read


def flatten(record: Mapping[str, Any], path: Names = ()) -> Iterator[tuple[Names, Any]]:
    """Yield the fields of a record and of its objects by their paths of names; metrics stay whole.

    >>> dict(flatten({"seed": 0, "config": {"slots": 8}, "metrics": {"best": {}}}))
    {('seed',): 0, ('config', 'slots'): 8, ('metrics',): {'best': {}}}
    """
    for name, value in record.items():
        if isinstance(value, Mapping) and value and name not in NEVER_SHARED:
            yield from flatten(value, (*path, name))
        else:
            yield (*path, name), value


def nest(fields: Fields) -> dict[str, Any]:
    """Invert :func:`flatten`."""
    whole: dict[str, Any] = {}
    for (*outer, last), value in fields.items():
        place = whole
        for name in outer:
            place = place.setdefault(name, {})
        place[last] = value
    return whole


def common(records: Sequence[Fields]) -> dict[Names, Any]:
    """Return the fields that all records have, each with its most frequent value, if it occurs twice.

    >>> common([{("a",): 1, ("b", "c"): 2, ("b", "d"): 3}, {("a",): 1, ("b", "c"): 2, ("b", "d"): 4}])
    {('a',): 1, ('b', 'c'): 2}
    """
    shared: dict[Names, Any] = {}
    for path in records[0] if records else ():
        if path[0] not in NEVER_SHARED and all(path in record for record in records):
            counts = Counter(_json(record[path]) for record in records)
            text, times = min(counts.items(), key=lambda item: (-item[1], item[0]))
            if times > 1 and (value := json.loads(text)) != {}:
                shared[path] = value
    return shared


def ordered(fields: Fields, order: Sequence[str]) -> dict[Names, Any]:
    """Return the fields in the given order of names."""
    rank = {name: place for place, name in enumerate(order)}
    return dict(sorted(fields.items(), key=lambda item: [rank.get(name, len(rank)) for name in item[0]]))


def above(path: Names) -> Iterator[Names]:
    """Yield the path of a field and those of the objects that hold it."""
    return (path[:length] for length in range(1, len(path) + 1))


def by_column(rows: list[Mapping[str, Any]]) -> Any:
    """Return rows with equal fields as one list per field; other rows are returned unchanged.

    >>> by_column([{"epoch": 0, "loss": 2.0}, {"epoch": 1, "loss": 1.0}])
    {'epoch': [0, 1], 'loss': [2.0, 1.0]}
    """
    names = list(rows[0]) if rows else []
    if not names or any(list(row) != names for row in rows):
        return rows
    return {name: [row[name] for row in rows] for name in names}


def by_row(columns: Any) -> Any:
    """Invert :func:`by_column`."""
    if not isinstance(columns, Mapping):
        return columns
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"
