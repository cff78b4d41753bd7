"""Count what one layer asks of a device, forward: ``python benchmarks/launches.py``, on any CPU.

A call is one PyTorch operator, views and allocations included. A launch is a call that would start a kernel on a GPU:
one that neither views nor allocates, or a Triton kernel, which is counted and not run. A host read brings a number from
the device to the host and waits for it. Nothing is timed.

The layer of an earlier commit is counted beside the present one, from the same batches and with the same rules.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).parent.parent
BEFORE = "68afe44"
WIDTH, SLOTS = 64, 8
ALLOCATES = {
    "empty",
    "empty_like",
    "new_empty",
    "new_empty_strided",
    "empty_strided",
    "_unsafe_view",
    "detach",
    "alias",
}
# Operators whose result, or its shape, is a number on the host.
READS = {"_local_scalar_dense", "nonzero", "unique_dim", "_unique2", "unique_consecutive", "masked_select", "equal"}


class Counter(TorchDispatchMode):
    """Counts calls, launches and host reads, inside our own operators too."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.launches = self.reads = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "mooring":
            with self:
                return func.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), *args, **kwargs)
        with self:
            parts = func.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
        name = func.overloadpacket.__name__
        self.calls += 1
        self.reads += name in READS
        self.launches += not (func.is_view or name in ALLOCATES or name == "_local_scalar_dense")
        return func(*args, **kwargs)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Count inside the block; a list made of a tensor passes by the operators."""
        whole = Tensor.tolist

        def tolist(tensor: Tensor) -> Any:
            self.reads += 1
            return whole(tensor)

        Tensor.tolist = tolist  # type: ignore[method-assign]
        try:
            with self, torch.no_grad():
                yield
        finally:
            Tensor.tolist = whole  # type: ignore[method-assign]


def batches() -> dict[str, Tensor]:
    """The graph id of each node of each batch."""
    generator = torch.Generator().manual_seed(0)
    skewed = torch.exp(4.2 + 1.3 * torch.randn(128, generator=generator)).clamp(5, 3000).long()
    skewed[0] = 3000
    sizes = {
        "64 molecules": torch.randint(9, 26, (64,), generator=generator),
        "512 molecules": torch.randint(9, 26, (512,), generator=generator),
        "skewed": skewed,
        "one graph of 200,000": torch.tensor([200_000]),
    }
    return {name: torch.arange(len(one)).repeat_interleave(one) for name, one in sizes.items()}


def count(names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One row for each batch, or for each of these, and for each back end where there are several."""
    from mooring import ops
    from mooring.nn import SlotVirtualNode

    rows = []
    memory = SlotVirtualNode(WIDTH, SLOTS).eval()
    plans = hasattr(ops, "plan")
    for name, batch in batches().items():
        if names and name not in names:
            continue
        x, graphs = torch.randn(len(batch), WIDTH), int(batch[-1]) + 1
        for backend in ("cpu", "triton") if plans else ("cpu",):
            how: dict[str, Any] = {"num_graphs": graphs}
            if plans:
                ptr = torch.cat([torch.zeros(1, dtype=torch.long), torch.bincount(batch, minlength=graphs).cumsum(0)])
                how = {"plan": ops.plan(batch, ptr=ptr)}
            counter = Counter()
            started: list[Any] = []
            with on(backend, started):
                if plans:
                    memory(x, **how)  # what the plan is asked for first, it keeps for all layers
                    started.clear()
                with counter.listening():
                    memory(x, **how) if plans else memory(x, batch, **how)
            rows.append(
                {
                    "batch": name,
                    "path": "Triton, simulated" if backend == "triton" else "CPU",
                    "calls": counter.calls + len(started),
                    "launches": counter.launches + len(started),
                    "host_reads": counter.reads,
                }
            )
    return rows


@contextmanager
def on(backend: str, started: list[Any]) -> Iterator[None]:
    """The back end that a CPU takes, or Triton's, whose kernels are noted down."""
    if backend == "cpu":
        with nullcontext():
            yield
        return
    from mooring import ops
    from mooring.ops.triton.record import recorded

    with ops.use_backend("triton"), recorded(started.append):
        yield


def count_before(commit: str) -> list[dict[str, Any]]:
    """The same of an earlier commit, in a process of its own."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        path = os.pathsep.join([str(Path(folder, "src")), str(Path(__file__).parent)])
        code = "import json, launches; print(json.dumps(launches.count()))"
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
        )
    if done.returncode:
        raise RuntimeError(f"launches: counting {commit} ended with {done.returncode}: {done.stderr[-500:]}")
    return list(json.loads(done.stdout))


def main() -> None:
    from rich.console import Console

    from mooring.suite import records
    from mooring.suite.bench.run import table
    from mooring.suite.terminal import FittedTable

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the record, e.g. results/bench/launches.json")
    parser.add_argument("--before", default=BEFORE, help="an earlier commit; empty for none")
    options = parser.parse_args()
    rows = [{"code": "now", **row} for row in count()]
    if options.before:
        rows = [{"code": options.before, **row} for row in count_before(options.before)] + rows
    record = {
        "kind": "bench",
        "name": "launches",
        "title": "What one layer asks of a device, forward",
        "caption": (
            f"SlotVirtualNode({WIDTH}, {SLOTS}), one forward pass, now with a plan. Calls are PyTorch operators, views "
            "included; launches leave out views and allocations and add Triton's kernels. Counted on a CPU; no kernel "
            "was run on a GPU."
        ),
        "rows": rows,
        "series": [],
    }
    Console(width=120).print(FittedTable(table(record)))
    if options.json is not None:
        records.write(options.json, record)


if __name__ == "__main__":
    main()
