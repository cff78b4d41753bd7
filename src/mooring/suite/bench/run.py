"""Runner of the benchmarks, which prints ratios."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console

from mooring.named import suggest
from mooring.suite.bench.compare import SIZES as SIZES_OF_DEFAULT
from mooring.suite.bench.compare import Row, compare, compare_batches, compare_default, compare_sizes
from mooring.suite.bench.measure import keep_freed_memory
from mooring.suite.bench.nodes import PEERS_BY_SIZE, SIZES, compare_nodes
from mooring.suite.bench.peers import ALONE, DEFAULT, LOCAL, OURS, PADDED, PEERS, get_peer, zoo_peers
from mooring.suite.bench.shapes import SHAPES, Setting, get_shape
from mooring.suite.terminal import FittedTable
from mooring.table import Column, Table

Sweep = Literal["peers", "nodes", "slots", "batches", "default", "zoo"]

TITLES = {
    "peers": "Slots against peers: time over the bare products, and over the slots",
    "nodes": "Cost against the number of nodes of one graph",
    "slots": "Cost against slots, heads and width",
    "batches": "Ordinary batches of molecules: training time over that of the default module",
    "default": "The default module, with C++ operators and in PyTorch alone: training time",
    "zoo": "Every module of the zoo on one graph",
}
# Default shapes; a sweep over nodes has separate shapes.
USUAL = {
    "peers": tuple(SHAPES),
    "slots": ("medium",),
    "batches": ("molecules-32", "molecules-64", "molecules-256", "molecules-512"),
    "default": tuple(SIZES_OF_DEFAULT),
    "zoo": ("1x200", "1x2000", "1x20000"),
}
CAPTION = (
    "Ratios of minimum times measured in one run, rounds taking turns. Training is forward and backward. The floor is "
    "the bare matrix products and one copy of the features. Extra memory is what a training call adds to the input and "
    "output gradient its caller holds, over the size of input, output and input gradient."
)


def bench(
    shapes: Sequence[str] = (),
    threads: int = 2,
    repeats: int = 7,
    console: Console | None = None,
    *,
    sweep: Sweep = "peers",
    peers: Sequence[str] = (),
    sizes: Sequence[int] = SIZES,
    setting: Setting | None = None,
    memory: bool = True,
    save: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Compare the ops with the oracle, then time contestants in one run; return a record of ratios.

    The process keeps freed memory from then on, see :func:`~mooring.suite.bench.measure.keep_freed_memory`.

    Args:
        shapes: names of :data:`~mooring.suite.bench.shapes.SHAPES`, or equal graphs as in ``8x2000``. By default all;
            ``medium`` for a sweep over slots; one graph of 200, 2,000 and 20,000 nodes for the zoo. A sweep over nodes
            ignores them.
        threads: threads of every contestant.
        repeats: rounds, of two calls each; the minimum is reported.
        console: console for the table; nothing is printed if None.
        sweep: ``peers`` compares peers on the shapes, ``nodes`` varies the number of nodes, ``slots`` slots, heads and
            width; ``default`` compares the default module, with C++ operators and without, with a local layer and
            PyG's induced attention; ``batches`` compares ordinary batches of molecules at two widths, with one thread
            and with two; ``zoo`` compares all modules of the zoo.
        peers: names or slugs of :data:`~mooring.suite.bench.peers.PEERS`, or of the zoo as in ``zoo.lse``; by default
            those that suit the sweep.
        sizes: numbers of nodes for the sweep over nodes.
        setting: width, slots, heads and device; the base that a sweep over slots varies.
        memory: also measure peak memory, each contestant in a separate process.
        save: called with the record so far after each shape, so that no measurement is lost if the process is killed.

    Raises:
        WrongResult: the ops differ from the oracle; nothing was timed.
    """
    if sweep not in TITLES:
        hint = suggest(sweep, TITLES, f"the sweeps are {', '.join(TITLES)}.")
        raise ValueError(f"bench: unknown sweep {sweep!r}; {hint}")
    for name, number in (("threads", threads), ("repeats", repeats)):
        if number < 1:
            raise ValueError(f"bench: {name}={number}, expected 1 or more.")
    for shape in shapes:
        get_shape(shape)
    setting = setting or Setting()
    if setting.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("bench: device 'cuda' was requested, but torch finds no CUDA device. Use 'cpu'.")
    default: dict[str, Sequence[str]] = {
        "peers": [name for name in PEERS if name not in (PADDED, ALONE, LOCAL)],
        "nodes": PEERS_BY_SIZE,
        "slots": (OURS, "ISAB"),
        "batches": (DEFAULT, PADDED, LOCAL, "OGB-style VN", "GPSConv multihead"),
        "default": (DEFAULT, ALONE, LOCAL, "ISAB"),
        "zoo": zoo_peers(),
    }
    # The comparison of the default module needs all of its peers.
    peers = default[sweep] if sweep == "default" else peers or default[sweep]
    first = DEFAULT if sweep in ("batches", "default") else OURS
    chosen = list(dict.fromkeys([first, *(get_peer(name).name for name in peers)]))
    with_memory = partial(compare, memory=memory)
    measure: dict[str, Callable[..., list[Row]]] = {
        "peers": with_memory,
        "slots": compare_sizes,
        "batches": compare_batches,
        "default": compare_default,
        "zoo": with_memory,
    }
    save = save or (lambda record: None)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    keep_freed_memory()
    record: dict[str, Any] = {
        "schema": 1,
        "kind": "bench",
        "name": sweep,
        "title": TITLES[sweep],
        "caption": CAPTION,
        "machine": describe_machine(setting.device, threads),
        "settings": {**vars(setting), "threads": threads, "repeats": repeats},
        "shapes": {},
        "rows": [],
        "series": [],
    }
    try:
        if sweep == "nodes":
            for record["rows"], record["series"] in compare_nodes(sizes, chosen, setting, repeats, memory):
                save(record)
        for shape in () if sweep == "nodes" else shapes or USUAL[sweep]:
            record["rows"] += measure[sweep](shape, chosen, setting, repeats)
            record["shapes"][shape] = get_shape(shape).about
            save(record)
    finally:
        torch.set_num_threads(before)
    save(record)
    if console is not None:
        console.print(FittedTable(table(record)))
    return record


def table(record: dict[str, Any]) -> Table:
    """Return the rows of a record as a table, without empty columns."""
    fields = list(dict.fromkeys(field for row in record["rows"] for field in row if row[field] is not None))
    words = {field for field in fields if any(isinstance(row.get(field), str) for row in record["rows"])}
    columns = tuple(Column(field.replace("_", " "), left=field in words, wide=field == "note") for field in fields)
    rows = tuple(tuple(_text(row.get(field)) for field in fields) for row in record["rows"])
    return Table(record["name"], record["title"], columns, rows, (record["caption"],))


def _text(value: object) -> str:
    return "" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def describe_machine(device: str, threads: int) -> str:
    """Describe the machine of the measurements, as far as the system provides it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    gpu = f"{torch.cuda.get_device_name()}, " if device == "cuda" else ""
    return f"{gpu}{processor}, {threads} thread{'s' * (threads != 1)}, torch {torch.__version__}"
