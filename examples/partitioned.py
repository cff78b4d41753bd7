"""One graph over several processes: each holds some of the nodes, all share one exact memory.

    torchrun --nproc-per-node 2 examples/partitioned.py --nodes 1000000

Every node has a colour and must predict how many nodes of the *whole* graph share it. Edges stay within a process, so
only the memory has this information. Each process writes its nodes, and one all-reduce of the slot states (slots x
channels numbers, for any number of nodes) gives every process the memory of all nodes. The losses are the same for any
number of processes; the memory use of a process falls with their number.
"""

from __future__ import annotations

import argparse
import os
import resource
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from mooring.nn import SlotVirtualNode
from mooring.ops import all_merge

COLOURS, CHANNELS, SLOTS = 4, 32, 8
BLOCKS = 8  # blocks of the graph, and the largest number of processes


def block(step: int, number: int, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return colours and edges of one block, a pure function of the arguments: no process needs the whole graph."""
    generator = torch.Generator().manual_seed(1_000_003 * step + number)
    # Each block has different popular colours, so that one block does not predict the whole.
    popularity = (3 * torch.randn(COLOURS, generator=generator)).softmax(dim=0)
    colour = torch.multinomial(popularity, num_nodes, replacement=True, generator=generator)
    source = torch.arange(num_nodes)
    return colour, torch.stack([source, torch.randint(num_nodes, (num_nodes,), generator=generator)])


def part(step: int, num_nodes: int, rank: int, world: int) -> tuple[Tensor, Tensor]:
    """Return the blocks of one process as one disconnected part of the graph."""
    colours, edges, start = [], [], 0
    for number in range(rank * BLOCKS // world, (rank + 1) * BLOCKS // world):
        colour, edge_index = block(step, number, (number + 1) * num_nodes // BLOCKS - number * num_nodes // BLOCKS)
        colours.append(colour)
        edges.append(edge_index + start)
        start += colour.numel()
    return torch.cat(colours), torch.cat(edges, dim=1)


class Counter(nn.Module):
    """Local convolution, then the memory that all processes share, then one number per node."""

    def __init__(self, spread: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(COLOURS, CHANNELS)
        self.conv = SAGEConv(CHANNELS, CHANNELS)
        self.memory = SlotVirtualNode(
            CHANNELS,
            SLOTS,
            competition=True,
            anchor_init=5.0,
            merge=all_merge if spread else None,
            hidden_channels=CHANNELS,
            init_std=0.1,
        )
        self.head = nn.Linear(CHANNELS, 1)

    def forward(self, colour: Tensor, edge_index: Tensor) -> Tensor:
        x = self.embed(colour)
        x = x + self.conv(x, edge_index).relu()
        out: Tensor = self.head(self.memory(x)).squeeze(-1)
        return out


def train(num_nodes: int, steps: int, rank: int = 0, world: int = 1, verbose: bool = False) -> list[float]:
    """Train on this process's part and return the loss of the whole graph at every step."""
    torch.manual_seed(0)
    model = Counter(spread=world > 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for step in range(steps):
        colour, edge_index = part(step, num_nodes, rank, world)
        counts = torch.bincount(colour, minlength=COLOURS)
        if world > 1:
            dist.all_reduce(counts)
        target = (counts.clamp(min=1) * COLOURS / num_nodes).log()[colour]
        start = time.perf_counter()
        # The mean over all nodes is the sum of the processes' losses, and so are its gradients.
        loss = (model(colour, edge_index) - target).square().sum() / num_nodes
        optimizer.zero_grad()
        loss.backward()
        total = loss.detach().clone()
        if world > 1:
            dist.all_reduce(total)
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        optimizer.step()
        losses.append(float(total))
        if verbose:
            print(f"step {step:3d}  loss {losses[-1]:.6f}  {time.perf_counter() - start:.2f} s", flush=True)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2000, help="nodes of the whole graph")
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > BLOCKS:
        parser.error(f"{world} processes but {BLOCKS} blocks. Start at most {BLOCKS}, or raise BLOCKS.")
    if world > 1:
        dist.init_process_group("gloo")
    losses = train(arguments.nodes, arguments.steps, rank, world, verbose=rank == 0)
    num_local = part(0, arguments.nodes, rank, world)[0].numel()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = f"rank {rank}: {num_local:,} nodes, peak memory {peak:.0f} MB, loss {losses[0]:.4f} -> {losses[-1]:.4f}"
    lines = [line] * world
    if world > 1:
        dist.all_gather_object(lines, line)  # one process prints, so that lines do not interleave
    if rank == 0:
        print("\n".join(lines), flush=True)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
