"""Compiles OGB's virtual node for batches of unknown numbers of graphs; run by its test in a process of its own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mooring.models import OGBVirtualNode

CHANNELS = 6
SIZES = [(13, 3), (17, 5), (29, 7)]  # nodes, graphs


class Carried(nn.Module):
    """One state through two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(OGBVirtualNode(CHANNELS) for _ in range(2))

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        memory = None
        for layer in self.layers:
            x, memory = layer(x, batch, memory=memory, return_state=True)
        return x


def check() -> None:
    module = Carried().double()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for training in (True, False):
        module.train(training)
        for nodes, graphs in SIZES:
            x, batch = torch.randn(nodes, CHANNELS, dtype=torch.float64), torch.arange(nodes) % graphs
            torch.testing.assert_close(compiled(x, batch), module(x, batch))
    one = torch.zeros_like(batch)
    torch.testing.assert_close(compiled(x, one), module(x, one))
    module.train()
    try:
        compiled(x, one)
    except RuntimeError:
        return
    raise AssertionError("it trained on a batch of one graph")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    check()
