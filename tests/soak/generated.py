"""Feed hard inputs to the ops and modules, and count what may never happen.

Each input is a number: `--replay NUMBER` runs one again. Outputs and gradients are computed twice: as drawn, and
disturbed, with other graphs in the batch, nodes and graphs in another order and other junk at the nodes left out. Only
if the two differ are the disturbances tried one by one, to name the one at fault.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# Virtual machines may advertise AMX and forbid it, where a bfloat16 product is then an illegal instruction.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import inputs  # noqa: E402
import kinds  # noqa: E402
from bounds import Bounds, bounds  # noqa: E402
from definitions import by_definition  # noqa: E402
from inputs import DTYPES, JUNK, Draw, Nodes  # noqa: E402
from outcomes import Outcome, close, differences, outcome  # noqa: E402
from parts import PARTS, Part, shard  # noqa: E402
from subjects import CHANNELS, HEADS, SLOTS, Subject, pick, subject  # noqa: E402

from support import tile_sizes  # noqa: E402

# What is counted, and what each count means.
FAULTS = {
    "non_finite": "an output or gradient that is not finite",
    "order": "a result that depends on the order of nodes or graphs",
    "leak": "a result that depends on other graphs of the batch",
    "left_out": "a node left out that changed a value or got a gradient",
    "oracle": "a value or gradient that the float64 oracle does not share",
    "tangent": "a derivative in forward mode that is not finite, or not that of the backward",
    "plan": "a result that changes with a batch whose plan was made before",
    "exported": "an exported program that differs from its module or fails",
    "accepted": "a string that is taken for a boolean",
    "raised": "an exception",
}
SAVE_EVERY = 1000
KEPT_FAILURES = 50


@dataclass(frozen=True)
class Disturbance:
    """Mates to join, an order of all nodes, names of all graphs, and the junk at nodes left out."""

    mates: Nodes
    order: Tensor
    label: Tensor
    junk: str


def check(number: int, tried: Counter[str]) -> list[tuple[str, str]]:
    """The faults of one input, each with what was seen; ``tried`` counts what kind of input it is."""
    draw = Draw(number)
    name, dtype, salt = pick(draw), draw.pick(DTYPES), draw.pick((0, 1, 2))
    tested = subject(name, dtype, salt)
    sizes = draw.sizes()
    nodes = inputs.batch(draw, tested.shape, dtype, sizes)
    mates = inputs.batch(draw, tested.shape, dtype, [draw.random.randint(0, 6) for _ in range(2)], calm=True)
    both = len(nodes.x) + len(mates.x), nodes.num_graphs + mates.num_graphs
    disturbance = Disturbance(mates, draw.order(both[0]), draw.order(both[1]), draw.pick(JUNK))
    nodes = inputs.with_junk(nodes, tested.shape, draw.pick(JUNK))
    merge = subject("merge", dtype, salt)
    parts = inputs.with_junk(inputs.batch(draw, merge.shape, dtype, sizes), merge.shape, draw.pick(JUNK))
    tried["no nodes"] += not len(nodes.x)
    tried["gaps in ids"] += nodes.num_graphs > len(nodes.x) > 0
    wide = nodes.log_weight is not None and nodes.log_weight.dtype != dtype
    tried["weights of another dtype"] += wide or (parts.log_weight is not None and parts.log_weight.dtype != dtype)
    with tile_sizes(*draw.tiles(sum(sizes))):
        found = list(_faults(tested, nodes, disturbance, draw, tried))
        return found + [(fault, f"{what} of the merge") for fault, what in _unlike_definition(merge, parts)]


def _faults(
    tested: Subject, nodes: Nodes, disturbance: Disturbance, draw: Draw, tried: Counter[str]
) -> Iterator[tuple[str, str]]:
    plain = outcome(tested, nodes)
    yield from _unlike_definition(tested, nodes, plain)
    yield from (("left_out", f"{what} of a node left out") for what in _touched(tested, nodes, plain))
    allowed = bounds(tested, nodes, plain.by_graph)
    if differences(nodes, plain, _disturbed(tested, nodes, disturbance, slopes=draw.often(0.5)), allowed):
        yield from _blamed(tested, nodes, plain, disturbance, allowed)
    if nodes.num_graphs > 1 and draw.often(0.5):
        graph = draw.random.randrange(nodes.num_graphs)
        if what := _differs_alone(tested, nodes, plain, graph, allowed):
            yield "leak", f"{what} of graph {graph} by itself"
    yield from kinds.faults(tested, nodes, plain, allowed, draw, tried)


def _unlike_definition(tested: Subject, nodes: Nodes, plain: Outcome | None = None) -> Iterator[tuple[str, str]]:
    """Whatever is not finite, or not what the definitions give in float64."""
    plain = outcome(tested, nodes) if plain is None else plain
    yield from _not_finite(tested, nodes, plain)
    allowed = bounds(tested, nodes, plain.by_graph, exact=True)
    for what in differences(nodes, plain, _exact(tested, nodes), allowed):
        yield "oracle", what


def _not_finite(tested: Subject, nodes: Nodes, plain: Outcome) -> Iterator[tuple[str, str]]:
    if plain.by_node is not None and not bool(plain.by_node[~nodes.left_out].isfinite().all()):
        yield "non_finite", "output"
    if plain.by_graph is not None:
        finite = plain.by_graph.isfinite()
        if tested.is_op:  # -inf is the mass of a graph that nobody wrote to, and of no other
            writers = torch.bincount(nodes.index[~nodes.left_out], minlength=nodes.num_graphs) > 0
            last = -SLOTS * HEADS * (2 if tested.name == "merge" else 1)  # the log-odds of a merge, and its mass
            finite[:, last:] |= plain.by_graph[:, last:].isneginf() & ~writers.unsqueeze(1)
        if not bool(finite.all()):
            yield "non_finite", "state"
    for what in ("grad_node", "grad_graph", "grad_shared"):
        slope = getattr(plain, what)
        if slope is not None and not bool(slope.isfinite().all()):
            yield "non_finite", what


def _touched(tested: Subject, nodes: Nodes, plain: Outcome) -> Iterator[str]:
    """What reached a node that nothing may reach: a gradient if it was left out, a change if it is no target."""
    if plain.grad_node is not None and bool((plain.grad_node[nodes.left_out] != 0).any()):
        yield "gradient"
    if nodes.targets is not None and tested.untouched is not None:
        rest = ~nodes.targets
        kept = nodes.x[rest, :CHANNELS] if tested.untouched == "same" else torch.zeros(())
        out = plain.by_node[rest, :CHANNELS] if plain.by_node is not None else kept
        if not bool(((out == kept) | (out.isnan() & kept.isnan())).all()):
            yield "value"


def _disturbed(tested: Subject, nodes: Nodes, disturbance: Disturbance, *, slopes: bool = True) -> Outcome:
    """The outcome for `nodes` of a disturbed run, its rows put back in place."""
    changed = inputs.with_junk(nodes, tested.shape, disturbance.junk)
    changed = inputs.joined(changed, disturbance.mates)
    out = outcome(tested, inputs.rearranged(changed, disturbance.order, disturbance.label), slopes=slopes)
    place, label = disturbance.order.argsort()[: len(nodes.x)], disturbance.label[: nodes.num_graphs]
    columns = nodes.x.size(1) + (nodes.log_weight is not None)
    return Outcome(
        None if out.by_node is None else out.by_node[place],
        None if out.by_graph is None else out.by_graph[label],
        None if out.grad_node is None else out.grad_node[place, :columns],
        None if out.grad_graph is None else out.grad_graph[label],
        out.grad_shared,
    )


def _blamed(
    tested: Subject, nodes: Nodes, plain: Outcome, disturbance: Disturbance, allowed: Bounds
) -> Iterator[tuple[str, str]]:
    """Which disturbance made the difference."""
    count, graphs = len(nodes.x), nodes.num_graphs
    nobody = inputs.batch(Draw(0), tested.shape, nodes.x.dtype, [], calm=True)
    still = Disturbance(nobody, torch.arange(count), torch.arange(graphs), "ordinary")
    mixed, names = disturbance.order, disturbance.label
    alone = {
        "left_out": replace(still, junk=disturbance.junk),
        "leak": replace(
            still,
            mates=disturbance.mates,
            order=torch.arange(len(mixed)),
            label=torch.arange(len(names)),
        ),
        "order": replace(still, order=mixed[mixed < count], label=names[:graphs].argsort().argsort()),
    }
    # Against a run with ordinary junk, so that the nodes left out are to blame for nothing but their own fault.
    ordinary = _disturbed(tested, nodes, still)
    found = False
    for fault, one in alone.items():
        base = plain if fault == "left_out" else ordinary
        for what in differences(nodes, base, _disturbed(tested, nodes, one), allowed):
            found = True
            yield fault, what
    if not found:
        calm = _disturbed(tested, nodes, replace(disturbance, junk="ordinary"))
        fault = "order" if differences(nodes, ordinary, calm, allowed) else "left_out"
        yield fault, "all disturbances together"


def _differs_alone(tested: Subject, nodes: Nodes, plain: Outcome, graph: int, allowed: Bounds) -> str:
    single, rows = inputs.alone(nodes, graph)
    with torch.no_grad():
        by_node, by_graph = tested.run(tested.parameters, single)
    rows_allowed = allowed.rows
    if by_node is not None and plain.by_node is not None:
        kept = ~nodes.left_out[rows]
        limit = rows_allowed if isinstance(rows_allowed, float) else rows_allowed[rows][kept]
        if not close(by_node[kept], plain.by_node[rows][kept], limit):
            return "output"
    if by_graph is not None and plain.by_graph is not None:
        limit = rows_allowed if isinstance(rows_allowed, float) else rows_allowed[graph : graph + 1]
        if not close(by_graph, plain.by_graph[graph : graph + 1], limit):
            return "state"
    return ""


def _exact(tested: Subject, nodes: Nodes) -> Outcome:
    """The outcome by the definitions, in float64; the oracle knows no junk."""
    nodes = inputs.with_junk(nodes, tested.shape, "ordinary")
    weight = None if nodes.log_weight is None else nodes.log_weight.double()
    doubled = replace(nodes, x=nodes.x.double(), table=nodes.table.double(), log_weight=weight)
    parameters = tuple(parameter.detach().double().requires_grad_() for parameter in tested.parameters)
    with by_definition():
        return outcome(subject(tested.name, torch.float64, 0), doubled, parameters)


def soak(number_of_inputs: int, seed: int, part: Part | None, mine: tuple[int, int] = (0, 1)) -> dict[str, Any]:
    """Check the inputs of a seed (those of one shard of it) and return counts and failures."""
    kept = part.load() if part is not None else None
    state = kept or {"next": 0, "counts": dict.fromkeys(("inputs", *FAULTS), 0), "failures": [], "seconds": 0.0}
    counts, tried = Counter[str](state["counts"]), Counter[str](state.get("tried", {}))
    started, before = time.monotonic(), state["seconds"]

    def save(following: int) -> None:
        seconds = round(before + time.monotonic() - started, 1)
        state.update(next=following, counts=dict(counts), tried=dict(tried), seconds=seconds)
        if part is not None:
            part.save(state)

    for at in range(state["next"], number_of_inputs):
        if at % mine[1] == mine[0]:
            found = checked(seed * 10**9 + at, tried)
            counts["inputs"] += 1
            counts.update({fault for fault, _ in found})
            if found and len(state["failures"]) < KEPT_FAILURES:
                state["failures"].append({"replay": seed * 10**9 + at, "faults": [": ".join(one) for one in found]})
        if at % (SAVE_EVERY * mine[1]) == 0:
            save(at + 1)
    save(number_of_inputs)
    return state


def checked(number: int, tried: Counter[str]) -> list[tuple[str, str]]:
    """The faults of one input, an exception among them."""
    try:
        return check(number, tried)
    except Exception as error:
        return [("raised", f"{type(error).__name__}: {error}"[:200])]


def describe(number: int) -> str:
    """What an input is made of."""
    draw = Draw(number)
    name, dtype, _ = pick(draw), draw.pick(DTYPES), draw.pick((0, 1, 2))
    sizes = draw.sizes()
    return f"{number}: {name}, {dtype}, {len(sizes)} graphs, of sizes {[size for size in sizes if size]} and zero"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard", type=shard, default=(0, 1), help="i/k: every k-th input, from the i-th on")
    parser.add_argument("--out", type=Path, default=PARTS, help="folder of the record")
    parser.add_argument("--native", action="store_true", help="every input by the native back end alone")
    parser.add_argument("--replay", type=int, help="run the input of this number alone")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.native:
        inputs.use_native_alone()
    if given.replay is not None:
        print(describe(given.replay))
        try:
            found = check(given.replay, Counter())
        except Exception:
            traceback.print_exc()
            sys.exit(1)
        for fault, what in found:
            print(f"{fault}: {what}")
        sys.exit(bool(found))
    index, count = given.shard
    what = {"what": "generated", "inputs": given.inputs, "seed": given.seed, "shard": f"{index}/{count}"}
    what["native"] = given.native
    name = "native" if given.native else "generated"
    part = Part(given.out / f"{name}-{given.seed}-{index}of{count}.json", what)
    state = soak(given.inputs, given.seed, part, given.shard)
    print(f"{state['counts']}, {state['tried']} in {state['seconds']} s; record: {part.path}")
    for failure in state["failures"][:10]:
        print(f"  --replay {failure['replay']}  {'; '.join(failure['faults'])}")
    sys.exit(any(state["counts"][fault] for fault in FAULTS))


if __name__ == "__main__":
    main()
