"""torch.export, ONNX, and meta tensors."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from mooring import ops, zoo
from mooring.models import GNN
from mooring.nn import HeteroSlotVirtualNode, SlotAggregation, SlotConv, SlotVirtualNode, VirtualNode
from support import Ragged, run_script

CHANNELS = 16
WORKER = Path(__file__).parent / "export_worker.py"
SHORT = Ragged((4, 7), False, seed=1)
OTHERS = [Ragged(sizes, False, seed=2) for sizes in ((5, 3, 9), (1,), ())]  # several graphs, one node, no nodes
# Shapes are checked by names that a traced graph does not have.
pytestmark = pytest.mark.usefixtures("as_users_run_it")

MODULES: dict[str, Any] = {
    "slots": lambda: SlotVirtualNode(CHANNELS, 3, init_std=0.5),
    "residual": lambda: SlotVirtualNode(CHANNELS, 3, integrate="residual"),
    "sum": lambda: VirtualNode(CHANNELS, "sum"),
}


class Typed(nn.Module):
    """Module for two node types, called with one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = HeteroSlotVirtualNode({"user": CHANNELS, "item": 8}, 3, init_std=0.5)

    def forward(self, x: Tensor, batch: Tensor | None = None, num_graphs: int | None = None) -> Tensor:
        index = {} if batch is None else {"user": batch, "item": batch}
        out = self.memory({"user": x, "item": x[:, :8]}, index, num_graphs=num_graphs)
        return torch.cat([out["user"], out["item"]], dim=1)


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.aggr = SlotAggregation(CHANNELS, 3)

    def forward(self, x: Tensor, batch: Tensor | None = None, num_graphs: int | None = None) -> Tensor:
        return self.aggr(x, batch, dim_size=num_graphs)


MORE: dict[str, Any] = {**MODULES, "types": Typed, "aggregation": Pooled}


class Counted(nn.Module):
    def __init__(self, memory: nn.Module) -> None:
        super().__init__()
        self.memory = memory

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        return self.memory(x, batch, num_graphs=3)


def inputs(batch: Ragged, batched: bool) -> tuple[Tensor, ...]:
    x = batch.randn(batch.num_nodes, CHANNELS, dtype=torch.float32)
    return (x, batch.index()) if batched else (x,)


def shapes(batched: bool) -> tuple[dict[int, Any], ...]:
    nodes = torch.export.Dim("nodes", min=2)
    return ({0: nodes},) * (2 if batched else 1)


@pytest.mark.parametrize("name", list(MORE))
@pytest.mark.parametrize("how", ["one graph", "batch", "batch and number of graphs"])
def test_exported_for_any_number_of_nodes_and_graphs(name: str, how: str) -> None:
    module, batched = MORE[name]().eval(), how != "one graph"
    module = Counted(module) if how.endswith("number of graphs") else module
    program = torch.export.export(module, inputs(SHORT, batched), dynamic_shapes=shapes(batched))
    assert not any("mooring" in str(node.target) for node in program.graph.nodes), "PyTorch's own operators alone"
    for other in OTHERS:
        tensors = inputs(other, batched)
        torch.testing.assert_close(program.module()(*tensors), called(module, tensors), rtol=0.0, atol=1e-5)


def called(module: nn.Module, tensors: tuple[Tensor, ...]) -> Tensor:
    """Return the output in eager mode. Without num_graphs, an exported program has one graph if there are no nodes."""
    counts = {} if tensors[0].size(0) or isinstance(module, Counted) else {"num_graphs": 1}
    return module(*tensors, **counts).detach()


@pytest.fixture(scope="module")
def differences(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    return json.loads(run_script(WORKER, str(tmp_path_factory.mktemp("ahead") / "memory.pt2")).splitlines()[-1])


@pytest.mark.parametrize("how", ["strict, slots", "strict, sum", "ahead of time"])
def test_exported_strictly_and_compiled_ahead_of_time(differences: dict[str, float], how: str) -> None:
    """Strict export without num_graphs, and AOTInductor."""
    if how == "ahead of time" and shutil.which("g++") is None:
        pytest.skip("inductor needs a C++ compiler")
    assert differences[how] < 1e-5


@pytest.mark.parametrize("batched", [False, True], ids=["one graph", "batch"])
@pytest.mark.filterwarnings("ignore")
def test_onnx_runs_elsewhere(batched: bool, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="ONNX is for development: pip install 'mooring[dev]'")
    module = MODULES["slots"]().eval()
    exported = torch.onnx.export(
        module, inputs(SHORT, batched), dynamo=True, dynamic_shapes=shapes(batched), verbose=False
    )
    assert exported is not None
    exported.save(tmp_path / "memory.onnx")
    session = runtime.InferenceSession(tmp_path / "memory.onnx")
    for other in OTHERS:
        tensors = inputs(other, batched)
        (out,) = session.run(
            None, {item.name: t.numpy() for item, t in zip(session.get_inputs(), tensors, strict=True)}
        )
        torch.testing.assert_close(torch.from_numpy(out), called(module, tensors), rtol=0.0, atol=1e-5)


TRACED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "SlotVirtualNode": (SlotVirtualNode(CHANNELS, 3), ()),
    "VirtualNode": (VirtualNode(CHANNELS), ()),
    "SlotAggregation": (SlotAggregation(CHANNELS, 3), ()),
    "SlotConv": (SlotConv(CHANNELS, None, 3), (torch.tensor([[0], [1]]),)),
    "GNN": (GNN(CHANNELS, CHANNELS, 1), (torch.tensor([[0], [1]]),)),
    "DenseAttention": (zoo.build("transformer", zoo.MemorySpec(channels=CHANNELS)), ()),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TRACED)
def test_tracing_is_refused_with_the_way_that_works(name: str) -> None:
    module, more = TRACED[name]
    with pytest.raises(NotImplementedError, match=rf"^{name}: torch\.jit\.trace is not supported.* Use torch\.export"):
        torch.jit.trace(module, (torch.randn(5, CHANNELS), *more))


@pytest.mark.filterwarnings("ignore")
def test_an_op_refuses_tracing_too() -> None:
    with pytest.raises(NotImplementedError, match=r"^write: torch\.jit\.trace is not supported"):
        torch.jit.trace(lambda x: ops.write(x[:3], x, x), torch.randn(5, 1, 4))


@pytest.mark.parametrize("name", list(MORE))
def test_tensors_without_data(name: str) -> None:
    shape = MORE[name]()(torch.zeros(5, CHANNELS), torch.zeros(5, dtype=torch.long), num_graphs=2).shape
    with torch.device("meta"):
        module, tensors = MORE[name](), (torch.empty(5, CHANNELS), torch.zeros(5, dtype=torch.long))
        assert module(*tensors, num_graphs=2).shape == shape
        with pytest.raises(ValueError, match="is on meta, where ids have no values"):
            module(*tensors)
    with FakeTensorMode():
        out = MORE[name]()(torch.empty(5, CHANNELS), torch.zeros(5, dtype=torch.long), num_graphs=2)
    assert out.shape == shape
