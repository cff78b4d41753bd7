"""Forward mode, second derivatives and torch.func: correct values or an error, never silent zeros."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from mooring import ops
from mooring.nn import SlotAggregation, SlotVirtualNode, VirtualNode
from support import TILE_SIZES, WAYS, Ragged, assert_close, assert_finite, tile_sizes

CHANNELS = 6
BATCH = Ragged((3, 0, 4), False, seed=5)
MODULES = {
    "competing": lambda: SlotVirtualNode(CHANNELS, 3, heads=2, init_std=0.5, competition=True, integrate="linear_film"),
    "film": lambda: SlotVirtualNode(CHANNELS, 3, heads=2, init_std=0.5),
    "residual": lambda: SlotVirtualNode(CHANNELS, 3, heads=2, integrate="residual"),
    "sum": lambda: VirtualNode(CHANNELS, "sum"),
    "aggregation": lambda: SlotAggregation(CHANNELS, 3, heads=2),
}
EVERY = pytest.mark.parametrize("name", list(MODULES))
TILES = pytest.mark.parametrize("tile", WAYS, ids=str)


def function(name: str):  # type: ignore[no-untyped-def]
    module = MODULES[name]().double()
    index = BATCH.index()
    return lambda x: module(x, index)


def features() -> Tensor:
    return BATCH.randn(BATCH.num_nodes, CHANNELS)


@EVERY
def test_forward_mode_is_the_difference_quotient(name: str) -> None:
    call, x, tangent, step = function(name), features(), BATCH.randn(BATCH.num_nodes, CHANNELS, salt=3), 1e-6
    _, derivative = torch.func.jvp(call, (x,), (tangent,))
    quotient = (call(x + step * tangent) - call(x - step * tangent)) / (2 * step)
    assert float(quotient.detach().abs().max()) > 1e-2
    torch.testing.assert_close(derivative, quotient, rtol=0.0, atol=1e-7)


@pytest.mark.parametrize("options", [{}, {"split": False}, {"anchored": False}, {"competition": True}], ids=str)
@pytest.mark.parametrize("num_graphs", [None, 3])
def test_a_batch_without_nodes_has_finite_derivatives_in_every_parameter(
    options: dict[str, bool], num_graphs: int | None
) -> None:
    module = SlotVirtualNode(CHANNELS, 3, heads=2, integrate="global_film", **options).double()
    x, batch = torch.zeros(0, CHANNELS, dtype=torch.float64), torch.zeros(0, dtype=torch.long)
    call = {"batch": None if num_graphs is None else batch, "num_graphs": num_graphs, "return_state": True}
    parameters = {name: parameter.detach() for name, parameter in module.named_parameters()}

    def inside(parameters: dict[str, Tensor]) -> tuple[Tensor, ...]:
        out, memory = torch.func.functional_call(module, parameters, (x,), call)
        return out, *memory.state, memory.slots

    def loss(parameters: dict[str, Tensor]) -> Tensor:
        content, log_mass, slots = inside(parameters)[1:]
        return content.sum() + log_mass.exp().sum() + slots.square().sum()

    _, tangents = torch.func.jvp(inside, (parameters,), (parameters,))
    _, hessian_product = torch.func.jvp(torch.func.grad(loss), (parameters,), (parameters,))
    assert_finite(*tangents, *hessian_product.values())
    many = {name: torch.stack([parameter, 2 * parameter]) for name, parameter in parameters.items()}
    assert_close(torch.func.vmap(inside)(many)[3][0], inside(parameters)[3])


@EVERY
def test_second_derivatives(name: str) -> None:
    """Forces of a potential are a first derivative, and training on them takes the second."""
    call = function(name)
    assert torch.autograd.gradgradcheck(lambda x: call(x).tanh().sum(), (features().requires_grad_(),))


@EVERY
def test_second_derivatives_of_the_parameters(name: str) -> None:
    module, x, step = MODULES[name]().double(), features().requires_grad_(), 1e-5
    index = BATCH.index()

    def force_loss() -> Tensor:
        (force,) = torch.autograd.grad(module(x, index).tanh().sum(), x, create_graph=True)
        return force.square().sum()

    parameter = max(module.parameters(), key=Tensor.numel)
    (grad,) = torch.autograd.grad(force_loss(), parameter)
    place = int(grad.abs().argmax())
    sides = []
    for sign in (1, -1):
        with torch.no_grad():
            parameter.view(-1)[place] += sign * step
        sides.append(float(force_loss().detach()))
        with torch.no_grad():
            parameter.view(-1)[place] -= sign * step
    assert float(grad.view(-1)[place]) == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-4)


@EVERY
def test_torch_func_agrees_with_autograd(name: str) -> None:
    call, x = function(name), features().requires_grad_()
    (expected,) = torch.autograd.grad(call(x).sin().sum(), x)
    assert_close(torch.func.grad(lambda z: call(z).sin().sum())(x.detach()), expected)
    jacobian = torch.func.jacrev(call)(x.detach())
    assert_close(torch.func.jacfwd(call)(x.detach()), jacobian)


@EVERY
def test_hessian_both_ways(name: str) -> None:
    call = function(name)
    hessian = torch.func.hessian(lambda z: call(z).sin().sum())(features())
    assert_close(hessian, torch.autograd.functional.hessian(lambda z: call(z).sin().sum(), features()))
    assert float(hessian.detach().abs().max()) > 1e-2


@EVERY
def test_gradients_of_the_parameters_per_example(name: str) -> None:
    module, index, many = MODULES[name]().double(), BATCH.index(), torch.stack([features(), features() + 1.0])
    parameters = {key: value.detach() for key, value in module.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(module, parameters, (x, index)).sin().sum()

    grads = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, many)
    alone = torch.func.grad(loss)(parameters, many[1])
    for key, grad in alone.items():
        assert_close(grads[key][1], grad)


@EVERY
@pytest.mark.usefixtures("as_users_run_it")
def test_vmap_over_batches_raises_a_clear_error(name: str) -> None:
    module, index = MODULES[name]().double(), BATCH.index()
    with pytest.raises(ValueError, match="with in_dims=None, or make one batch of all examples"):
        torch.func.vmap(module)(torch.stack([features()] * 2), torch.stack([index, index.flip(0)]))


@EVERY
def test_vmap_over_examples(name: str) -> None:
    call, many = function(name), torch.stack([features(), features() + 1.0])
    batched = torch.func.vmap(call)(many)
    assert_close(batched, torch.stack([call(example) for example in many]))


@EVERY
@TILES
def test_batched_backward_is_the_backward_of_each(name: str, tile: tuple[int, int, int]) -> None:
    call, x = function(name), features()
    with tile_sizes(*tile):
        expected = torch.autograd.functional.jacobian(call, x)
        assert_close(torch.autograd.functional.jacobian(call, x, vectorize=True), expected)
        leaf = x.requires_grad_()
        out = call(leaf)
        rows = torch.eye(out.numel(), dtype=out.dtype).view(-1, *out.shape)

        def pulled(grad: Tensor) -> Tensor:
            return torch.autograd.grad(out, leaf, grad, retain_graph=True)[0]

        assert_close(torch.func.vmap(pulled)(rows).view_as(expected), expected)


@EVERY
@TILES
def test_batched_second_derivatives(name: str, tile: tuple[int, int, int]) -> None:
    call, x = function(name), features()

    def loss(x: Tensor) -> Tensor:
        return call(x).sin().sum()

    with tile_sizes(*tile):
        expected = torch.autograd.functional.hessian(loss, x)
        assert_close(torch.autograd.functional.hessian(loss, x, vectorize=True), expected)


@EVERY
@TILES
def test_a_backward_carries_the_tangent_of_what_it_is_given(name: str, tile: tuple[int, int, int]) -> None:
    """A backward is linear, so that its tangent is the backward of the tangent."""
    call, x = function(name), features().requires_grad_()
    with tile_sizes(*tile), forward_ad.dual_level():
        out = call(x)
        grad, tangent = (torch.randn_like(out) for _ in range(2))
        (product,) = torch.autograd.grad(out, x, forward_ad.make_dual(grad, tangent), retain_graph=True)
        primal, moved = forward_ad.unpack_dual(product)
        for actual, slope in ((primal, grad), (moved, tangent)):
            assert_close(actual, *torch.autograd.grad(out, x, slope, retain_graph=True))


@pytest.mark.parametrize("competition", [False, True], ids=["alone", "competing"])
@pytest.mark.parametrize("integrate", ["film", "linear_film", "residual", "global_film"])
@pytest.mark.parametrize("sizes", [(31,), (13, 11, 12), (40, 1, 0, 2, 1, 1)], ids=["one graph", "even", "uneven"])
def test_tiles_have_the_derivatives_of_the_plain_back_end(
    sizes: tuple[int, ...], integrate: Any, competition: bool
) -> None:
    """First and second derivatives; an input of an op may depend on another input."""
    torch.manual_seed(0)
    module = SlotVirtualNode(8, 3, 2, integrate=integrate, competition=competition, init_std=0.5).double()
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    x = torch.randn(len(batch), 8, dtype=torch.float64, requires_grad=True)
    leaves = [x, *module.parameters()]

    def derivatives(create_graph: bool) -> list[Tensor]:
        loss = (module(x, batch, num_graphs=len(sizes)) ** 2).sum() + sum(0.0 * (leaf**3).sum() for leaf in leaves)
        first = torch.autograd.grad(loss, leaves, create_graph=create_graph)
        if not create_graph:
            return list(first)
        second = torch.autograd.grad(sum((grad**2).sum() for grad in first), leaves)
        return [*(grad.detach() for grad in first), *second]

    with ops.use_backend("plain"):
        expected = derivatives(create_graph=True)
    for way in TILE_SIZES:
        with tile_sizes(*way), ops.use_backend("tiles"):
            for actual in (derivatives(create_graph=True), derivatives(create_graph=False)):
                for one, other in zip(actual, expected, strict=False):
                    assert_close(one, other)


MASKS = {
    "sources": {"sources": torch.arange(len(BATCH.index())) % 3 > 0},
    "targets": {"targets": torch.arange(len(BATCH.index())) % 3 > 0},
    "weights": {"log_weight": torch.where(torch.arange(len(BATCH.index())) == 2, float("-inf"), 0.5).double()},
}


@pytest.mark.parametrize("masks", list(MASKS.values()), ids=list(MASKS))
def test_vmap_with_some_nodes_left_out(masks: dict[str, Tensor]) -> None:
    module = SlotVirtualNode(8, 3, 2, init_std=0.5).double()
    index = BATCH.index()
    many = torch.randn(2, len(index), 8, dtype=torch.float64)

    def call(x: Tensor) -> Tensor:
        return module(x, index, num_graphs=BATCH.num_graphs, **masks)

    assert_close(torch.func.vmap(call)(many), torch.stack([call(example) for example in many]))


@pytest.mark.parametrize("masks", list(MASKS.values()), ids=list(MASKS))
def test_shapes_are_known_without_data_and_with_some_nodes_left_out(masks: dict[str, Tensor]) -> None:
    module = SlotVirtualNode(8, 3, 2).double().to("meta")
    masks = {name: tensor.to("meta") for name, tensor in masks.items()}
    x, batch = torch.randn(len(BATCH.index()), 8, dtype=torch.float64, device="meta"), BATCH.index().to("meta")
    assert module(x, batch, num_graphs=BATCH.num_graphs, **masks).shape == x.shape


def test_a_plan_is_as_it_was_after_a_vmap() -> None:
    module, plan = SlotVirtualNode(8, 3, 2, init_std=0.5).double(), ops.plan(torch.arange(12) % 5)
    for examples in (2, 3):
        many = torch.randn(examples, 12, 8, dtype=torch.float64)
        mapped = torch.func.vmap(lambda x: module(x, plan=plan))(many)
        assert_close(mapped[0], module(many[0], plan=plan))
