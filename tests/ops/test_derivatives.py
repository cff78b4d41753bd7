"""Every custom op under ``torch.library.opcheck``, and each gradient separately."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from mooring import ops
from support import TILE_SIZES, assert_close, tile_sizes

# Every axis is another prime; the last node takes no part.
GRAPHS, HEADS, SLOTS, DIM, NODES, VDIM = 3, 2, 3, 5, 7, 11
IDS = torch.tensor([0, 0, 1, 1, 1, 2, -1])
# The ops of the Triton back end are registered at its first import, and checked by its tests.
NAMES = {
    name.removeprefix("mooring::")
    for name in torch._C._dispatch_get_all_op_names()
    if name.startswith("mooring::") and "triton" not in name
}


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(dtype)


def write_arguments(dtype: torch.dtype = torch.float32, nodes: int = NODES, graphs: tuple[int, ...] = ()) -> list[Any]:
    key = randn(HEADS, nodes, DIM, dtype=dtype).transpose(0, 1)
    value, weight = randn(nodes, HEADS, VDIM, dtype=dtype), randn(nodes, 1, 1, dtype=dtype)
    return [randn(*graphs, HEADS, SLOTS, DIM, dtype=dtype), key, value, weight, IDS[:nodes], GRAPHS]


def read_arguments(dtype: torch.dtype = torch.float32) -> list[Any]:
    key, value = randn(GRAPHS, 1, SLOTS * HEADS, DIM, dtype=dtype), randn(GRAPHS, 1, SLOTS * HEADS, VDIM, dtype=dtype)
    return [randn(NODES, 1, DIM, dtype=dtype), key, value, IDS, HEADS, False]


def film_arguments(dtype: torch.dtype = torch.float32) -> list[Any]:
    shapes = ((NODES, DIM), (NODES, VDIM), (VDIM, DIM), (VDIM,), (2 * DIM, VDIM), (2 * DIM,))
    return [randn(*shape, dtype=dtype) for shape in shapes]


def map_heads_arguments() -> list[Any]:
    return [randn(GRAPHS, HEADS, SLOTS, DIM).transpose(1, 2), randn(HEADS, DIM, VDIM).transpose(1, 2)]


def write_backward_arguments(*needed: bool) -> list[Any]:
    arguments = write_arguments()
    content, log_mass, tops, rests = torch.ops.mooring.write(*arguments)
    return [torch.ones_like(content), torch.ones_like(log_mass), *arguments[:5], content, tops, rests, list(needed)]


OPERATORS: dict[str, Callable[[], list[Any]]] = {
    "write": write_arguments,
    "write, keys as values": lambda: [randn(1, 6, DIM), randn(NODES, 1, DIM), None, None, None, 1],
    "write, queries of each graph": lambda: write_arguments(graphs=(GRAPHS,)),
    "write, half precision": lambda: write_arguments(torch.bfloat16),
    "write, no nodes": lambda: write_arguments(nodes=0),
    "write_backward": lambda: write_backward_arguments(True, True, True, True),
    "write_backward, some": lambda: write_backward_arguments(False, True, False, True),
    "read": read_arguments,
    "read, half precision": lambda: read_arguments(torch.bfloat16),
    "read_backward": lambda: [randn(NODES, 1, VDIM), *read_arguments(), [True, True, True]],
    "read_backward, some": lambda: [randn(NODES, 1, VDIM), *read_arguments(), [False, True, False]],
    "film": film_arguments,
    "film, half precision": lambda: film_arguments(torch.bfloat16),
    "film_backward": lambda: [randn(NODES, DIM), film_arguments(), [True] * 6],
    "film_backward, some": lambda: [randn(NODES, DIM), film_arguments(), [False, True] * 3],
    "map_heads": map_heads_arguments,
    "map_heads_backward": lambda: [randn(GRAPHS, SLOTS, HEADS, VDIM), *map_heads_arguments(), [True, True]],
    "map_heads_backward, some": lambda: [randn(GRAPHS, SLOTS, HEADS, VDIM), *map_heads_arguments(), [True, False]],
    "count_graphs": lambda: [IDS],
}


def test_every_registered_operator_is_checked() -> None:
    assert len(NAMES) == 9
    assert {name.split(",")[0] for name in OPERATORS} == NAMES


@pytest.mark.parametrize("name", OPERATORS)
def test_registered_operators_pass_opcheck(name: str) -> None:
    """Check schema, autograd registration, fake kernel, and equal results under tracing with dynamic shapes."""
    arguments = OPERATORS[name]()
    if "backward" not in name:
        arguments = [
            item.requires_grad_() if isinstance(item, Tensor) and item.is_floating_point() else item
            for item in arguments
        ]
    torch.library.opcheck(getattr(torch.ops.mooring, name.split(",")[0]).default, tuple(arguments))


INDEX = torch.tensor([2, 0, 1, 0, 2, 2, 2])
EAGER: dict[str, tuple[Callable[..., Any], Callable[[], list[Tensor]]]] = {
    "write": (
        lambda query, key, value, weight: ops.write(query, key, value, INDEX, log_weight=weight),
        lambda: [randn(*shape) for shape in ((SLOTS, HEADS, DIM), (NODES, HEADS, DIM), (NODES, HEADS, VDIM), (NODES,))],
    ),
    "write, keys as values": (
        lambda query, key: ops.write(query, key, key, INDEX),
        lambda: [randn(SLOTS, HEADS, DIM), randn(NODES, 1, DIM)],
    ),
    "write, queries of each graph": (
        lambda query, key, value: ops.write(query, key, value, INDEX),
        lambda: [randn(GRAPHS, SLOTS, HEADS, DIM), randn(NODES, 1, DIM), randn(NODES, 1, VDIM)],
    ),
    "read": (
        lambda query, key, value: ops.read(query, key, value, INDEX),
        lambda: [randn(NODES, HEADS, DIM), randn(GRAPHS, SLOTS, HEADS, DIM), randn(GRAPHS, SLOTS, HEADS, VDIM)],
    ),
    "read, shared keys and residual": (
        lambda query, key, value: ops.read(query, key, value, INDEX, sum_heads=True, residual=True),
        lambda: [randn(NODES, 1, DIM), randn(SLOTS, HEADS, DIM), randn(GRAPHS, SLOTS, HEADS, DIM)],
    ),
    "film": (ops.film, film_arguments),
}


@pytest.mark.parametrize("tile", TILE_SIZES, ids=str)
@pytest.mark.parametrize("name", EAGER)
def test_a_gradient_does_not_depend_on_which_others_are_needed(name: str, tile: tuple[int, int, int]) -> None:
    call, make = EAGER[name]

    def gradients(trained: list[int]) -> list[Tensor | None]:
        inputs = [item.requires_grad_(place in trained) for place, item in enumerate(make())]
        outputs = call(*inputs)
        torch.stack(
            [item.sin().sum() for item in ([outputs] if isinstance(outputs, Tensor) else outputs)]
        ).sum().backward()
        return [item.grad for item in inputs]

    with tile_sizes(*tile):
        together = gradients(list(range(len(make()))))
        for place, expected in enumerate(together):
            alone = gradients([place])
            assert [item is not None for item in alone] == [other == place for other in range(len(alone))]
            assert_close(alone[place], expected)  # type: ignore[arg-type]
