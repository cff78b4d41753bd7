"""Train two layers that carry one memory, also from step to step; killed and resumed by test_carried.

Arguments: the checkpoint, and the step after which the process kills itself.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from mooring.nn import SlotConv, SlotMemory
from mooring.ops import SlotState

CHANNELS, SLOTS, STEPS = 12, 3, 5
BATCH = torch.tensor([0, 0, 0, 1, 1, 1, 1])
EDGES = torch.zeros(2, 0, dtype=torch.long)


class Net(nn.Module):
    """Two layers; the first continues from the memory of the last layer at the previous step."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(SlotConv(CHANNELS, None, SLOTS, init_std=0.5) for _ in range(2))

    def forward(self, x: Tensor, memory: SlotMemory | None) -> tuple[Tensor, SlotMemory]:
        for layer in self.layers:
            x, memory = layer(x, EDGES, BATCH, memory=memory, return_state=True)
        assert memory is not None
        return x, memory


def train(checkpoint: Path, *, until: int = STEPS) -> tuple[dict[str, Tensor], SlotMemory]:
    """Resume from the checkpoint, if it exists, and write it after every step."""
    torch.manual_seed(0)
    net, memory, done = Net(), None, 0
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        net.load_state_dict(saved["net"])
        optimiser.load_state_dict(saved["optimiser"])
        memory, done = saved["memory"], saved["done"]
    for step in range(done, until):
        x = torch.randn(BATCH.numel(), CHANNELS, generator=torch.Generator().manual_seed(step))
        out, memory = net(x, memory)
        optimiser.zero_grad()
        (out[:, 0] - x[:, 1]).square().sum().backward()
        optimiser.step()
        memory = SlotMemory(SlotState(*(tensor.detach() for tensor in memory.state)), memory.slots.detach())
        saved = {"net": net.state_dict(), "optimiser": optimiser.state_dict(), "memory": memory, "done": step + 1}
        torch.save(saved, checkpoint.with_suffix(".new"))
        checkpoint.with_suffix(".new").replace(checkpoint)
    assert memory is not None
    return net.state_dict(), memory


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(Path(sys.argv[1]), until=int(sys.argv[2]))
    os.kill(os.getpid(), signal.SIGKILL)
