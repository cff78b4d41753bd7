"""Examination of a machine: correctness and speed of the library on it. Behind ``mooring doctor``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from torch import Tensor, nn

from mooring import ops
from mooring.nn import SlotVirtualNode
from mooring.ops import backend, plain, reference
from mooring.suite.bench.compare import time_peers
from mooring.suite.bench.measure import COPY, extra_memory
from mooring.suite.bench.run import describe_machine
from mooring.suite.bench.shapes import Setting, get_shape
from mooring.table import Column, Table

CHANNELS, SLOTS, HEADS, DIM = 64, 8, 4, 16
OURS, PEERS = "slots, FiLM", ("ISAB", "projected + SDPA")
# Largest errors relative to the largest number of a result: of float32, and of bfloat16 with its 8 bits.
LIMIT, HALF_LIMIT = 1e-4, 5e-2
# Graphs of a few nodes and of many, which a CPU gives to different back ends; and what is timed.
SHAPES = {"small graphs": "molecules-16", "larger ones": "2x100"}
TIMED = {"cpu": ("peptides",), "cuda": ("peptides", "large")}


class Outcome(NamedTuple):
    """One line of the verdict; ``right`` is None for a measurement or a check left out, which cannot be wrong."""

    check: str
    right: bool | None
    said: str


@dataclass(frozen=True)
class Examination:
    """The outcomes of all checks on a device."""

    device: str
    machine: str
    outcomes: tuple[Outcome, ...]

    @property
    def wrong(self) -> list[str]:
        """The checks that failed."""
        return [outcome.check for outcome in self.outcomes if outcome.right is False]

    def to_table(self) -> Table:
        """Return one line per check."""
        marks = {True: "right", False: "WRONG", None: ""}
        rows = tuple((check, marks[right], said) for check, right, said in self.outcomes)
        alarms = frozenset((number, 1) for number, outcome in enumerate(self.outcomes) if outcome.right is False)
        verdict = f"{len(self.wrong)} wrong" if self.wrong else "all right"
        columns = (Column("check", left=True), Column("", left=True), Column("what was found", left=True, wide=True))
        return Table("doctor", f"mooring doctor, {self.device}: {verdict}", columns, rows, (self.machine,), alarms)

    def to_record(self) -> dict[str, Any]:
        """Return the outcomes as JSON; :func:`mooring.suite.records.write` adds versions and the commit."""
        return {
            "kind": "doctor",
            "device": self.device,
            "machine": self.machine,
            "settings": {"float32_matmul_precision": torch.get_float32_matmul_precision()},
            "findings": [outcome._asdict() for outcome in self.outcomes],
        }


def examine(device: str) -> Examination:
    """Run every check on ``cpu`` or ``cuda``, with a progress bar on a terminal; an error in one is its outcome."""
    setting = Setting(device=device)
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("doctor: --device is cuda, but torch finds no CUDA device. Use cpu.")
    outcomes: list[Outcome] = []
    bar = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}")
    with Progress(*bar, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("doctor", total=len(CHECKS))
        for name, check in CHECKS.items():
            progress.update(task, description=f"doctor: {name}")
            try:
                outcomes += [Outcome(name, right, said) for right, said in check(setting)]
            except Exception as error:  # compilers and drivers raise all kinds of errors
                first, *_ = [*str(error).strip().splitlines(), ""]
                outcomes.append(Outcome(name, False, f"{type(error).__name__}: {first[:300]}"))
            progress.advance(task)
    return Examination(device, describe_machine(device, torch.get_num_threads()), tuple(outcomes))


# Pairs of `right` and `said`.
Outcomes = Iterator[tuple[bool | None, str]]


def check_kernels(setting: Setting) -> Outcomes:
    """Check the Triton kernels, as on first use."""
    if setting.device == "cpu":
        yield None, "Triton kernels need a GPU"
        return
    from mooring.ops.triton import language, proof

    if language.triton is None:
        yield False, language.HINT
        return
    for dtype in (torch.float32, torch.bfloat16):
        fault = proof.find_fault(torch.empty(0, device=setting.device).device, dtype)
        yield not fault, f"{str(dtype).removeprefix('torch.')}: {fault or 'right'}"


def check_oracle(setting: Setting) -> Outcomes:
    """Compare write, read and Slot-FiLM in float32 with the oracle in float64, values and gradients."""
    for about, shape in SHAPES.items():
        index = get_shape(shape).batch()
        nodes, graphs = index.numel(), int(index[-1]) + 1
        query, x, memory = (SLOTS, HEADS, CHANNELS), (nodes, 1, CHANNELS), (graphs, SLOTS, HEADS, CHANNELS)
        weights = (DIM, CHANNELS), (DIM,), (2 * CHANNELS, DIM), (2 * CHANNELS,)
        inputs = [tensor / tensor.size(-1) ** 0.5 for tensor in _draw(query, x, memory, (nodes, DIM), *weights)]
        fast = _results(ops.write, ops.read, ops.film, [tensor.to(setting.device) for tensor in inputs], index)
        slow = _results(reference.write, _read, plain.film, [tensor.double() for tensor in inputs], index)
        chosen = backend.select(ops.plan(index.to(setting.device)), inputs[1].to(setting.device))
        code = str(getattr(chosen, "__name__", "")).rpartition(".")[2]
        error = _error(fast, slow)
        yield error <= LIMIT, f"{about}: {code} chosen, error {error:.1e} (values, gradients)"


def check_repeat(setting: Setting) -> Outcomes:
    """Take the same step twice."""
    run = _stepper(setting)
    same = all(map(torch.equal, run(), run()))
    yield same, f"two runs are {'equal in every bit' if same else 'different'}"


def check_compile(setting: Setting) -> Outcomes:
    """Compile the whole module with dynamic shapes."""
    compiler = "aot_eager" if setting.device == "cpu" else "inductor"
    error = _error(_stepper(setting, compiler)(), _stepper(setting)())
    yield error <= LIMIT, f"{compiler}, fullgraph and dynamic: error {error:.1e} to uncompiled"


def check_capture(setting: Setting) -> Outcomes:
    """Capture a forward pass in a CUDA graph and replay it with other features."""
    if setting.device == "cpu":
        yield None, "CUDA graphs need a GPU"
        return
    module, x, plan = _module(setting)
    static = x.clone()
    stream = torch.cuda.Stream()
    with torch.no_grad():
        with torch.cuda.stream(stream):
            module(static, plan=plan)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = module(static, plan=plan)
        static.copy_(x.flip(0))
        graph.replay()
        same = torch.equal(out, module(static, plan=plan))
    yield same, f"a replay is {'equal' if same else 'not equal'} to a forward pass"


def check_halves(setting: Setting) -> Outcomes:
    """Compare autocast, and a module in bfloat16, with float32."""
    right = _stepper(setting)()
    for name, dtype in (("autocast", torch.float32), ("bfloat16 module", torch.bfloat16)):
        with torch.autocast(setting.device, torch.bfloat16, enabled=name == "autocast"):
            error = _error(_stepper(setting, dtype=dtype)(), right)
        yield error <= HALF_LIMIT, f"{name}: error {error:.1e} to float32"


def measure_memory(setting: Setting) -> Outcomes:
    """Measure the peak memory of a training step."""
    for shape in TIMED[setting.device]:
        extra = extra_memory([OURS], shape, setting)[OURS]
        yield None, f"{shape}: {extra:.1f} times input + output + input gradient"


def measure_speed(setting: Setting) -> Outcomes:
    """Time a step beside peers and a copy; all in one run."""
    for shape in TIMED[setting.device]:
        batch = get_shape(shape).batch()
        timings, notes = time_peers(batch, [OURS, *PEERS], setting, repeats=3)
        times, size = timings["training"], batch.numel() * setting.dim * 4
        ours = times[OURS].minimum
        # Features in twice, output out, its gradient in, their gradient out; a copy reads and writes.
        rate, copy = 5 * size / ours / 1e9, 2 * size / times[COPY].minimum / 1e9
        yield None, f"{shape}: a training step takes {1e3 * ours:.1f} ms; {rate:.2f} GB/s, a copy has {copy:.1f}"
        ratios = [f"{name} {notes[name] if name in notes else f'{times[name].minimum / ours:.2f}'}" for name in PEERS]
        yield None, f"{shape}: time over ours: {', '.join(ratios)}"


CHECKS: dict[str, Callable[[Setting], Outcomes]] = {
    "kernels": check_kernels,
    "oracle": check_oracle,
    "repeatable": check_repeat,
    "compiled": check_compile,
    "CUDA graph": check_capture,
    "bfloat16": check_halves,
    "memory": measure_memory,
    "speed": measure_speed,
}


def _draw(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def _results(write: Any, read: Any, film: Any, inputs: Sequence[Tensor], index: Tensor) -> list[Tensor]:
    """Return values and gradients of the three ops, one after the other."""
    query, x, key, context, *weights = leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    index = index.to(x.device)
    state = write(query, x, x, index, num_graphs=key.size(0))
    nodes = read(x, key, state.content, index, sum_heads=True, residual=True).squeeze(1)
    out = film(nodes, context, *weights)
    loss = out.square().mean() + state.log_mass.mean() + state.content.square().mean()
    return [state.content, state.log_mass, nodes, out, *torch.autograd.grad(loss, leaves)]


def _read(query: Tensor, key: Tensor, value: Tensor, index: Tensor, **_: bool) -> Tensor:
    """Return the sum of the heads' contexts and the query, by the oracle."""
    heads = reference.read(query.expand(-1, HEADS, -1), key, value, index)
    return query + heads.sum(dim=1, keepdim=True)


def _module(setting: Setting, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, Tensor, ops.Plan]:
    """Return a default module whose FiLM is not the identity, features, and the plan of uneven graphs."""
    torch.manual_seed(0)
    module = SlotVirtualNode(CHANNELS, SLOTS, HEADS)
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.1)
    index = get_shape("molecules-16").batch()
    x = _draw((index.numel(), CHANNELS))[0].to(setting.device, dtype)
    counts = torch.nn.functional.pad(index.bincount().cumsum(0), (1, 0)).to(setting.device)
    return module.to(setting.device, dtype), x, ops.plan(ptr=counts, num_nodes=index.numel())


def _stepper(
    setting: Setting, compiler: str | None = None, dtype: torch.dtype = torch.float32
) -> Callable[[], list[Tensor]]:
    """Return a training step of the default module, which returns the output and all gradients."""
    module, x, plan = _module(setting, dtype)
    torch.compiler.reset()
    call: Any = module if compiler is None else torch.compile(module, backend=compiler, fullgraph=True, dynamic=True)
    weights = list(module.parameters())

    def run() -> list[Tensor]:
        leaf = x.detach().requires_grad_()
        out = call(leaf, ptr=plan.offsets) if compiler else call(leaf, plan=plan)
        loss = out.float().square().mean()
        grads = torch.autograd.grad(loss, [leaf, *weights], allow_unused=True, materialize_grads=True)
        return [out, *grads]

    return run


def _error(results: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    """Return the largest error relative to the largest number of each result; NaN if there is one."""
    errors = []
    for result, expected in zip(results, right, strict=True):
        expected = expected.detach().double().cpu()
        error = (result.detach().double().cpu() - expected).abs().max()
        errors.append(error / expected.abs().max().clamp(min=1e-3))
    return float(torch.stack(errors).max())
