"""Compile the Triton kernels for real GPUs and bound their cost: ``python benchmarks/kernels.py --out results/bench``.

Needs Triton and no GPU. The first table is what the compiler made of each kernel: registers of a thread, bytes spilled,
shared memory of a block; `--targets gfx90a gfx942 gfx1100` is for AMD. The second is a roofline: each launch moves each
of its tensors once, at the bandwidth of the data sheet, or computes at its peak rate, whichever takes longer; launches
follow one another. It is a bound from below and not a measurement: no kernel was run, launch overhead, caches and
occupancy are left out.

Beside it stand the bytes of the same op on a batch padded to its largest graph: node tensors at their padded size, and
one copy of each into or out of the padded form; neither where all graphs have one size.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

# Triton asks for an explicit choice; fused multiply-adds are what it has always compiled to.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import torch
import triton
from rich.console import Console
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mooring.ops import triton as backend
from mooring.ops.triton import launch
from mooring.ops.triton.record import recorded
from mooring.suite import records
from mooring.suite.bench.run import table
from mooring.suite.terminal import FittedTable

HEADS = 4
TYPES = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.int64: "*i64"}
SETTINGS = {"ieee": "highest", "tf32x3": "high", "tf32": "medium", "bfloat16": "highest"}
# Data sheets of the SXM cards (A100 80 GB, H100): bytes and dense operations in a second.
BANDWIDTH = {"A100": 2.039e12, "H100": 3.35e12}
RATE = {
    "A100": {"tf32": 156e12, "tf32x3": 156e12 / 3, "ieee": 19.5e12},
    "H100": {"tf32": 494.7e12, "tf32x3": 494.7e12 / 3, "ieee": 66.9e12},
}


@dataclass(frozen=True)
class Case:
    """Sizes of the slots and heads; ``absorbed`` keys and values are the features themselves, shared by all heads."""

    dim: int
    slots: int
    absorbed: bool

    def __str__(self) -> str:
        return f"{'absorbed' if self.absorbed else 'own heads'}, dim {self.dim}, {self.slots} slots"


@dataclass(frozen=True)
class Launch:
    """One kernel with its arguments, as a launcher would have started it."""

    op: str
    kernel: Any
    arguments: dict[str, Any]


def batches() -> dict[str, Tensor]:
    """The sizes of the graphs of each batch."""
    generator = torch.Generator().manual_seed(0)
    skewed = torch.exp(4.2 + 1.3 * torch.randn(128, generator=generator)).clamp(5, 3000).long()
    skewed[0] = 3000
    return {
        "512 molecules": torch.randint(10, 41, (512,), generator=generator),
        "skewed": skewed,
        "one graph of 200,000": torch.tensor([200_000]),
    }


def record(case: Case, sizes: Tensor, dtype: torch.dtype) -> list[Launch]:
    """All launches of a forward and backward write and read, on tensors without data."""
    nodes, graphs, launches, op = int(sizes.sum()), sizes.numel(), [], ""

    def room(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    ptr = torch.empty(graphs + 1, dtype=torch.long, device="meta")
    x = room(nodes, 1 if case.absorbed else HEADS, case.dim)
    value = None if case.absorbed else torch.empty_like(x)
    query = room(case.slots, HEADS, case.dim)
    key, slot_value = (room(graphs, case.slots, HEADS, case.dim) for _ in range(2))
    with recorded(lambda one: launches.append(Launch(op, one.kernel, one.arguments))):
        op = "write"
        content, log_mass, *parts = backend.write_forward(query, x, value, ptr)
        op = "write backward"
        incoming = (torch.empty_like(entry) for entry in (content, log_mass))
        backend.write_backward(*incoming, query, x, value, ptr, None, None, content, *parts)
        op = "read"
        context = backend.read_forward(x, key, slot_value, ptr, sum_heads=case.absorbed)
        op = "read backward"
        backend.read_backward(torch.empty_like(context), x, key, slot_value, ptr, sum_heads=case.absorbed)
    return launches


def compiled(one: Launch, target: str) -> dict[str, Any]:
    """Registers, spills and shared memory of a kernel on one target, as its tools and the compiler say."""
    signature, constants, hints = {}, {}, {}
    for number, parameter in enumerate(one.kernel.params):
        value = one.arguments[parameter.name]
        specialised = not parameter.do_not_specialize
        if parameter.is_constexpr or value is None or (specialised and value is not True and _is(value, 1)):
            signature[parameter.name], constants[(number,)] = "constexpr", value
            continue
        tensor = isinstance(value, Tensor)
        signature[parameter.name] = TYPES[value.dtype] if tensor else ("i32" if value < 2**31 else "i64")
        if tensor or (specialised and value % 16 == 0):
            hints[(number,)] = [["tt.divisibility", 16]]
    options = {name: one.arguments[name] for name in ("num_warps", "num_stages")}
    source = ASTSource(one.kernel, signature, constants, hints)
    made = triton.compile(source, target=target_of(target), options=options)
    usage = usage_of_amd(made.asm["amdgcn"]) if is_amd(target) else usage_of_nvidia(made.asm["cubin"])
    return {**usage, "shared": made.metadata.shared, "warps": options["num_warps"]}


def is_amd(target: str) -> bool:
    return target.startswith("gfx")


def target_of(target: str) -> GPUTarget:
    """``80`` is NVIDIA's sm_80; AMD's data center cards have waves of 64 threads, the others of 32."""
    return (
        GPUTarget("hip", target, 64 if target[3] == "9" else 32)
        if is_amd(target)
        else GPUTarget("cuda", int(target), 32)
    )


def usage_of_nvidia(binary: bytes) -> dict[str, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
        done = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True)
    usage = {name: int(count) for name, count in re.findall(r"(REG|STACK|LOCAL):(\d+)", done.stdout)}
    return {"registers": usage["REG"], "spilled": usage["STACK"] + usage["LOCAL"]}


def usage_of_amd(assembly: str) -> dict[str, int]:
    """Vector registers, and bytes of private memory, of a thread."""
    usage = dict(re.findall(r"\.(vgpr_count|private_segment_fixed_size): +(\d+)", assembly))
    return {"registers": int(usage["vgpr_count"]), "spilled": int(usage["private_segment_fixed_size"])}


def _is(value: Any, number: int) -> bool:
    return isinstance(value, int) and value == number


def operations(one: Launch) -> float:
    """Two for each multiply-add of the formula; the merging kernels are counted by what they add."""
    given = one.arguments
    if one.kernel.__name__.startswith("merge"):
        return 2 * sum(tensor.numel() for name, tensor in given.items() if name.startswith("partial"))
    dim, width = given["dim"], given["width"]
    rows = given["parts"] * (given["rows"] if "rows" in given else given["slots"] * given["groups"])
    products = {
        "write_chunks": dim + width,
        "write_rows": 3 * dim + 2 * width if given.get("ALL_ROWS") else 2 * dim + width,
        "write_nodes": 2 * dim + 2 * width,
        "read_context": dim + width,
        "read_rows": 3 * dim + 2 * width if given.get("ALL_SLOTS") else 2 * dim + 2 * width,
        "read_nodes": 3 * dim + 2 * width,
    }[one.kernel.__name__]
    return 2 * given["num_nodes"] * rows * products


def moved(one: Launch, sizes: Tensor) -> float:
    """Bytes of a launch: each tensor once, scratch as far as it is used."""
    given, total, seen = one.arguments, 0.0, set()
    chunk = given.get("CHUNK", 1)
    chunks = (sizes + chunk - 1) // chunk
    several = chunks[chunks > 1]
    for name, tensor in given.items():
        if not isinstance(tensor, Tensor) or tensor.untyped_storage()._cdata in seen:
            continue
        seen.add(tensor.untyped_storage()._cdata)
        size = tensor.untyped_storage().nbytes()
        if name.startswith("partial"):
            size *= int(several.sum()) / tensor.size(0)
        elif one.kernel.__name__.startswith("merge") and name != "ptr":
            size *= several.numel() / sizes.numel()
        elif name == "grad_query" and one.kernel.__name__ == "write_rows":
            size *= 2  # the sum over programs reads them again
        total += size
    return total


def padded(launches: list[Launch], sizes: Tensor) -> float:
    """Bytes of an op on a padded batch, in one launch."""
    storages: dict[int, tuple[float, bool]] = {}
    nodes, places = int(sizes.sum()), sizes.numel() * int(sizes.max())
    for one in launches:
        for name, tensor in one.arguments.items():
            if isinstance(tensor, Tensor) and not name.startswith("partial"):
                storage = tensor.untyped_storage()
                # Query gradients of the write have one copy per program, which is our scratch and not the op's output.
                copies = tensor.size(0) if name == "grad_query" and one.op.startswith("write") else 1
                storages[storage._cdata] = (storage.nbytes() / copies, tensor.size(0) == nodes)
    of_nodes = sum(size for size, node in storages.values() if node) / nodes
    rest = sum(size for size, node in storages.values() if not node)
    copied = 0 if places == nodes else nodes + places
    return of_nodes * (places + copied) + rest


def bounds(case: Case, dtype: torch.dtype) -> Iterator[dict[str, Any]]:
    """One row for each batch and op."""
    for name, sizes in batches().items():
        launches = record(case, sizes, dtype)
        for op in dict.fromkeys(one.op for one in launches):
            mine = [one for one in launches if one.op == op]
            total = sum(moved(one, sizes) for one in mine)
            row = {"case": str(case), "batch": name, "op": op, "kernels": len(mine)}
            row |= {"megabytes": total / 1e6, "padded_megabytes": padded(mine, sizes) / 1e6}
            row["operations_per_byte"] = sum(map(operations, mine)) / total
            precision = next(one.arguments["PRECISION"] for one in mine if "PRECISION" in one.arguments)
            for card, bandwidth in BANDWIDTH.items():
                rate = RATE[card][precision]
                times = (max(moved(one, sizes) / bandwidth, operations(one) / rate) for one in mine)
                row[f"{card}_bound_microseconds"] = 1e6 * sum(times)
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for the records kernels.json and roofline.json")
    parser.add_argument(
        "--precision",
        choices=SETTINGS,
        nargs="+",
        default=["bfloat16", "ieee"],
        help="bfloat16, or products of float32",
    )
    parser.add_argument(
        "--targets",
        nargs="*",
        default=["80", "90", "100"],
        help="compute capabilities times ten, or gfx942 and others",
    )
    parser.add_argument("--dims", type=int, nargs="+", default=[16, 64, 128], help="widths; above 16 they are absorbed")
    parser.add_argument("--slots", type=int, nargs="+", default=[8, 16])
    options = parser.parse_args()
    cases = [Case(dim, slots, dim > 16) for dim in options.dims for slots in options.slots]
    made: list[dict[str, Any]] = []
    rooflines: list[dict[str, Any]] = []
    for precision in options.precision:
        torch.set_float32_matmul_precision(SETTINGS[precision])
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        for case in cases:
            for target in options.targets:
                # AMD's compiler takes other precisions.
                with patch.object(launch, "ON_HIP", is_amd(target)):
                    launches = record(case, torch.tensor([200_000]), dtype)
                name = target if is_amd(target) else f"sm_{target}"
                for one in {one.kernel.__name__: one for one in launches}.values():
                    row = {"precision": precision, "case": str(case), "kernel": one.kernel.__name__}
                    made.append({**row, "target": name, **compiled(one, target)})
            rooflines += [{"precision": precision, **row} for row in bounds(case, dtype)]
    found = {
        "kernels": (
            "Kernels as compiled",
            f"{HEADS} heads, Triton {triton.__version__}. Registers and spilled bytes of a thread, bytes of shared "
            "memory of a block. Compiled without a GPU, and run on none.",
            made,
        ),
        "roofline": (
            "Bounds from data sheets, not measurements",
            f"{HEADS} heads. Each launch moves each of its tensors once at the bandwidth of the data sheet, or "
            "computes at its peak rate, whichever takes longer. Padded megabytes are what the same op moves on a batch "
            "padded to its largest graph. No kernel was run.",
            rooflines,
        ),
    }
    for name, (title, caption, rows) in found.items():
        content = {"kind": "bench", "name": name, "title": title, "caption": caption, "rows": rows, "series": []}
        if rows:
            Console(width=180).print(FittedTable(table(content)))
        if rows and options.out is not None:
            records.write(options.out / f"{name}.json", {**content, "versions": {"triton": triton.__version__}})


if __name__ == "__main__":
    main()
