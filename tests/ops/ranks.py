"""Cases of a memory distributed over several processes, and the work of each process.

Imported by the processes themselves, which know nothing of pytest.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from mooring.nn import SlotVirtualNode
from mooring.ops import SlotState, all_merge, distributed

CHANNELS, SLOTS, HEADS = 6, 5, 2

Merge = Callable[[SlotState], SlotState]


@dataclass(frozen=True)
class Case:
    """A batch of graphs and the share of its nodes that each rank holds.

    Args:
        shares: nodes of each rank.
        num_graphs: nodes are assigned to graphs at random, so that graphs span ranks; the last of several graphs is
            empty.
        silent: a rank whose nodes read but do not write.
        weighted: nodes have multiplicities.
        module: arguments of the memory.
    """

    shares: tuple[int, ...]
    num_graphs: int = 1
    silent: int | None = None
    weighted: bool = False
    module: dict[str, Any] = field(default_factory=dict)

    @property
    def num_nodes(self) -> int:
        return sum(self.shares)

    def owner(self) -> Tensor:
        """Return the rank of each node, in random order."""
        ranks = torch.repeat_interleave(torch.arange(len(self.shares)), torch.tensor(self.shares))
        return ranks[torch.randperm(self.num_nodes, generator=torch.Generator().manual_seed(3))]

    def build(self, dtype: torch.dtype, merge: Merge | None) -> SlotVirtualNode:
        torch.manual_seed(5)
        # Far from the identity: gradients through the memory are as large as those beside it.
        sizes = {"slots": SLOTS, "heads": HEADS, **self.module}
        return SlotVirtualNode(CHANNELS, merge=merge, init_std=0.7, **sizes).to(dtype)

    def inputs(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """Return the inputs of the nodes; ``slope`` is the gradient of each node's output."""
        generator = torch.Generator().manual_seed(7)
        nodes = self.num_nodes
        x, slope = torch.randn(2, nodes, CHANNELS, generator=generator, dtype=torch.float64).to(dtype)
        inputs = {"x": x, "slope": slope}
        if self.num_graphs > 1:
            inputs["batch"] = torch.randint(self.num_graphs - 1, (nodes,), generator=generator)
        if self.weighted:
            inputs["log_weight"] = torch.randn(nodes, generator=generator, dtype=torch.float64).to(dtype)
        if self.silent is not None:
            inputs["sources"] = self.owner() != self.silent
        return inputs


CASES = {
    "two, uneven": Case((17, 2)),
    "two, the second empty": Case((13, 0)),
    "two, all empty": Case((0, 0), num_graphs=3),
    "two, graphs across ranks": Case((11, 19), num_graphs=5),
    "four, uneven": Case((13, 1, 5, 3), weighted=True),
    "four, the first empty": Case((0, 7, 3, 11), num_graphs=3),
    "four, three empty": Case((0, 0, 7, 0)),
    "four, all empty": Case((0, 0, 0, 0)),
    "four, graphs across ranks": Case((7, 11, 5, 13), num_graphs=7, weighted=True),
    "four, one rank only reads": Case((5, 7, 3, 11), num_graphs=3, silent=1),
    "four, projected": Case((5, 7, 3, 11), num_graphs=3, module={"integrate": "residual", "heads": 3, "slots": 7}),
    "four, mixture": Case((5, 7, 3, 11), module={"split": False, "integrate": "global_film"}),
}


def average_contents(state: SlotState) -> SlotState:
    """Merge wrongly: the mass is right, but contents are averaged without their masses."""
    content = state.content.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(content)
    return SlotState(content / dist.get_world_size(), all_merge(state).log_mass)


class KeepsGradient(distributed._SumOverRanks):
    """A broken all-reduce: the sum is right, but gradients from the losses of other ranks are lost."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


def step(
    case: Case, dtype: torch.dtype, how: str = "alone", rank: int | None = None, order: Tensor | None = None
) -> dict[str, Tensor]:
    """Run forward and backward on the nodes of a rank (of all ranks if None); return output, state and gradients.

    ``how`` is alone, merged, ddp, or one of the broken ways: averaged, one-sided. ``order`` permutes the nodes of a
    single process; rows of nodes are returned in that order.
    """
    merges: dict[str, Merge | None] = {"alone": None, "averaged": average_contents}
    module: nn.Module = case.build(dtype, merges.get(how, all_merge))
    names = [name for name, _ in module.named_parameters()]
    everything = slice(None) if order is None else order
    mine = everything if rank is None else case.owner() == rank
    inputs = {name: tensor[mine] for name, tensor in case.inputs(dtype).items()}
    x, slope = inputs.pop("x").requires_grad_(), inputs.pop("slope")
    if how == "ddp":
        # DDP averages gradients over ranks; all_merge needs their sum.
        module, slope = DistributedDataParallel(module), slope * dist.get_world_size()
    wrong = patch.object(distributed, "_SumOverRanks", KeepsGradient) if how == "one-sided" else nullcontext()
    with wrong:
        out, memory = module(x, num_graphs=case.num_graphs, return_state=True, **inputs)
        (out * slope).sum().backward()
    results = {"out": out, "content": memory.state.content, "log_mass": memory.state.log_mass, "x": x.grad}
    if how == "ddp":
        results["x"] = results["x"] / dist.get_world_size()
    for name, parameter in zip(names, module.parameters(), strict=True):
        results[name] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    return {name: tensor.detach() for name, tensor in results.items()}


WAYS = [(torch.float64, how) for how in ("merged", "ddp", "averaged", "one-sided")] + [(torch.float32, "merged")]


def work(rank: int, world: int, folder: str) -> None:
    """Run all cases of one rank in its process, and save the results to a file."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    results = {
        (name, dtype, how): step(case, dtype, how, rank)
        for name, case in CASES.items()
        for dtype, how in WAYS
        if len(case.shares) == world
    }
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def run_ranks(world: int, folder: Path) -> list[dict[tuple[str, torch.dtype, str], dict[str, Tensor]]]:
    """Start the processes of one world and collect their results, in the order of the ranks."""
    # The fork server imports once; processes forked from it have no threads of the test.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["mooring.nn"])
    processes = [context.Process(target=work, args=(rank, world, str(folder))) for rank in range(world)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    assert codes == [0] * world, f"exit codes of the ranks: {codes}; None is a rank that waits for another"
    return [torch.load(folder / f"{rank}.pt") for rank in range(world)]
