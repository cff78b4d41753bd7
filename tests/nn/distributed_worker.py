"""One of two processes; run by test_distributed. Arguments: rank, a file to meet at, a file for the results."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from mooring import ops
from mooring.nn import SlotAggregation, SlotVirtualNode, VirtualNode

CHANNELS, ADDRESS, WORLD = 10, 7, 2
STEPS = 2  # DDP reports a parameter without a gradient at the second step

# Two graphs for each rank: sizes differ between ranks, ids do not.
SIZES = [(5, 3), (11, 1)]

# Parts that FSDP2 shards each on its own. Addresses, which write and read share, come before them.
SHARDED = {
    "write": ("write",),
    "update": ("update",),
    "read": ("read",),
    "every": ("write", "update", "read", "integrate"),
    "addresses": ("write.addresses", "write", "read"),
    "aggregation": ("write", "update"),
}


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    if name == "addressed":
        return SlotVirtualNode(CHANNELS, 3, 2, address_channels=ADDRESS, init_std=0.5).double()
    if name in ("anchored", "free"):
        return SlotVirtualNode(CHANNELS, 3, 2, routing="free" if name == "free" else None, init_std=0.5).double()
    return VirtualNode(CHANNELS).double()


def batch_of(rank: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rank)
    index = torch.arange(2).repeat_interleave(torch.tensor(SIZES[rank]))
    nodes = index.numel()
    x, address = (torch.randn(nodes, width, generator=generator).double() for width in (CHANNELS, ADDRESS))
    return x, address, index


def loss_of(module: nn.Module, name: str, rank: int) -> Tensor:
    x, address, index = batch_of(rank)
    return module(x, index, address=address if name == "addressed" else None).square().sum()


def ddp_gradients(name: str, rank: int) -> dict[str, Tensor]:
    module = DistributedDataParallel(build(name))
    for _ in range(STEPS):
        module.zero_grad()
        loss_of(module, name, rank).backward()
    return {key: parameter.grad for key, parameter in module.module.named_parameters()}


def fsdp_gradients(rank: int) -> dict[str, Tensor]:
    """Shard every Linear separately, and the rest together; return gradients."""
    module: Any = build("anchored")
    mesh = init_device_mesh("cpu", (WORLD,))
    for child in list(module.modules()):
        if isinstance(child, nn.Linear):
            fully_shard(child, mesh=mesh)
    fully_shard(module, mesh=mesh)
    loss_of(module, "anchored", rank).backward()
    return {key: parameter.grad.full_tensor() for key, parameter in module.named_parameters()}


def build_sharded(name: str) -> nn.Module:
    torch.manual_seed(0)
    if name == "aggregation":
        return SlotAggregation(CHANNELS, 3, 2).double()
    options: dict[str, Any] = {"address_channels": ADDRESS} if name == "addresses" else {"competition": name == "every"}
    return SlotVirtualNode(CHANNELS, 3, 2, init_std=0.5, **options).double()


def inside_loss(module: nn.Module, name: str, rank: int) -> Tensor:
    """Return a loss of the output and of everything that return_state returns."""
    x, address, index = batch_of(rank)
    out, memory = module(x, index, return_state=True, **({"address": address} if name == "addresses" else {}))
    inside = (*memory.state, memory.slots, memory.anchor_weight, memory.write_weights, memory.read_weights)
    return sum(tensor.square().sum() for tensor in (out, *inside) if tensor is not None)


def by_part(name: str, rank: int) -> dict[str, Tensor]:
    """Shard some submodules separately, and the rest together; return gradients."""
    module: Any = build_sharded(name)
    mesh = init_device_mesh("cpu", (WORLD,))
    for part in SHARDED[name]:
        fully_shard(module.get_submodule(part), mesh=mesh)
    fully_shard(module, mesh=mesh)
    inside_loss(module, name, rank).backward()
    return {key: parameter.grad.full_tensor() for key, parameter in module.named_parameters()}


class Carried(nn.Module):
    """Two layers with a carried memory."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(build("free") for _ in range(2))

    def forward(self, x: Tensor, index: Tensor, address: None = None) -> Tensor:
        h, memory = self.layers[0](x, index, return_state=True)
        return self.layers[1](h, index, memory=memory)


def carried_gradients(rank: int) -> dict[str, Tensor | None]:
    # The learned slots of the second layer are not used: those of the first take their place.
    module = DistributedDataParallel(Carried(), find_unused_parameters=True)
    for _ in range(STEPS):
        module.zero_grad()
        loss_of(module, "carried", rank).backward()
    return {key: parameter.grad for key, parameter in module.module.named_parameters()}


def split_graph(rank: int) -> dict[str, Tensor]:
    """Split one graph over both ranks; return the output here and gradients of the sum of both losses."""
    module = SlotVirtualNode(CHANNELS, 3, 2, init_std=0.5, merge=ops.all_merge).double()
    module.load_state_dict(build("anchored").state_dict())
    x = batch_of(rank)[0].requires_grad_()
    out = module(x)
    out.square().sum().backward()
    for parameter in module.parameters():
        dist.all_reduce(parameter.grad)
    empty = module.write(x[:0] if rank else x)
    one_sided = ops.all_merge(empty).log_mass
    nobody = ops.all_merge(module.write(x[:0])).log_mass
    tensors = {"out": out.detach(), "x": x.grad, "one_sided": one_sided.detach(), "nobody": nobody.detach()}
    return {**tensors, **{f"parameter {key}": p.grad for key, p in module.named_parameters()}}


def main() -> None:
    rank, meeting, results = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=WORLD)
    grads = {name: ddp_gradients(name, rank) for name in ("anchored", "addressed", "mean")}
    grads["split"] = split_graph(rank)
    grads["by part"] = {name: by_part(name, rank) for name in SHARDED}
    grads["fsdp"], grads["carried"] = fsdp_gradients(rank), carried_gradients(rank)
    torch.save(grads, results)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
