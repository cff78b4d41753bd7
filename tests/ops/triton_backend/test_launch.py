"""Launchers: number of launches, no host sync, messages, and import without Triton."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from mooring.ops import triton as backend
from mooring.ops.triton import language, launch
from support import Ragged

from cases import read_inputs, write_inputs  # isort: skip
from functions import places  # isort: skip

Kernels = Callable[..., Any]
# Reading a number back, or a shape that depends on the data, would stop the host and a CUDA graph's capture.
STOPS = ("_local_scalar_dense", "nonzero", "item", "unique", "masked_select", "bincount", "_to_copy", "copy_")
FREE = ("new_empty", "empty_like", "view", "expand", "slice", "unsqueeze", "_unsafe_view")
EQUAL, SKEWED = (20,) * 10, (191, 1, 0, 0, 0, 0, 0, 0, 8, 0)
CALLS = {
    "write_forward": ["write_chunks", "merge_states"],
    "write_backward": ["write_rows"],
    "read_forward": ["read_context"],
    "read_backward": ["read_rows", "merge_sums"],
}


def arguments(function: str, batch: Ragged) -> list[Any]:
    graphs = batch.num_graphs
    state = (torch.zeros(graphs, 3, 2, 7), torch.zeros(graphs, 3, 2))
    write = [*write_inputs(batch, "separate heads", torch.float32), *places(batch)]
    read = [*read_inputs(batch, "separate heads", torch.float32), *places(batch)]
    return {
        "write_forward": write,
        "write_backward": [*state, *write, None, *state, state[1]],
        "read_forward": read,
        "read_backward": [torch.zeros(batch.num_nodes, 2, 7), *read],
    }[function]


@pytest.mark.parametrize("function", CALLS)
def test_launches_do_not_depend_on_the_sizes_of_graphs(kernels: Kernels, function: str) -> None:
    even, skewed = (
        kernels("launches", function, *arguments(function, Ragged(sizes, False, seed=1))) for sizes in (EQUAL, SKEWED)
    )
    assert even == skewed
    names, operators = even
    assert [name.partition("(")[0] for name in names] == CALLS[function]
    assert not [operator for operator in operators if any(stop in operator for stop in STOPS)]
    # Of torch's own operators only sums take a launch; the others allocate or view.
    sums = [operator for operator in operators if "sum" in operator]
    assert len(sums) == (function == "write_backward")
    assert {operator.split(".")[1] for operator in operators} <= {"sum", *FREE}


@pytest.mark.parametrize("function", CALLS)
def test_more_rows_than_a_tile_take_one_more_launch(kernels: Kernels, function: str) -> None:
    batch = Ragged((20, 3), True, seed=1)
    query, x = torch.zeros(17, 2, 8), torch.zeros(batch.num_nodes, 1, 8)
    state, slots = (torch.zeros(2, 17, 2, 8), torch.zeros(2, 17, 2)), torch.zeros(2, 17, 2, 8)
    inputs = {
        "write_forward": [query, x, None, *places(batch)],
        "write_backward": [*state, query, x, None, *places(batch), None, *state, state[1]],
        "read_forward": [x, slots, slots, *places(batch)],
        "read_backward": [x, x, slots, slots, *places(batch)],
    }[function]
    options = {"sum_heads": True} if "read" in function else {}
    names, _ = kernels("launches", function, *inputs, settings={"ROWS": 16}, **options)
    assert len(names) == len(CALLS[function]) + ("backward" in function)


def test_precision_follows_torch() -> None:
    single, half = torch.zeros(1), torch.zeros(1, dtype=torch.bfloat16)
    before = torch.get_float32_matmul_precision()
    try:
        for setting, precision in {"highest": "ieee", "high": "tf32x3", "medium": "tf32"}.items():
            torch.set_float32_matmul_precision(setting)
            assert launch.precision_of(128, single, half, None) == precision
            assert launch.precision_of(256, half, None) == "tf32"
            assert launch.precision_of(256, single) == {"tf32x3": "ieee"}.get(precision, precision)
    finally:
        torch.set_float32_matmul_precision(before)


def test_amd_has_no_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "ON_HIP", True)
    single, half = torch.zeros(1), torch.zeros(1, dtype=torch.float16)
    assert launch.precision_of(128, half, None) == "bf16x3"
    before = torch.get_float32_matmul_precision()
    try:
        for setting, precision in {"highest": "ieee", "high": "ieee", "medium": "bf16x3"}.items():
            torch.set_float32_matmul_precision(setting)
            assert launch.precision_of(64, single, half) == precision
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("programs", [1, 4])
@pytest.mark.parametrize("num_nodes", [0, 1, 127, 200_000, 10**8])
def test_chunks_are_powers_of_two_within_bounds(num_nodes: int, programs: int) -> None:
    chunk = launch.chunk_size(num_nodes, programs)
    assert launch.CHUNKS[0] <= chunk <= launch.CHUNKS[1]
    assert chunk & (chunk - 1) == 0


# (nodes, rows, warps) of the tiles at the default width of a head, of folded features, and at the widest.
TILES = {
    ("tf32", False): ((64, 64, 2), (64, 64, 8), (32, 32, 8)),
    ("tf32", True): ((16, 64, 2), (32, 64, 8), (16, 32, 8)),
    ("tf32x3", False): ((32, 64, 2), (32, 64, 8), (16, 16, 8)),
    ("tf32x3", True): ((16, 64, 2), (16, 32, 8), (16, 16, 8)),
    ("bf16x3", False): ((32, 64, 2), (32, 64, 8), (16, 16, 8)),
    ("bf16x3", True): ((16, 64, 2), (16, 32, 8), (16, 16, 8)),
    ("ieee", False): ((32, 64, 2), (16, 64, 8), (16, 16, 8)),
    ("ieee", True): ((16, 64, 2), (16, 32, 8), (16, 16, 8)),
}


@pytest.mark.parametrize(("precision", "backward"), launch.LIMITS)
def test_tiles_are_those_whose_registers_were_counted(precision: str, backward: bool) -> None:
    found = [launch.blocks(precision, dim, dim, backward=backward) for dim in (16, 64, launch.WIDEST)]
    assert tuple((one.nodes, one.rows, one.num_warps) for one in found) == TILES[precision, backward]
    assert all(one.nodes & (one.nodes - 1) == one.rows & (one.rows - 1) == 0 for one in found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"key": torch.zeros(3, 1, 4, dtype=torch.float64)}, ["key", "float64", "another back end"]),
        ({"key": torch.zeros(3, 1, 300)}, ["key", "300", "256"]),
        ({"ptr": torch.tensor([0, 3], dtype=torch.int32)}, ["ptr", "int32", "int64"]),
        ({"order": torch.arange(2)}, ["order", "(2,)", "3 nodes"]),
    ],
)
def test_messages(kernels: Kernels, change: dict[str, Any], words: list[str]) -> None:
    inputs = {
        "query": torch.zeros(2, 1, 4),
        "key": torch.zeros(3, 1, 4),
        "value": None,
        "ptr": torch.tensor([0, 3]),
        "order": None,
    }
    with pytest.raises(Exception, match="write_forward") as caught:
        kernels("write_forward", *{**inputs, **change}.values())
    for word in words:
        assert word in str(caught.value)


def test_calling_without_triton_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "triton", None)
    with pytest.raises(ImportError, match="pip install triton"):
        backend.write_forward(torch.zeros(2, 1, 4), torch.zeros(3, 1, 4), None, torch.tensor([0, 3]))


def test_on_a_cpu_the_message_names_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "triton", object())
    monkeypatch.setattr(language, "INTERPRETED", False)
    x = torch.zeros(3, 1, 4)
    with pytest.raises(ValueError, match=r"read_forward: tensors are on cpu.*TRITON_INTERPRET"):
        backend.read_forward(x, torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 1, 4), torch.tensor([0, 3]))


def test_every_module_imports_without_triton() -> None:
    script = """
import importlib, pkgutil, sys
sys.modules["triton"] = None
import mooring.ops.triton as package
for module in pkgutil.iter_modules(package.__path__):
    importlib.import_module(f"{package.__name__}.{module.name}")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
