"""A plan does not change when its batch changes in place, or under tracing."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch_geometric.data import Batch, Data

from mooring import ops
from mooring.nn import SlotVirtualNode
from mooring.ops import Plan
from mooring.ops.backend import Backend
from support import assert_close

CHANNELS = 6
IDS = torch.tensor([2, 0, 0, 2, 1, 2, 0])
BACKENDS = pytest.mark.parametrize("backend", ["tiles", "plain"])


def memory(integrate: Any = "film") -> SlotVirtualNode:
    return SlotVirtualNode(CHANNELS, 3, heads=2, init_std=0.5, integrate=integrate)


def features(nodes: int = len(IDS)) -> Tensor:
    return torch.randn(nodes, CHANNELS, generator=torch.Generator().manual_seed(1))


@BACKENDS
@pytest.mark.parametrize("used", [False, True], ids=["before use", "after use"])
@pytest.mark.parametrize("integrate", ["film", "global_film"])
def test_a_batch_changed_in_place_does_not_change_its_plan(integrate: str, used: bool, backend: Backend) -> None:
    module, x, ids = memory(integrate), features(), IDS.clone()
    with ops.use_backend(backend):
        expected = module(x, IDS)
        plan = ops.plan(ids)
        if used:
            module(x, plan)
        ids.copy_(IDS.flip(0))
        assert_close(module(x, plan), expected)
        assert not torch.allclose(module(x, ids), expected), "the control"


@BACKENDS
def test_a_data_batch_changed_in_place_does_not_change_its_plan(backend: Backend) -> None:
    data = Batch.from_data_list([Data(x=features(nodes)) for nodes in (3, 5)])
    module = memory("global_film")
    with ops.use_backend(backend):
        expected = module(data.x, data.batch)
        plan = ops.plan(data.batch, ptr=data.ptr)
        module(data.x, plan)
        data.batch.zero_()
        data.ptr[1] = 8
        assert_close(module(data.x, plan), expected)


@BACKENDS
def test_a_batch_changed_in_place_does_not_change_the_derivatives_of_an_earlier_call(backend: Backend) -> None:
    module = memory().double()

    def second(ids: Tensor, *, change: bool) -> Tensor:
        x = features().double().requires_grad_()
        out = module(x, ids).sin().sum()
        if change:
            ids.copy_(IDS.flip(0))
        (grad,) = torch.autograd.grad(out, x, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), x)[0]

    with ops.use_backend(backend):
        assert_close(second(IDS.clone(), change=True), second(IDS.clone(), change=False))


def in_fake_mode(call: Callable[[Tensor], Tensor], x: Tensor) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        call(mode.from_tensor(x))


def in_functional_mode(call: Callable[[Tensor], Tensor], x: Tensor) -> None:
    with FunctionalTensorMode():
        call(FunctionalTensor.to_functional(x))


def exported(call: Callable[[Tensor], Tensor], x: Tensor) -> None:
    class Called(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return call(x)

    torch.export.export(Called(), (x,))


TRACES: dict[str, Callable[[Callable[[Tensor], Tensor], Tensor], object]] = {
    "functionalize": lambda call, x: torch.func.functionalize(call)(x),
    "jvp": lambda call, x: torch.func.jvp(call, (x,), (x,)),
    "grad of grad": lambda call, x: torch.func.hessian(lambda x: call(x).sum())(x),
    "vmap": lambda call, x: torch.func.vmap(call)(torch.stack([x, x])),
    "FakeTensorMode": in_fake_mode,
    "FunctionalTensorMode": in_functional_mode,
    "make_fx": lambda call, x: make_fx(call, tracing_mode="symbolic", _allow_non_fake_inputs=True)(x),
    "export": exported,
}


@pytest.mark.parametrize("ids", [IDS, IDS.sort().values, None], ids=["unsorted", "sorted", "one graph"])
@pytest.mark.parametrize("name", list(TRACES))
@pytest.mark.usefixtures("as_users_run_it")
def test_a_plan_is_as_it_was_after_a_trace(name: str, ids: Tensor | None) -> None:
    module, x = memory(), features()

    def plan() -> Plan:
        return ops.plan(ids, num_nodes=len(IDS))

    met = plan()
    TRACES[name](lambda x: module(x, plan=met), x)
    for backend in (None, "tiles", "plain"):
        with ops.use_backend(backend):
            assert_close(module(x, plan=met), module(x, plan=plan()))


@pytest.mark.usefixtures("as_users_run_it")
def test_tiles_without_data_leave_the_plan_as_it_was() -> None:
    module, x, plan = memory(), features(), ops.plan(IDS)
    with ops.use_backend("tiles"):
        in_fake_mode(lambda x: module(x, plan=plan), x)
        assert_close(module(x, plan=plan), module(x, IDS))


@pytest.mark.usefixtures("as_users_run_it")
def test_graph_ids_may_be_traced_too() -> None:
    module, x = memory(), features()
    assert_close(torch.func.functionalize(module)(x, IDS), module(x, IDS))
