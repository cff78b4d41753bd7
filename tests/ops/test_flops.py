"""``FlopCounterMode`` compared with the arithmetic, for modules and for each custom op."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from mooring import ops
from mooring.counter import OperationCounter
from mooring.nn import SlotVirtualNode

NODES, CHANNELS, SLOTS, HEADS, HIDDEN = 1009, 32, 5, 4, 16
ROWS = SLOTS * HEADS


def counted(function: Callable[[], Any]) -> int:
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


def arithmetic() -> tuple[int, int]:
    """Count multiply-adds per node of one large graph with folded projections: write, read, FiLM; and of the slots."""
    node = ROWS * 2 * CHANNELS + ROWS * (CHANNELS + HIDDEN) + 3 * CHANNELS * HIDDEN
    # Queries, folded keys, contents; update; keys and values of the read, folded; the mass.
    write = SLOTS * CHANNELS * CHANNELS * (1 + 1 + 1)
    update = SLOTS * (3 * CHANNELS**2 + HEADS * CHANNELS + CHANNELS**2)
    read = SLOTS * (2 * CHANNELS**2 + CHANNELS**2 + CHANNELS * HIDDEN)
    return node, write + update + read


@pytest.mark.parametrize("name", ["tiles", "plain"])
def test_forward_and_backward_of_a_module(name: ops.backend.Backend) -> None:
    module, x = SlotVirtualNode(CHANNELS, SLOTS, HEADS), torch.randn(NODES, CHANNELS, requires_grad=True)
    node, slots = arithmetic()
    forward = 2 * (NODES * node + slots)
    # A backward pass is two forward passes; tiles also compute the scores once more. Plain code computes the scores of
    # the write and of the read at once.
    again = 2 * NODES * ROWS * 2 * CHANNELS if name == "tiles" else 0
    forward -= 2 * NODES * ROWS * CHANNELS if name == "plain" else 0
    with ops.use_backend(name):
        assert counted(lambda: module(x)) == pytest.approx(forward, rel=0.05)
        out = module(x).sum()
        assert counted(out.backward) == pytest.approx(2 * forward + again, rel=0.05)


def test_a_backward_computes_no_unneeded_product() -> None:
    """Only the update is trainable, so FiLM and the read compute no gradients of nodes."""
    module, x = SlotVirtualNode(CHANNELS, SLOTS, HEADS, routing="free"), torch.randn(NODES, CHANNELS)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name.startswith("update"))
    film, read = 2 * CHANNELS * HIDDEN, ROWS * (2 * CHANNELS + 2 * HIDDEN)
    with ops.use_backend("tiles"):
        out = module(x).sum()
        assert counted(out.backward) == pytest.approx(2 * (NODES * (film + read) + 2 * arithmetic()[1]), rel=0.05)


def nodes(*shape: int) -> Tensor:
    return torch.randn(NODES, *shape)


OPS: dict[str, Callable[[], list[Any]]] = {
    "write": lambda: [torch.randn(1, ROWS, CHANNELS), nodes(1, CHANNELS), None, None, None, 1],
    "write, values": lambda: [torch.randn(HEADS, SLOTS, 8), nodes(HEADS, 8), nodes(HEADS, 3), None, None, 1],
    "read": lambda: [nodes(1, CHANNELS), torch.randn(1, 1, ROWS, CHANNELS), torch.randn(1, 1, ROWS, 7), None, 4, False],
    "film": lambda: [
        nodes(CHANNELS),
        nodes(HIDDEN),
        torch.randn(HIDDEN, CHANNELS),
        torch.randn(HIDDEN),
        torch.randn(2 * CHANNELS, HIDDEN),
        torch.randn(2 * CHANNELS),
    ],
    "map_heads": lambda: [torch.randn(3, SLOTS, HEADS, 8), torch.randn(HEADS, 7, 8)],
}


@pytest.mark.parametrize("name", OPS)
def test_operators_of_a_traced_graph(name: str) -> None:
    """Compare the formula with the products that run, forward and backward, for all inputs and for each separately."""
    op, arguments = getattr(torch.ops.mooring, name.split(",")[0]), OPS[name]()
    tensors = [argument for argument in arguments if isinstance(argument, Tensor)]

    def both() -> None:
        outputs = op(*arguments)
        sum(out.sum() for out in (outputs if isinstance(outputs, tuple) else [outputs])).backward()

    counts = []
    for trained in (tensors, *([tensor] for tensor in tensors)):
        for tensor in tensors:
            tensor.requires_grad_(any(tensor is other for other in trained))
        with OperationCounter() as inside:
            both()
        assert counted(both) == pytest.approx(2 * inside.multiply_adds, rel=0.05)
        counts.append(inside.multiply_adds)
    assert max(counts[1:]) < counts[0]
