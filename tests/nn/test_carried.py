"""A memory carried through the layers of a network."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from mooring import ops
from mooring.models import OGBVirtualNode
from mooring.nn import HeteroSlotVirtualNode, SlotConv, SlotVirtualNode
from mooring.ops.plan import Grid
from mooring.ops.tiles.layout import Layout
from support import Ragged, assert_close

import carried_worker  # isort: skip

CHANNELS, SLOTS = 12, 5
BATCH = Ragged((7, 0, 3, 11), False, seed=4)


def module(**options: object) -> SlotVirtualNode:
    routing = None if "address_channels" in options else "free"
    return SlotVirtualNode(CHANNELS, SLOTS, heads=2, **{"routing": routing, **options}).double()  # type: ignore[arg-type]


def features() -> torch.Tensor:
    return BATCH.randn(BATCH.num_nodes, CHANNELS)


@pytest.mark.parametrize("integrate", ["film", "residual", "global_film"])
def test_slots_of_the_layer_before_are_queries_and_residual(integrate: str) -> None:
    memory, x = module(integrate=integrate), features()
    _, before = memory(x, BATCH.index(), num_graphs=4, return_state=True)
    _, after = memory(x, BATCH.index(), num_graphs=4, memory=before, return_state=True)
    for graph in range(4):
        nodes = BATCH.index() == graph
        learned = SlotVirtualNode(CHANNELS, SLOTS, heads=2, routing="free", integrate=integrate).double()  # type: ignore[arg-type]
        learned.load_state_dict(memory.state_dict())
        with torch.no_grad():
            learned.write.slot.copy_(before.slots[graph])
        _, alone = learned(x[nodes], return_state=True)
        assert_close(after.slots[graph], alone.slots[0])
        assert_close(after.state.log_mass[graph], alone.state.log_mass[0])
        assert_close(after.write_weights[nodes], alone.write_weights)


def test_the_learned_slots_themselves_carried_change_nothing() -> None:
    memory, x = module(), features()
    out, before = memory(x, BATCH.index(), num_graphs=4, return_state=True)
    same = before._replace(slots=memory.write.slot.expand(4, -1, -1))
    assert_close(memory(x, BATCH.index(), num_graphs=4, memory=same), out)
    other = before._replace(slots=torch.randn_like(before.slots))
    assert not torch.allclose(memory(x, BATCH.index(), num_graphs=4, memory=other), out)


def test_gradients_reach_the_layer_before() -> None:
    first, second, x = module(init_std=0.5), module(init_std=0.5), features()
    h, carried = first(x, BATCH.index(), num_graphs=4, return_state=True)
    second(h.detach(), BATCH.index(), num_graphs=4, memory=carried).sum().backward()
    assert all(
        parameter.grad is not None and bool(parameter.grad.any())
        for name, parameter in first.named_parameters()
        if name.startswith(("write", "update")) and name != "update.anchor_value"  # that is for empty graphs
    )


def test_by_address_it_is_carried_in_the_residual_alone() -> None:
    memory, x = module(address_channels=3), features()
    address = BATCH.randn(BATCH.num_nodes, 3, salt=7)
    arguments = {"address": address, "num_graphs": 4, "return_state": True}
    _, before = memory(x, BATCH.index(), **arguments)
    _, after = memory(x, BATCH.index(), memory=before, **arguments)
    assert_close(after.state.log_mass, before.state.log_mass)
    assert not torch.allclose(after.slots, before.slots)


def test_a_convolution_passes_it_on() -> None:
    layers = [SlotConv(CHANNELS, None, SLOTS, heads=2).double() for _ in range(2)]
    plan = ops.plan(BATCH.index(), num_graphs=4)
    h, carried = layers[0](features(), torch.zeros(2, 0, dtype=torch.long), plan, return_state=True)
    out, last = layers[1](h, torch.zeros(2, 0, dtype=torch.long), plan=plan, memory=carried, return_state=True)
    alone = layers[1](h, torch.zeros(2, 0, dtype=torch.long), plan=plan)
    assert out.shape == alone.shape
    assert last.slots.shape == (4, SLOTS, CHANNELS)
    assert not torch.allclose(out, alone)


def test_a_state_dict_and_a_saved_memory_give_the_next_layer_all_it_needs(tmp_path: Path) -> None:
    first, second, x = module(init_std=0.5), module(init_std=0.5), features()
    h, carried = first(x, BATCH.index(), num_graphs=4, return_state=True)
    out = second(h, BATCH.index(), num_graphs=4, memory=carried)
    torch.save({"memory": carried, "h": h, "second": second.state_dict()}, tmp_path / "saved.pt")
    saved, other = torch.load(tmp_path / "saved.pt", weights_only=True), module(init_std=0.5)
    assert not torch.allclose(other(h, BATCH.index(), num_graphs=4, memory=carried), out), "the control"
    other.load_state_dict(saved["second"])
    assert torch.equal(other(saved["h"], BATCH.index(), num_graphs=4, memory=saved["memory"]), out)


def test_a_killed_and_resumed_run_equals_an_uninterrupted_run(tmp_path: Path) -> None:
    worker = Path(carried_worker.__file__)
    environment = {**os.environ, "MOORING_SHAPE_CHECKS": "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(worker), str(tmp_path / "killed.pt"), "2"]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    assert torch.load(tmp_path / "killed.pt", weights_only=True)["done"] == 2
    resumed, memory = carried_worker.train(tmp_path / "killed.pt")
    whole, expected = carried_worker.train(tmp_path / "whole.pt")
    assert all(torch.equal(resumed[key], tensor) for key, tensor in whole.items())
    assert torch.equal(memory.slots, expected.slots)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (torch.zeros(4, SLOTS, CHANNELS), TypeError, "memory is a torch.Tensor"),
        ("slots", ValueError, "memory has slots of shape (4, 3, 12)"),
        ("graphs", ValueError, "memory has slots of shape (3, 5, 12)"),
        (lambda slots: slots.float(), TypeError, "memory.slots has dtype float32 but x has float64"),
        (lambda slots: slots.long(), TypeError, "memory.slots has dtype int64 but a floating one was expected"),
        (lambda slots: slots.to("meta"), ValueError, "memory.slots is on meta but x is on cpu"),
        (lambda slots: None, TypeError, "memory.slots is None but a tensor was expected"),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_messages(wrong: object, error: type[Exception], words: str) -> None:
    memory, x = module(), features()
    _, carried = memory(x, BATCH.index(), num_graphs=4, return_state=True)
    if wrong == "slots":
        wrong = carried._replace(slots=carried.slots[:, :3])
    elif wrong == "graphs":
        wrong = carried._replace(slots=carried.slots[:3])
    elif callable(wrong):
        wrong = carried._replace(slots=wrong(carried.slots))
    with pytest.raises(error) as caught:
        memory(x, BATCH.index(), num_graphs=4, memory=wrong)
    assert words in str(caught.value)


@pytest.mark.usefixtures("as_users_run_it")
def test_the_other_modules_that_take_a_memory_check_it_too() -> None:
    x = torch.randn(4, CHANNELS)
    for other, nodes in ((HeteroSlotVirtualNode(CHANNELS, SLOTS), {"a": x}), (OGBVirtualNode(CHANNELS, norm=None), x)):
        memory = other(nodes, return_state="slots")[1]
        words = f"^{type(other).__name__}: memory.slots has dtype float64 but x has float32"
        with pytest.raises(TypeError, match=words):
            other(nodes, memory=memory._replace(slots=memory.slots.double()))


@pytest.mark.parametrize(("backend", "owner", "name"), [("tiles", Layout, "_make"), ("plain", Grid, "of")])
def test_one_plan_serves_five_layers(monkeypatch: pytest.MonkeyPatch, backend: str, owner: type, name: str) -> None:
    made, original = [], getattr(owner, name).__func__
    monkeypatch.setattr(owner, name, classmethod(lambda cls, *a: made.append(1) or original(cls, *a)))
    layers, plan, h = nn.ModuleList(module() for _ in range(5)), ops.plan(BATCH.index(), num_graphs=4), features()
    h.requires_grad_()
    with ops.use_backend(backend):
        for layer in layers:
            h = layer(h, plan)
    h.sum().backward()
    assert len(made) == 1


@pytest.mark.parametrize("backend", ["tiles", "plain"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_plan_first_used_in_inference_mode_serves_training(backend: str, inside: bool) -> None:
    """Lightning validates first, and one large graph has the same plan for training."""
    memory, x = SlotVirtualNode(CHANNELS, SLOTS, routing="free"), torch.randn(7, CHANNELS)
    batch = torch.tensor([0, 2, 0, 0, 2, 1, 2], dtype=torch.int32)
    with ops.use_backend(backend):
        plan = None if inside else ops.plan(batch)
        with torch.inference_mode():
            plan = ops.plan(batch + 0) if plan is None else plan
            seen = memory(x, plan)
        out = memory(x, plan)
        out.sum().backward()
    assert torch.equal(out, seen)
    assert memory.write.lin_key.weight.grad is not None
