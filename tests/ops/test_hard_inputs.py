"""Edge cases of the inputs: forward and backward are finite."""

import pytest
import torch
from torch import Tensor

from mooring import ops
from mooring.ops import reference
from mooring.ops.backend import Backend
from support import WAYS, Ragged, assert_close, assert_finite, assert_same_in_halves, tile_sizes, with_gradients

from cases import HEADS, SLOTS, VDIM, read_inputs, reader, write_inputs, writer  # isort: skip


def backward(*outputs: Tensor) -> None:
    sum(torch.where(output.isfinite(), output, 0.0).sum() for output in outputs).backward()  # type: ignore[union-attr]


def leaves(*tensors: Tensor) -> list[Tensor]:
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


def assert_nothing_written(state: ops.SlotState) -> None:
    assert not bool(state.content.any())
    assert bool(state.log_mass.isneginf().all())


@pytest.mark.parametrize("num_graphs", [0, 1, 3])
def test_zero_nodes(num_graphs: int) -> None:
    batch = Ragged((0,), True, seed=1)
    query, key, value = leaves(*write_inputs(batch, "shared"))
    state = ops.write(query, key, value, batch.index(), num_graphs=num_graphs)
    assert state.content.shape == (num_graphs, SLOTS, HEADS, VDIM)
    assert_nothing_written(state)
    backward(*state)
    assert query.grad is not None
    assert not bool(query.grad.any())


def test_zero_nodes_without_index_are_one_empty_graph() -> None:
    batch = Ragged((0,), True, seed=1)
    assert_nothing_written(ops.write(*write_inputs(batch, "separate heads")))
    assert ops.read(*read_inputs(batch, "separate heads")).shape == (0, HEADS, VDIM)


@pytest.mark.parametrize("num_graphs", [None, 1, 3])
@pytest.mark.parametrize("form", ["shared", "separate heads"])
def test_zero_nodes_have_zero_tangents_and_second_derivatives(form: str, num_graphs: int | None) -> None:
    batch = Ragged((0,), True, seed=1)
    query, key, value = write_inputs(batch, form)
    index = None if num_graphs is None else batch.index()

    def write(query: Tensor) -> tuple[Tensor, Tensor]:
        return tuple(ops.write(query, key, value, index, num_graphs=num_graphs))

    def mass(query: Tensor) -> Tensor:
        content, log_mass = write(query)
        return content.sum() + log_mass.exp().sum()

    for tangent in torch.func.jvp(write, (query,), (query,))[1]:
        assert not bool(tangent.any())
    for mapped, state in zip(torch.func.vmap(write)(query.expand(2, *query.shape)), write(query), strict=True):
        assert torch.equal(mapped, state.expand(2, *state.shape))
    assert not bool(torch.func.hessian(mass)(query).any())


def test_empty_graphs_in_the_middle() -> None:
    batch = Ragged((3, 0, 0, 5, 0), True, seed=1)
    inputs = leaves(*write_inputs(batch, "separate heads"))
    state = ops.write(*inputs, batch.index(), num_graphs=batch.num_graphs)
    for graph in (1, 2, 4):
        assert_nothing_written(ops.SlotState(state.content[graph], state.log_mass[graph]))
    backward(*state)
    assert_finite(*(tensor.grad for tensor in inputs))


@pytest.mark.parametrize("how", ["where", "log_weight"])
@pytest.mark.parametrize("indexed", [True, False])
def test_all_sources_masked(how: str, indexed: bool) -> None:
    batch = Ragged((3, 5) if indexed else (8,), False, seed=1)
    inputs = leaves(*write_inputs(batch, "shared"))
    weight = torch.full((8,), float("-inf")).double().requires_grad_()
    state = ops.write(
        *inputs,
        batch.index() if indexed else None,
        where=torch.zeros(8, dtype=torch.bool) if how == "where" else None,
        log_weight=weight if how == "log_weight" else None,
    )
    assert_nothing_written(state)
    backward(*state)
    for tensor in inputs:
        assert tensor.grad is not None
        assert not bool(tensor.grad.any())
    if how == "log_weight":
        assert_finite(weight.grad)


def test_one_node_is_its_own_content() -> None:
    batch = Ragged((1,), True, seed=1)
    query, key, value = write_inputs(batch, "separate heads")
    state = ops.write(query, key, value)
    assert_close(state.content[0], value.expand(SLOTS, -1, -1))
    assert_close(state.log_mass[0], torch.einsum("mhd,nhd->mh", query, key))


@pytest.mark.parametrize("size", [1e4, -1e4])
@pytest.mark.parametrize("tile", WAYS, ids=str)
def test_logits_of_ten_thousand(size: float, tile: tuple[int, int, int]) -> None:
    batch = Ragged((7, 1, 5), False, seed=1)
    query, key, value = write_inputs(batch, "separate heads", torch.float32)
    query, key, value = leaves(query * abs(size) ** 0.5, key * size / abs(size) ** 0.5, value)
    assert float((query.unsqueeze(0) * key.unsqueeze(1)).detach().sum(-1).abs().max()) > 1e4
    with tile_sizes(*tile):
        state = ops.write(query, key, value, batch.index())
        assert_finite(*state)
        context = ops.read(key, query.detach(), state.content, batch.index())
        assert_finite(context)
        backward(*state, context)
    assert_finite(query.grad, key.grad, value.grad)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_half_inputs_have_float32_statistics(dtype: torch.dtype) -> None:
    batch = Ragged((7, 0, 11, 5), False, seed=1)
    half = leaves(*(tensor.to(dtype) for tensor in write_inputs(batch, "separate heads")))
    state = ops.write(*half, batch.index())
    assert state.content.dtype == state.log_mass.dtype == torch.float32
    exact = ops.write(*(tensor.detach().float() for tensor in half), batch.index())
    assert_close(state.content, exact.content)
    context = ops.read(*(tensor.to(dtype) for tensor in read_inputs(batch, "separate heads")), batch.index())
    assert context.dtype == torch.float32
    backward(*state)
    assert [tensor.grad.dtype for tensor in half if tensor.grad is not None] == [dtype] * 3
    assert_finite(*(tensor.grad for tensor in half))


@pytest.mark.parametrize("tile", WAYS, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize(("written", "asked"), [("separate heads", "separate heads"), ("shared", "folded")])
def test_half_inputs_equal_the_oracle(written: str, asked: str, dtype: torch.dtype, tile: tuple[int, int, int]) -> None:
    batch = Ragged((7, 0, 11, 5), False, seed=1)
    with tile_sizes(*tile):
        for make, run, (op, oracle), form in (
            (write_inputs, writer, (ops.write, reference.write), written),
            (read_inputs, reader, (ops.read, reference.read), asked),
        ):
            assert_same_in_halves(run(op, form, batch), run(oracle, form, batch), *make(batch, form, dtype))


@pytest.mark.parametrize("value_dtype", [torch.bfloat16, torch.float32], ids=["value half", "key half"])
def test_keys_and_values_of_mixed_precision(value_dtype: torch.dtype) -> None:
    """Under autocast a linear layer returns half precision, but raw addresses stay in float32."""
    batch = Ragged((7, 0, 11, 5), False, seed=1)
    query, key, value = write_inputs(batch, "separate heads", torch.float32)
    key_dtype = torch.float32 if value_dtype == torch.bfloat16 else torch.bfloat16
    query, key, value = leaves(query, key.to(key_dtype), value.to(value_dtype))
    backward(*ops.write(query, key, value, batch.index()))
    assert_finite(query.grad, key.grad, value.grad)


def test_autocast_does_not_lower_the_statistics() -> None:
    batch = Ragged((7, 5), True, seed=1)
    slots, nodes = (
        write_inputs(batch, "separate heads", torch.float32),
        read_inputs(batch, "separate heads", torch.float32),
    )

    def run(*tensors: Tensor) -> list[Tensor]:
        return [*ops.write(*tensors[:3], batch.index()), ops.read(*tensors[3:], batch.index())]

    exact = with_gradients(run, *slots, *nodes)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = with_gradients(run, *slots, *nodes)
    for actual, expected in zip(rough, exact, strict=True):
        for one, other in zip(actual, expected, strict=True):
            assert_close(one, other)


@pytest.mark.parametrize("graphs", [1, 100_003])
def test_a_million_nodes(graphs: int) -> None:
    nodes = 1_000_003
    x = torch.randn(nodes, 1, 8, requires_grad=True)
    query = torch.randn(2, 1, 8, requires_grad=True)
    index = torch.randint(graphs, (nodes,)) if graphs > 1 else None
    state = ops.write(query, x, x, index, num_graphs=graphs)
    context = ops.read(x, query, state.content, index)
    assert_finite(context)
    backward(*state, context)
    assert_finite(x.grad, query.grad)
    expected = torch.logsumexp((x[:, 0] if index is None else x[index == 0, 0]) @ query[:, 0].T, dim=0)
    assert_close(state.log_mass[0, :, 0], expected)


def test_non_contiguous_tensors() -> None:
    batch = Ragged((7, 0, 11, 5), False, seed=1)
    query, key, value = write_inputs(batch, "separate heads")
    strided = [torch.randn_like(tensor.repeat(2, 1, 1))[::2].copy_(tensor) for tensor in (key, value)]
    turned = query.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    index = torch.stack([batch.index()] * 2, dim=1)[:, 0]
    assert not any(tensor.is_contiguous() for tensor in (*strided, turned, index))
    plain, odd = ops.write(query, key, value, batch.index()), ops.write(turned, *strided, index)
    assert_close(odd.content, plain.content)
    assert_close(odd.log_mass, plain.log_mass)
    q, k, v = read_inputs(batch, "separate heads")
    context = ops.read(
        q.transpose(0, 1).contiguous().transpose(0, 1), k.mT.contiguous().mT, v.mT.contiguous().mT, index
    )
    assert_close(context, ops.read(q, k, v, index))


def test_forward_only_under_no_grad_and_inference_mode() -> None:
    batch = Ragged((7, 5), False, seed=1)
    query, key, value = leaves(*write_inputs(batch, "separate heads"))
    with torch.inference_mode():
        state = ops.write(query, key, value, batch.index())
    assert not state.content.requires_grad
    assert_finite(*state)


def test_scores_far_below_zero_after_a_tile_of_excluded_nodes() -> None:
    """A placeholder for the maximum of no scores must not make later scores underflow."""
    value = torch.arange(1.0, 12.0).view(11, 1, 1)
    log_weight = torch.full((11,), -float("inf"))
    log_weight[5:] = -150.0
    with tile_sizes(2, 3):
        forth = ops.write(torch.zeros(1, 1, 1), torch.zeros(11, 1, 1), value, log_weight=log_weight)
        back = ops.write(torch.zeros(1, 1, 1), torch.zeros(11, 1, 1), value.flip(0), log_weight=log_weight.flip(0))
    for state in (forth, back):
        assert_close(state.content, value[5:].mean().view(1, 1, 1, 1))
        assert_close(state.log_mass, torch.full((1, 1, 1), 6.0).log() - 150.0)


def test_scores_that_overflow_to_minus_infinity_have_no_weight_in_any_order() -> None:
    key = torch.tensor([-3e38, -3e38, -3e38, -100.0, -101.0]).view(5, 1, 1)
    value = torch.arange(5.0).view(5, 1, 1)
    with tile_sizes(2, 3):
        forth = ops.write(torch.full((1, 1, 1), 2.0), key, value)
        back = ops.write(torch.full((1, 1, 1), 2.0), key.flip(0), value.flip(0))
    expected = ops.write(torch.full((1, 1, 1), 2.0), key[3:], value[3:])
    for state in (forth, back):
        assert_close(state.content, expected.content)
        assert_close(state.log_mass, expected.log_mass)


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("how", ["where", "log_weight"])
@pytest.mark.parametrize("form", ["shared", "separate heads"])
@pytest.mark.parametrize("tile", WAYS, ids=str)
def test_an_excluded_node_has_no_influence_even_if_nan(
    tile: tuple[int, int, int], form: str, how: str, poison: float
) -> None:
    batch = Ragged((7, 0, 1, 5), False, seed=3)
    query, key, value = write_inputs(batch, form)
    active, index = batch.mask(), batch.index()
    bad_key, bad_value = (torch.where(active[:, None, None], tensor, poison) for tensor in (key, value))
    log_weight = torch.zeros(batch.num_nodes, dtype=key.dtype)

    def write(query: Tensor, key: Tensor, value: Tensor, log_weight: Tensor) -> ops.SlotState:
        if how == "where":
            return ops.write(query, key, value, index, num_graphs=4, where=active, log_weight=log_weight)
        gone = log_weight.masked_fill(~active, float("-inf"))
        return ops.write(query, key, value, index, num_graphs=4, log_weight=gone)

    def rest(query: Tensor, key: Tensor, value: Tensor, log_weight: Tensor) -> ops.SlotState:
        parts = (tensor[active] for tensor in (key, value, index))
        return ops.write(query, *parts, num_graphs=4, log_weight=log_weight[active])

    with tile_sizes(*tile):
        outputs, grads = with_gradients(write, query, bad_key, bad_value, log_weight)
        expected, expected_grads = with_gradients(rest, query, key, value, log_weight)
    for one, other in zip(outputs, expected, strict=True):
        assert_close(one, other)
    assert_close(grads[0], expected_grads[0])
    for one, other in zip(grads[1:], expected_grads[1:], strict=True):
        # Kept nodes only: the tie of `with_gradients` to every leaf is 0 * NaN at the others.
        assert_close(one[active], other[active])


def test_weights_of_an_excluded_node_are_zero_even_if_nan() -> None:
    batch = Ragged((7, 5), False, seed=3)
    query, key, value = leaves(*write_inputs(batch, "separate heads"))
    active = batch.mask()
    log_weight = torch.where(active, 0.0, -float("inf")).double()
    state = ops.write(query, key, value, batch.index(), log_weight=log_weight)
    bad = torch.where(active[:, None, None], key, float("nan"))
    weights = ops.write_weights(state, query, bad, batch.index(), log_weight=log_weight)
    assert not bool(weights[~active].any())
    weights.square().sum().backward()
    assert_finite(query.grad)


@pytest.mark.parametrize(("graphs", "ids"), [(10**9, [0, 1]), (None, [0, 2**62])])
def test_more_graphs_than_fit_into_memory_raise_before_allocation(graphs: int | None, ids: list[int]) -> None:
    inputs = torch.zeros(8, 4, 16), torch.zeros(2, 4, 16), torch.zeros(2, 4, 16)
    with pytest.raises(ValueError, match=r"num_graphs is \d+, and 2176 bytes for each graph are .* GiB"):
        ops.write(*inputs, torch.tensor(ids), num_graphs=graphs)


@pytest.mark.parametrize("backend", ["tiles", "plain"])
@pytest.mark.parametrize("size", [1e4, -1e4, 1e30, -1e30])
def test_gradients_with_a_log_mass_whose_fraction_is_rounded_away(size: float, backend: Backend) -> None:
    value = torch.arange(4.0).view(4, 1, 1).requires_grad_()
    log_weight = torch.full((4,), size, requires_grad=True)
    with ops.use_backend(backend):
        state = ops.write(torch.zeros(1, 1, 1), torch.zeros(4, 1, 1), value, log_weight=log_weight)
        (state.content + state.log_mass.unsqueeze(-1)).sum().backward()
        weights = ops.write_weights(state, torch.zeros(1, 1, 1), torch.zeros(4, 1, 1), log_weight=log_weight)
    assert value.grad is not None
    assert log_weight.grad is not None
    assert_close(value.grad, torch.full((4, 1, 1), 0.25))
    # The mean of the values is 1.5, so a node's weight moves the content by a quarter of its distance from there.
    assert_close(log_weight.grad, 0.25 * (torch.arange(4.0) - 1.5) + 0.25)
    assert_close(weights, torch.full((4, 1, 1), 0.25))
