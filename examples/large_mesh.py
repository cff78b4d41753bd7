"""One mesh of a million nodes over several processes: regions with a halo, and one exact memory.

    torchrun --nproc-per-node 2 examples/large_mesh.py --nodes 1000000

Each process keeps the nodes of one region. Before every local layer it receives the neighbours of its nodes that belong
to other regions (the halo); the memory is one all-reduce of the slots. Loss and gradients are those of one process.
Local layers are checkpointed, so that the edges of one layer at a time are in memory.

Regions are METIS's if pymetis is installed (``pip install pymetis``), or else halves of halves by coordinate. There is
no solver here: the target is made up, and the step is what counts. ``--gradients FILE`` writes the gradients of the
first step, or compares with those that are there; in float32 the order of a sum over a million nodes shows, with
``--double`` it does not.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mooring import SlotVirtualNode
from mooring.models import MeshGraphNetConv
from mooring.ops import all_merge
from mooring.suite.meshes import MeshNet

HOLES, RADIUS = 12, (0.03, 0.08)
FEATURES = 4  # position, whether a node is on the boundary, and a source
Whole = NDArray[np.int64]


def plate(nodes: int) -> tuple[NDArray[np.float32], Whole]:
    """Return positions ``[nodes, 2]`` and edges in one direction ``[2, edges]`` of a square plate with round holes."""
    rng = np.random.default_rng(0)
    centre, radius = rng.uniform(0.1, 0.9, (HOLES, 2)), rng.uniform(*RADIUS, HOLES)
    kept = np.ones((64, 64), bool)
    for side in (64, 0):
        side = side or max(4, round((nodes / kept.mean()) ** 0.5))
        y, x = np.meshgrid(*[np.linspace(0.0, 1.0, side)] * 2, indexing="ij")
        kept = np.ones((side, side), bool)
        for (left, low), size in zip(centre, radius, strict=True):
            kept &= np.square(x - left) + np.square(y - low) > size**2
    number = np.where(kept, kept.cumsum().reshape(kept.shape) - 1, -1)
    # Right, up, and one diagonal of each square.
    sides = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:]), (number[:-1, :-1], number[1:, 1:])]
    pairs = np.concatenate([np.stack([one.ravel(), other.ravel()]) for one, other in sides], axis=1)
    return np.stack([x[kept], y[kept]], 1).astype(np.float32), pairs[:, (pairs >= 0).all(0)]


def divide(position: NDArray[np.float32], pairs: Whole, parts: int) -> tuple[Whole, str]:
    """Return the region of each node, and what divided the mesh."""
    try:
        import pymetis
    except ImportError:
        return bisect(position, parts), "coordinates"
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    start = np.concatenate([[0], np.cumsum(np.bincount(both[0], minlength=len(position)))])
    graph = pymetis.CSRAdjacency(start, both[1, both[0].argsort(kind="stable")])
    _, region = pymetis.part_graph(parts, adjacency=graph)
    return np.array(region, np.int64), "METIS"


def bisect(position: NDArray[np.float32], parts: int) -> Whole:
    """Halve the nodes along their longer axis, and each half again."""
    region = np.zeros(len(position), np.int64)
    if parts > 1:
        low = parts // 2
        order = position[:, np.ptp(position, axis=0).argmax()].argsort(kind="stable")
        first, second = np.split(order, [len(order) * low // parts])
        region[first], region[second] = bisect(position[first], low), low + bisect(position[second], parts - low)
    return region


class Exchange(torch.autograd.Function):
    """Rows for the other processes -> the rows that they send; gradients take the way back."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sends: list[int], receives: list[int]) -> Tensor:
        ctx.counts = sends, receives
        halo = rows.new_empty(sum(receives), rows.size(1))
        dist.all_to_all_single(halo, rows.contiguous(), receives, sends)
        return halo

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        sends, receives = ctx.counts
        return Exchange.apply(grad, receives, sends), None, None


@dataclass
class Region:
    """The nodes of one process, the edges that end there, and which rows it sends before a layer.

    Args:
        nodes: numbers of the nodes in the whole mesh.
        edge_index: senders, of which those beyond the own nodes are the halo, and receivers.
        edge_attr: offset and its length, in units of the spacing.
        send: own rows for the other processes, one process after the other.
        sends, receives: how many rows go to each process and come from it.
    """

    nodes: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    send: Tensor
    sends: list[int]
    receives: list[int]

    def with_halo(self, x: Tensor) -> Tensor:
        """Return the rows of the nodes, and of the halo behind them."""
        if len(self.sends) == 1:
            return x
        return torch.cat([x, Exchange.apply(x[self.send], self.sends, self.receives)])


def cut(position: NDArray[np.float32], pairs: Whole, region: Whole, rank: int, world: int) -> Region:
    """Return the region of one process."""
    source, target = np.concatenate([pairs, pairs[::-1]], axis=1)
    own, far = np.flatnonzero(region == rank), region[source] != region[target]
    ends_here, starts_here = region[target] == rank, region[source] == rank
    # Sorted by process and then by number, on both sides.
    halo = [np.unique(source[ends_here & far & (region[source] == other)]) for other in range(world)]
    send = [np.unique(source[starts_here & far & (region[target] == other)]) for other in range(world)]
    row = np.full(len(position), -1)
    row[np.concatenate([own, *halo])] = np.arange(len(own) + sum(map(len, halo)))
    source, target = source[ends_here], target[ends_here]
    offset = (position[target] - position[source]) * np.float32(len(position) ** 0.5)
    return Region(
        nodes=torch.from_numpy(own),
        edge_index=torch.from_numpy(row[np.stack([source, target])]),
        edge_attr=torch.from_numpy(np.concatenate([offset, np.linalg.norm(offset, axis=1, keepdims=True)], axis=1)),
        send=torch.from_numpy(row[np.concatenate(send)]),
        sends=[len(rows) for rows in send],
        receives=[len(rows) for rows in halo],
    )


class HaloConv(nn.Module):
    """MeshGraphNets' layer on one region, whose activations are computed again in the backward pass."""

    def __init__(self, channels: int, region: Region) -> None:
        super().__init__()
        self.conv, self.region = MeshGraphNetConv(channels), region

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> tuple[Tensor, Tensor]:
        every = self.region.with_halo(x)
        out, edges = checkpoint(self.conv, every, edge_index, edge_attr, use_reentrant=False)
        return out[: len(x)], edges


class Recomputed(nn.Module):
    """A memory whose activations are computed again in the backward pass."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor, **options: Any) -> Any:
        return checkpoint(self.module, x, use_reentrant=False, **options)


def inputs(position: NDArray[np.float32], pairs: Whole, own: Tensor) -> tuple[Tensor, Tensor]:
    """Return the features and the made-up solution of some nodes."""
    on_boundary = np.bincount(pairs.ravel(), minlength=len(position)) < 6
    place = torch.from_numpy(position)[own]
    source = (7.0 * place[:, :1] + 3.0 * place[:, 1:]).sin()
    x = torch.cat([place, torch.from_numpy(on_boundary)[own].unsqueeze(1).float(), source], dim=1)
    return x, (3.0 * place).sin().prod(dim=1)


def train(
    nodes: int,
    steps: int,
    channels: int,
    layers: int,
    dtype: torch.dtype = torch.float32,
    rank: int = 0,
    world: int = 1,
    verbose: bool = False,
) -> tuple[list[float], list[Tensor]]:
    """Return the loss of the whole mesh at every step, and the gradients of the first one."""
    position, pairs = plate(nodes)
    labels, tool = divide(position, pairs, world)
    region = cut(position, pairs, labels, rank, world)
    x, y = (values.to(dtype) for values in inputs(position, pairs, region.nodes))
    edge_attr, total = region.edge_attr.to(dtype), len(position)
    if verbose:
        print(f"{total:,} nodes, {2 * pairs.shape[1]:,} edges, {world} regions by {tool}", flush=True)
    del position, pairs, labels
    torch.manual_seed(0)
    merge = all_merge if world > 1 else None
    net = MeshNet(
        FEATURES,
        channels,
        layers,
        conv=partial(HaloConv, region=region),
        norm="layer",
        pre_norm=True,
        memory=lambda width: Recomputed(SlotVirtualNode(width, slots=32, merge=merge, init_std=0.02)),
        memory_after=range(layers),
    ).to(dtype)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    losses, first = [], []
    for step in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        # The mean over all nodes is the sum of the processes' losses, and so are its gradients.
        loss = (net(x, region.edge_index, edge_attr) - y).square().sum() / total
        loss.backward()
        whole = loss.detach().clone()
        if world > 1:
            dist.all_reduce(whole)
            for parameter in net.parameters():
                dist.all_reduce(parameter.grad)
        optimizer.step()
        losses.append(float(whole))
        first = first or [parameter.grad.clone() for parameter in net.parameters()]
        if verbose:
            seconds = time.perf_counter() - start
            each = 1e6 * seconds / total
            print(f"step {step}  loss {losses[-1]:.6f}  {seconds:.2f} s, {each:.2f} µs a node", flush=True)
    return losses, first


def difference(gradients: list[Tensor], others: list[Tensor]) -> float:
    """Return the largest difference of two lists of gradients, as a share of the largest entry of its tensor."""
    pairs = zip(gradients, others, strict=True)
    return max(float((one - other).abs().max() / other.abs().max().clamp(min=1e-12)) for one, other in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000, help="nodes of the whole mesh, about")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--double", action="store_true", help="compute in float64")
    parser.add_argument("--gradients", type=Path, help="file to write, or to compare with if it exists")
    arguments = parser.parse_args()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        dist.init_process_group("gloo")
    sizes = (arguments.nodes, arguments.steps, arguments.channels, arguments.layers)
    dtype = torch.float64 if arguments.double else torch.float32
    _, gradients = train(*sizes, dtype, rank, world, verbose=rank == 0)
    peaks = [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024] * world
    if world > 1:
        dist.all_gather_object(peaks, peaks[rank])  # one process prints, so that lines do not interleave
        dist.destroy_process_group()
    if rank == 0:
        print("peak memory of each process:", ", ".join(f"{peak:,} bytes" for peak in peaks))
        if arguments.gradients and arguments.gradients.exists():
            apart = difference(gradients, torch.load(arguments.gradients))
            print(f"largest difference of gradients: {apart:.1e} of the largest entry of their tensor")
        elif arguments.gradients:
            torch.save(gradients, arguments.gradients)


if __name__ == "__main__":
    main()
