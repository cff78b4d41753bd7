"""Compile modules and run them on batches of changing sizes; a separate process of test_compile.

Prints one JSON object: module -> number of graphs compiled during the warm-up. Anything wrong is a traceback:
``fullgraph`` refuses graph breaks and ``error_on_recompile`` refuses recompilation once the warm-up is over.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.autograd import forward_ad
from torch_geometric.nn import GINConv

from mooring import ops
from mooring.nn import HeteroSlotVirtualNode, SlotAggregation, SlotConv, SlotVirtualNode, VirtualNode

CHANNELS, WARM_UP = 10, 2
SIZES = [(13, 3), (17, 5), (29, 7), (41, 2), (11, 4)]  # nodes, graphs

Call = Callable[[nn.Module, Tensor, Tensor], Tensor]


def plain(module: nn.Module, x: Tensor, batch: Tensor) -> Tensor:
    return module(x, batch)


def masked(module: nn.Module, x: Tensor, batch: Tensor) -> Tensor:
    return module(x, batch, sources=x[:, 0] > 0, targets=x[:, 1] > 0, log_weight=x[:, 2].detach())


def of_graphs(module: nn.Module, x: Tensor, batch: Tensor) -> Tensor:
    return module(x, batch, graph_features=x.new_ones(int(batch.max()) + 1, 3).cumsum(0))


def on_a_path(module: nn.Module, x: Tensor, batch: Tensor) -> Tensor:
    nodes = torch.arange(x.size(0))
    return module(x, torch.stack([nodes[:-1], nodes[1:]]), batch)


def left_out(module: nn.Module, x: Tensor, batch: Tensor) -> Tensor:
    """Run with NaN in the nodes that do not write; these nodes are returned as zeros, no other may be NaN."""
    sources, targets = x[:, 0] > 0, x[:, 1] > -1
    log_weight = x[:, 2].detach().masked_fill(x[:, 3] > 1, float("-inf"))
    x = x.masked_fill(~sources.unsqueeze(-1), float("nan"))
    if isinstance(getattr(module, "_orig_mod", module), SlotConv):
        nodes = torch.arange(x.size(0))
        edges = torch.stack([nodes[:-1], nodes[1:]])
        out = module(x, edges, batch, memory_kwargs={"sources": sources, "targets": targets, "log_weight": log_weight})
    else:
        out = module(x, batch, sources=sources, targets=targets, log_weight=log_weight)
    return out.masked_fill(~sources.unsqueeze(-1), 0.0)


class Carried(nn.Module):
    """Two layers with a carried memory; the output contains everything that return_state returns."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(SlotVirtualNode(CHANNELS, 3, 2, routing="free", init_std=0.5) for _ in range(2))
        self.layers[1].write.slot.requires_grad_(False)  # those of the layer before take their place

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        memory = None
        for layer in self.layers:
            x, memory = layer(x, batch, memory=memory, return_state=True)
        inside = (*memory.state, memory.slots, memory.anchor_weight, memory.write_weights, memory.read_weights)
        return x + sum(tensor.square().sum() for tensor in inside)


class Typed(nn.Module):
    """Module for two node types, called with one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = HeteroSlotVirtualNode({"user": CHANNELS, "item": CHANNELS}, 3, 2, init_std=0.5)

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        out = self.memory({"user": x, "item": 2 * x}, {"user": batch, "item": batch.flip(0)})
        return out["user"] + out["item"]


# Tracing finds breaks and recompilation; two cases go through autograd too, where the ops meet their fake kernels, one
# of them to the end: inductor, which lowers what it traced, without knowing the number of graphs.
CASES: dict[str, tuple[Callable[[], nn.Module], Call, str]] = {
    "SlotVirtualNode": (lambda: SlotVirtualNode(CHANNELS, 3, 2, init_std=0.5), plain, "aot_eager"),
    "SlotVirtualNode, inductor": (lambda: SlotVirtualNode(CHANNELS, 3, 2, init_std=0.5), plain, "inductor"),
    "free": (lambda: SlotVirtualNode(CHANNELS, 3, 2, routing="free", init_std=0.5), plain, "aot_eager"),
    "free, left out": (lambda: SlotVirtualNode(CHANNELS, 3, 2, routing="free", init_std=0.5), left_out, "eager"),
    "SlotVirtualNode, masked": (lambda: SlotVirtualNode(CHANNELS, 3, 2, init_std=0.5), masked, "eager"),
    "film, left out": (lambda: SlotVirtualNode(CHANNELS, 3, 2, init_std=0.5), left_out, "eager"),
    "residual, left out": (lambda: SlotVirtualNode(CHANNELS, 3, 2, integrate="residual"), left_out, "eager"),
    "projected residual, left out": (lambda: SlotVirtualNode(CHANNELS, 13, 2, integrate="residual"), left_out, "eager"),
    "global film, left out": (lambda: SlotVirtualNode(CHANNELS, 3, 2, integrate="global_film"), left_out, "eager"),
    "VirtualNode, left out": (lambda: VirtualNode(CHANNELS, pool="max"), left_out, "eager"),
    "SlotConv, left out": (
        lambda: SlotConv(CHANNELS, GINConv(nn.Linear(CHANNELS, CHANNELS)), 3, 2, init_std=0.5),
        left_out,
        "eager",
    ),
    "norm of addresses": (
        lambda: SlotVirtualNode(CHANNELS, 3, 2, init_std=0.5, address_norm="batch"),
        left_out,
        "eager",
    ),
    "norm over graphs": (lambda: SlotVirtualNode(CHANNELS, 3, 2, init_std=0.5, update_norm="batch"), plain, "eager"),
    "graph features": (lambda: SlotVirtualNode(CHANNELS, 3, 2, graph_channels=3), of_graphs, "eager"),
    "carried": (Carried, plain, "eager"),
    "HeteroSlotVirtualNode": (Typed, plain, "eager"),
    "VirtualNode": (lambda: VirtualNode(CHANNELS, pool="sum"), plain, "eager"),
    "VirtualNode, max": (lambda: VirtualNode(CHANNELS, pool="max"), plain, "eager"),
    "SlotAggregation": (lambda: SlotAggregation(CHANNELS, 3, 2), plain, "eager"),
    "SlotConv": (lambda: SlotConv(CHANNELS, GINConv(nn.Linear(CHANNELS, CHANNELS)), 3, 2), on_a_path, "eager"),
}


def gradients(module: nn.Module, call: Call, x: Tensor, batch: Tensor) -> list[Tensor]:
    """Return the output, and the gradients of its square in the input and every parameter."""
    x = x.clone().requires_grad_()
    module.zero_grad()
    out = call(module, x, batch)
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    grads = torch.autograd.grad((out * torch.arange(CHANNELS)).square().sum(), [x, *parameters])
    return [out.detach(), *grads]


def check(make: Callable[[], nn.Module], call: Call, backend: str) -> int:
    torch._dynamo.reset()
    counters.clear()
    # In float64: compiled and eager may take different, equally exact orders of the same products.
    module = make().double()
    compiled: Any = torch.compile(module, fullgraph=True, backend=backend)
    for step, (nodes, graphs) in enumerate(SIZES):
        x, batch = torch.randn(nodes, CHANNELS, dtype=torch.float64), torch.randint(graphs, (nodes,))
        batch[-1] = graphs - 1
        with torch._dynamo.config.patch(error_on_recompile=step >= WARM_UP):
            actual = gradients(compiled, call, x, batch)
        for one, other in zip(actual, gradients(module, call, x, batch), strict=True):
            assert one.isfinite().all()
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)
    assert not counters["graph_break"], dict(counters["graph_break"])
    return int(counters["stats"]["unique_graphs"])


def few_nodes() -> dict[str, list[int]]:
    """Graphs compiled after two sizes, one node and no nodes, and two more sizes; of a linear layer for comparison."""
    counts: dict[str, list[int]] = {}
    modules = {"Linear": nn.Linear(CHANNELS, CHANNELS), "SlotVirtualNode": SlotVirtualNode(CHANNELS, 3, 2)}
    for name, module in modules.items():
        torch._dynamo.reset()
        counters.clear()
        compiled: Any = torch.compile(module, fullgraph=True, backend="eager")
        counts[name] = []
        for nodes in (13, 17, 1, 0, 2, 29):
            x, batch = torch.randn(nodes, CHANNELS), torch.arange(nodes) // 2
            arguments = (x,) if name == "Linear" else (x, batch)
            torch.testing.assert_close(compiled(*arguments), module(*arguments))
            counts[name].append(int(counters["stats"]["unique_graphs"]))
    return counts


def check_tangents() -> None:
    """Check forward mode: a traced graph may then contain only PyTorch's operators, since ours have no tangents."""
    module = SlotVirtualNode(CHANNELS, 3, 2, init_std=0.5).double().requires_grad_(False)
    compiled: Any = torch.compile(module, fullgraph=True, backend="eager")
    x, tangent = torch.randn(2, 9, CHANNELS, dtype=torch.float64)
    batch = torch.arange(9) // 4
    _, expected = torch.func.jvp(lambda x: module(x, batch), (x,), (tangent,))
    # Compiled for ordinary calls first, as in a model that is trained; and such calls go on as before.
    for _ in range(2):
        torch.testing.assert_close(compiled(x, batch), module(x, batch))
        with forward_ad.dual_level():
            derivative = forward_ad.unpack_dual(compiled(forward_ad.make_dual(x, tangent), batch)).tangent
        torch.testing.assert_close(derivative, expected)
    # Forced, it cannot choose PyTorch's own and must refuse.
    for fullgraph in (True, False):
        forced: Any = torch.compile(module, fullgraph=fullgraph, backend="eager")
        try:
            with ops.use_backend("tiles"), forward_ad.dual_level():
                forced(forward_ad.make_dual(x, tangent), batch)
        except (NotImplementedError, torch._dynamo.exc.Unsupported):
            continue
        raise AssertionError(f"tangents were dropped, fullgraph={fullgraph}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if sys.argv[1:] == ["tangents"]:
        check_tangents()
        sys.exit()
    if sys.argv[1:] == ["few nodes"]:
        print(json.dumps(few_nodes()))
        sys.exit()
    print(json.dumps({name: check(*CASES[name]) for name in sys.argv[1:]}))
