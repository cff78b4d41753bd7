"""The native back end: segments, fused modules, threads, instruction sets."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mooring import ops
from mooring.nn import SlotAggregation, SlotVirtualNode
from mooring.ops import native
from support import ROOT, Ragged, assert_close, assert_finite, with_gradients

from cases import WRITE_FORMS, read_inputs, reader, write_inputs, writer  # isort: skip

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mooring_native") is None, reason="mooring-native is not installed: no compiler was found"
)
# Segments have 256 nodes: graphs of several segments beside others, and a graph without nodes.
SIZES = (300, 0, 1, 17, 600, 5)
CHANNELS = 12
MODULES: dict[str, Callable[[], nn.Module]] = {
    "default": lambda: SlotVirtualNode(CHANNELS, 3, 2),
    "wide": lambda: SlotVirtualNode(32, 8, 4),
    "free": lambda: SlotVirtualNode.paper(CHANNELS, 3, 2),
    "moored": lambda: SlotVirtualNode.moored(CHANNELS, 3, 2),
    "residual": lambda: SlotVirtualNode(CHANNELS, 3, 2, integrate="residual"),
    "one head": lambda: SlotVirtualNode(CHANNELS, 5, 1),
    "more slots than channels": lambda: SlotVirtualNode(CHANNELS, 31, 3),
}


def both(run: Callable[..., Any], *inputs: Tensor) -> None:
    """Check that native equals tiles on values and gradients."""
    results = []
    for name in ("native", "tiles"):
        with ops.use_backend(name):
            results.append(with_gradients(run, *inputs))
    for actual, expected in zip(*results, strict=True):
        for one, other in zip(actual, expected, strict=True):
            assert_close(one, other, scale=3.0)


@pytest.mark.parametrize("ordered", [True, False], ids=["sorted", "unsorted"])
@pytest.mark.parametrize("form", ["shared", "shared, key is value"])
def test_a_graph_of_many_segments_is_written_as_one(form: str, ordered: bool) -> None:
    batch = Ragged(SIZES, ordered, seed=3)
    assert form in WRITE_FORMS
    both(writer(ops.write, form, batch), *write_inputs(batch, form, torch.float32))


@pytest.mark.parametrize("ordered", [True, False], ids=["sorted", "unsorted"])
@pytest.mark.parametrize("form", ["folded", "folded, shared keys"])
def test_a_graph_of_many_segments_is_read_as_one(form: str, ordered: bool) -> None:
    batch = Ragged(SIZES, ordered, seed=3)
    both(reader(ops.read, form, batch), *read_inputs(batch, form, torch.float32))


@pytest.mark.parametrize("ordered", [True, False], ids=["sorted", "unsorted"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_the_same(name: str, masked: bool, ordered: bool) -> None:
    torch.manual_seed(0)
    batch, module = Ragged(SIZES, ordered, seed=5), MODULES[name]()
    masks: dict[str, Any] = {"sources": batch.mask(salt=1), "targets": batch.mask(salt=2)} if masked else {}
    parameters = dict(module.named_parameters())

    def run(x: Tensor, *values: Tensor) -> Tensor:
        arguments = {"batch": batch.index(), "num_graphs": batch.num_graphs, **masks}
        return torch.func.functional_call(module, dict(zip(parameters, values, strict=True)), x, arguments)

    both(run, batch.randn(batch.num_nodes, module.channels, dtype=torch.float32), *parameters.values())


def test_double_precision_falls_back_to_another_back_end() -> None:
    batch = Ragged(SIZES, True, seed=3)
    module = SlotVirtualNode(CHANNELS, 3, 2).double()
    x = batch.randn(batch.num_nodes, CHANNELS, dtype=torch.float64)
    both(lambda x: module(x, batch.index(), num_graphs=batch.num_graphs), x)


def test_second_derivatives_are_those_of_the_formulas() -> None:
    torch.manual_seed(0)
    module, batch = SlotVirtualNode(CHANNELS, 3, 2), Ragged((5, 0, 7), True, seed=1)
    x = batch.randn(batch.num_nodes, CHANNELS, dtype=torch.float32)
    second_derivatives = []
    for name in ("native", "plain"):
        leaf = x.clone().requires_grad_()
        with ops.use_backend(name):
            out = module(leaf, batch.index(), num_graphs=3)
            (grad,) = torch.autograd.grad(out.square().sum(), leaf, create_graph=True)
            second_derivatives.append(torch.autograd.grad(grad.square().sum(), leaf)[0])
    assert_finite(second_derivatives[0])
    assert_close(second_derivatives[0], second_derivatives[1], scale=10.0)


def test_nan_in_a_node_stays_in_its_graph() -> None:
    x, batch = torch.randn(9, CHANNELS), torch.arange(9) // 3
    x[4, 2] = float("nan")
    with ops.use_backend("native"):
        out = SlotVirtualNode(CHANNELS, 3, 2)(x, batch)
    assert bool(out[3:6].isnan().any(dim=1).all())
    assert_finite(out[:3], out[6:])


def test_hooks_adapters_and_subclasses_are_called() -> None:
    x, calls = torch.randn(9, CHANNELS), []
    for place in ("read", "integrate", "integrate.lin_film", "read.lin_value", "read.lin_out", "write.lin_value"):
        module = SlotVirtualNode(CHANNELS, 3, 2)
        module.get_submodule(place).register_forward_hook(lambda *_, place=place: calls.append(place))
        with ops.use_backend("native"):
            module(x)
        assert calls.pop() == place


def test_tiles_compute_more_scores_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = SlotVirtualNode(CHANNELS, 3, 2), torch.randn(50, CHANNELS)
    with ops.use_backend("native"):
        expected = module(x)
        monkeypatch.setattr(native, "MOST_SCORES", 50 * 6 * 4 - 1)
        monkeypatch.setattr(native, "_ops", lambda: pytest.fail("the scores do not fit"))
        assert_close(module(x), expected)


def test_modulations_that_were_not_saved_are_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = SlotVirtualNode(CHANNELS, 3, 2), torch.randn(50, CHANNELS, requires_grad=True)
    grads = []
    for limit in (0, 1 << 20):
        monkeypatch.setattr(native, "KEPT_BOUNDS", limit)
        with ops.use_backend("native"):
            grads.append(torch.autograd.grad(module(x).square().sum(), [x, *module.parameters()]))
    for one, other in zip(*grads, strict=True):
        assert_close(one, other)


def test_results_do_not_depend_on_threads_or_runs() -> None:
    torch.manual_seed(0)
    module, batch = SlotVirtualNode(32, 8, 4), torch.arange(40).repeat_interleave(torch.arange(40) * 9 + 1)
    x = torch.randn(len(batch), 32, requires_grad=True)
    results: list[list[Tensor]] = []
    for threads in (1, 3, 1):
        torch.set_num_threads(threads)
        try:
            with ops.use_backend("native"):
                slots = module.write(x, batch)
                values = torch.autograd.grad(slots.content.square().sum() + slots.log_mass.sum(), x)
                results.append([slots.content, slots.log_mass, *values])
        finally:
            torch.set_num_threads(1)
    for other in results[1:]:
        assert all(torch.equal(one, two) for one, two in zip(results[0], other, strict=True))


def test_neighbourhoods_are_aggregated_natively() -> None:
    torch.manual_seed(0)
    aggregation, index = SlotAggregation(CHANNELS, 3, 2), torch.randint(40, (200,))
    both(lambda x: aggregation(x, index, dim_size=41), torch.randn(200, CHANNELS))


COMPARE = """
import torch
from mooring import SlotVirtualNode, ops
torch.manual_seed(0)
for channels, slots, heads in ((12, 3, 2), (32, 8, 4), (5, 7, 1)):
    module, x = SlotVirtualNode(channels, slots, heads), torch.randn(900, channels, requires_grad=True)
    batch = torch.bucketize(torch.arange(900), torch.tensor([3, 350, 351, 400]))
    grads = []
    for name in ("native", "tiles"):
        with ops.use_backend(name):
            grads.append(torch.autograd.grad(module(x, batch).square().sum(), [x, *module.parameters()]))
    for one, other in zip(*grads):
        torch.testing.assert_close(one, other, rtol=0.0, atol=3e-5 * max(1.0, float(other.abs().max())))
"""


@pytest.mark.parametrize("isa", ["base", "avx2"])
def test_older_processors_get_the_same(isa: str) -> None:
    environment = os.environ | {"MOORING_NATIVE_ISA": isa, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", COMPARE], env=environment, check=True, timeout=300)


def test_operators_check_shapes_and_offsets() -> None:
    scores, values = torch.randn(5, 6), torch.randn(5, 4)
    for ptr in (torch.tensor([0, 9]), torch.tensor([0, 3]), torch.tensor([0, 4, 2, 5]), torch.tensor([0.0, 5.0])):
        with pytest.raises(RuntimeError, match="write: ptr"):
            torch.ops.mooring_native.write(scores, values, ptr)
    with pytest.raises(RuntimeError, match="write: values is Float"):
        torch.ops.mooring_native.write(scores, values[:4], torch.tensor([0, 5]))
    with pytest.raises(RuntimeError, match="write: scores is Double"):
        torch.ops.mooring_native.write(scores.double(), values, torch.tensor([0, 5]))


def test_an_installation_that_cannot_be_loaded_is_named_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise OSError("undefined symbol")

    monkeypatch.setattr(native.importlib, "import_module", broken)
    with pytest.warns(UserWarning, match="installed but cannot be loaded.*undefined symbol Build it again"):
        assert not native.can_be_loaded()
