"""Masked nodes influence neither values nor gradients, even if they are NaN."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from mooring.nn import Addresses, SlotConv, SlotRead, SlotVirtualNode, SlotWrite, VirtualNode
from mooring.nn.masks import hide
from support import Ragged, assert_close, assert_finite

from modules import ADDRESS, CHANNELS, HEADS, NAMES, SLOTS, build, inputs  # isort: skip

BATCH = Ragged((5, 0, 11, 3), False, seed=1)
INDEX = BATCH.index()
OUT = torch.zeros(BATCH.num_nodes, dtype=torch.bool)
OUT[torch.tensor([2, 3, 7, 13])] = True
KEPT = ~OUT
WEIGHT = BATCH.randn(BATCH.num_nodes, salt=7)

# How a node can be left out of the write.
WAYS: dict[str, dict[str, Tensor]] = {
    "sources": {"sources": KEPT},
    "log_weight": {"log_weight": WEIGHT.masked_fill(OUT, float("-inf"))},
    "both": {"sources": KEPT, "log_weight": WEIGHT},
}
WAY = pytest.mark.parametrize("way", WAYS)
HELD = pytest.mark.parametrize("held", [float("nan"), float("inf")])
ORDER = pytest.mark.parametrize("folded", [True, False], ids=["folded", "plain"])

Run = Callable[[dict[str, Tensor]], list[Tensor]]


def holding(tensors: dict[str, Tensor], held: float) -> dict[str, Tensor]:
    return {key: tensor.masked_fill(OUT.unsqueeze(-1), held) for key, tensor in tensors.items()}


def outcome(module: nn.Module, run: Run, tensors: dict[str, Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the outputs of ``run``, and gradients of a fixed functional in all parameters and inputs."""
    leaves = {key: tensor.clone().requires_grad_() for key, tensor in tensors.items()}
    outputs = run(leaves)
    generator = torch.Generator().manual_seed(1)
    loss = sum(
        (output * torch.randn(output.shape, generator=generator, dtype=output.dtype)).sum() for output in outputs
    )
    assert isinstance(loss, Tensor)
    leaves_and_parameters = [*module.parameters(), *leaves.values()]
    grads = torch.autograd.grad(loss, leaves_and_parameters, materialize_grads=True)
    return [output.detach() for output in outputs], list(grads)


def assert_no_influence(module: nn.Module, run: Run, tensors: dict[str, Tensor], held: float) -> None:
    """Check that masked nodes have no influence on ``run``, which must not return their rows."""
    for actual, expected in zip(
        outcome(module, run, holding(tensors, held)), outcome(module, run, holding(tensors, 0.25)), strict=True
    ):
        assert_finite(*expected)
        for one, other in zip(actual, expected, strict=True):
            assert_close(one, other)


def force(module: nn.Module, folded: bool) -> nn.Module:
    for part in module.modules():
        if isinstance(part, SlotWrite | SlotRead):
            part.folded = folded
    return module


@ORDER
@HELD
@WAY
@pytest.mark.parametrize("reads", [True, False], ids=["reads", "does not read"])
@pytest.mark.parametrize("name", NAMES)
def test_of_a_virtual_node(name: str, reads: bool, way: str, held: float, folded: bool) -> None:
    """A target that is NaN and does not write is returned unchanged."""
    module, tensors = force(build(name), folded), inputs(BATCH, name)
    masks = WAYS[way] if reads else {**WAYS[way], "targets": KEPT}

    def run(leaves: dict[str, Tensor]) -> list[Tensor]:
        out = module(**leaves, batch=INDEX, num_graphs=4, **masks)
        x = leaves["x"]
        if not (reads and bool(x.isfinite().all())):
            assert torch.equal(out[OUT].nan_to_num(7.0), x[OUT].nan_to_num(7.0))
        return [out[KEPT]]

    assert_no_influence(module, run, tensors, held)


@HELD
@WAY
@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(build(name), SlotVirtualNode)])
def test_of_the_memory_that_is_shown(name: str, way: str, held: float) -> None:
    module = build(name)

    def run(leaves: dict[str, Tensor]) -> list[Tensor]:
        _, memory = module(**leaves, batch=INDEX, num_graphs=4, targets=KEPT, return_state=True, **WAYS[way])
        assert not bool(memory.write_weights[OUT].any())
        shown = [memory.state.content, memory.slots, memory.write_weights]
        if memory.read_weights is not None:
            assert not bool(memory.read_weights[OUT].any())
            shown.append(memory.read_weights)
        return shown

    assert_no_influence(module, run, inputs(BATCH, name), held)


@ORDER
@HELD
@WAY
@pytest.mark.parametrize("addressed", [True, False])
def test_of_a_write(addressed: bool, way: str, held: float, folded: bool) -> None:
    torch.manual_seed(0)
    addresses = Addresses(ADDRESS, SLOTS, HEADS, CHANNELS // HEADS) if addressed else None
    module = force(SlotWrite(CHANNELS, SLOTS, HEADS, addresses=addresses).double(), folded)

    def run(leaves: dict[str, Tensor]) -> list[Tensor]:
        state = module(**leaves, batch=INDEX, num_graphs=4, **WAYS[way])
        return [state.content, state.log_mass.nan_to_num(neginf=0.0)]

    assert_no_influence(module, run, inputs(BATCH, "addressed" if addressed else "anchored"), held)


@ORDER
@HELD
@pytest.mark.parametrize("addressed", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_of_a_read(addressed: bool, residual: bool, held: float, folded: bool) -> None:
    torch.manual_seed(0)
    addresses = Addresses(ADDRESS, SLOTS, HEADS, CHANNELS // HEADS).double()
    module = force(SlotRead(CHANNELS, SLOTS, HEADS, by_address=addressed).double(), folded)
    memory = BATCH.randn(4, SLOTS, CHANNELS, salt=9)
    gain = BATCH.randn(CHANNELS, salt=8) if residual else None

    def run(leaves: dict[str, Tensor]) -> list[Tensor]:
        if addressed:  # hidden before the projection, as SlotVirtualNode does
            leaves = {**leaves, "address": addresses.routes(leaves["x"], hide(leaves["address"], KEPT))}  # type: ignore[dict-item]
        out = module(**leaves, memory=memory, batch=INDEX, targets=KEPT, gain=gain)
        expected = leaves["x"][OUT] if residual else torch.zeros(int(OUT.sum()), CHANNELS).double()
        assert torch.equal(out[OUT].nan_to_num(7.0), expected.nan_to_num(7.0))
        return [out[KEPT]]

    assert_no_influence(module, run, inputs(BATCH, "addressed" if addressed else "anchored"), held)


@HELD
@WAY
@pytest.mark.parametrize("memory", ["slots", "sum", "none of the layers but the memory"])
def test_of_a_convolution(memory: str, way: str, held: float) -> None:
    """Masked nodes have edges; their features must not enter through the local layer."""
    torch.manual_seed(0)
    conv = None if memory.startswith("none") else GCNConv(CHANNELS, CHANNELS)
    kind: dict[str, Any] = (
        {"memory": VirtualNode(CHANNELS, pool="sum")} if memory == "sum" else {"slots": 3, "heads": 2}
    )
    module = SlotConv(CHANNELS, conv, **kind).double()
    nodes = torch.arange(BATCH.num_nodes)
    edges = torch.stack([nodes[:-1], nodes[1:]])

    def run(leaves: dict[str, Tensor]) -> list[Tensor]:
        out = module(leaves["x"], edges, INDEX, memory_kwargs=WAYS[way])
        if not bool(leaves["x"].isfinite().all()):
            assert torch.equal(out[OUT].nan_to_num(7.0), leaves["x"][OUT].nan_to_num(7.0))
        return [out[KEPT]]

    # To the local layer a node of zeros is still a node, so its own gradient differs; all others are the same.
    zeros, bad = (outcome(module, run, holding(inputs(BATCH, "anchored"), value)) for value in (0.0, held))
    assert_close(bad[0][0], zeros[0][0])
    *parameters, x = zip(bad[1], zeros[1], strict=True)
    for one, other in [*parameters, (x[0][KEPT], x[1][KEPT])]:
        assert_finite(other)
        assert_close(one, other)
    assert not bool(x[0][OUT].any())


@pytest.mark.parametrize("name", NAMES)
def test_a_node_that_writes_nan_is_not_passed_over(name: str) -> None:
    """The control: masks leave nodes out, NaN by itself does not."""
    out = build(name)(**holding(inputs(BATCH, name), float("nan")), batch=INDEX, sources=INDEX == 2)
    touched = (INDEX == 2).nonzero().squeeze(1)
    assert bool(out[touched].isnan().all())
