"""A graph distributed over processes has the memory and gradients of the same graph in one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from mooring import ops
from mooring.ops import all_merge
from support import assert_close

from ranks import CASES, Case, run_ranks, step  # isort: skip

# In float64, relative to the largest entry of each tensor.
TOLERANCE = 1e-12
# Tolerance in float32, unless one process is less exact.
SINGLE = 1e-6
ORDERS = 8
WHOLE = ("content", "log_mass")  # every rank has all of it
PER_NODE = ("out", "x")  # every rank has its own nodes' rows
SPLIT_AND_UNEVEN = ("two, uneven", "four, uneven", "four, graphs across ranks")

Results = Callable[[int], list[dict]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return the results of the 2 or 4 ranks, run once."""
    by_world: dict[int, list[dict]] = {}

    def get(world: int) -> list[dict]:
        if world not in by_world:
            folder: Path = tmp_path_factory.mktemp(f"world-{world}")
            by_world[world] = run_ranks(world, folder)
        return by_world[world]

    return get


def gather(case: Case, parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Combine the results of the ranks: gather rows of nodes, sum parameter gradients."""
    owner, whole = case.owner(), {}
    for name in parts[0]:
        if name in PER_NODE:
            whole[name] = torch.empty(case.num_nodes, parts[0][name].size(1), dtype=parts[0][name].dtype)
            for rank, part in enumerate(parts):
                whole[name][owner == rank] = part[name]
        elif name in WHOLE:
            assert all(torch.equal(part[name], parts[0][name]) for part in parts), f"ranks differ in {name}"
            whole[name] = parts[0][name]
        else:
            whole[name] = torch.stack([part[name] for part in parts]).sum(dim=0)
    return whole


def errors(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    """Return the largest difference of each tensor, relative to its largest entry."""
    deviations = {}
    for name, tensor in expected.items():
        assert torch.equal(tensor.isfinite(), actual[name].isfinite()), name
        difference = torch.where(tensor.isfinite(), actual[name] - tensor, 0.0).abs()
        size = torch.where(tensor.isfinite(), tensor, 0.0).abs()
        largest = float(size.max()) if size.numel() else 0.0
        deviations[name] = float(difference.max()) / (largest or 1.0) if size.numel() else 0.0
    return deviations


def compare(results: Results, name: str, dtype: torch.dtype, how: str) -> dict[str, float]:
    case = CASES[name]
    parts = [part[name, dtype, how] for part in results(len(case.shares))]
    if how == "ddp":  # every rank already has the reduced gradients
        parts = [{k: v if k in (*PER_NODE, *WHOLE) else v / len(parts) for k, v in part.items()} for part in parts]
    return errors(gather(case, parts), step(case, dtype))


@pytest.mark.parametrize("name", CASES)
def test_ranks_equal_one_process(results: Results, name: str) -> None:
    deviations = compare(results, name, torch.float64, "merged")
    assert max(deviations.values()) <= TOLERANCE, deviations


@pytest.mark.parametrize("name", CASES)
def test_in_single_precision_ranks_are_as_exact_as_one_process(results: Results, name: str) -> None:
    """Compare with float64. Gradients of the query are small differences of large terms in any case."""
    case = CASES[name]
    parts = [part[name, torch.float32, "merged"] for part in results(len(case.shares))]
    exact = step(case, torch.float64)
    deviations, alone = errors(gather(case, parts), exact), dict.fromkeys(exact, 0.0)
    # How exact one process is depends on the order in which it happens to add its nodes up.
    for seed in range(ORDERS):
        order = torch.randperm(case.num_nodes, generator=torch.Generator().manual_seed(seed))
        back = order.argsort()
        one = step(case, torch.float32, order=order)
        now = errors({name: value[back] if name in PER_NODE else value for name, value in one.items()}, exact)
        alone = {name: max(error, now[name]) for name, error in alone.items()}
    assert {name: error for name, error in deviations.items() if error > max(SINGLE, 3 * alone[name])} == {}


@pytest.mark.parametrize("name", CASES)
def test_data_parallel_gradients_with_the_loss_times_the_ranks(results: Results, name: str) -> None:
    deviations = compare(results, name, torch.float64, "ddp")
    assert max(deviations.values()) <= TOLERANCE, deviations


def test_every_gradient_is_compared_and_alive() -> None:
    tensors = step(CASES["four, uneven"], torch.float64)
    # The anchor's value stands in for what nobody wrote; here somebody did.
    still = {name for name, tensor in tensors.items() if not bool(tensor.any())}
    assert still <= {"update.anchor_value"}, still
    assert len(tensors) == 4 + len(list(CASES["four, uneven"].build(torch.float64, None).parameters()))


@pytest.mark.parametrize("name", SPLIT_AND_UNEVEN)
def test_control_contents_averaged_without_their_masses(results: Results, name: str) -> None:
    deviations = compare(results, name, torch.float64, "averaged")
    assert deviations["log_mass"] <= TOLERANCE
    assert deviations["content"] > 1e-2
    assert deviations["out"] > 1e-3


@pytest.mark.parametrize("name", SPLIT_AND_UNEVEN)
def test_control_a_sum_that_sends_no_gradient_to_other_ranks(results: Results, name: str) -> None:
    deviations = compare(results, name, torch.float64, "one-sided")
    assert deviations["out"] <= TOLERANCE
    assert deviations["x"] > 1e-3
    assert deviations["write.addresses.weight"] > 1e-2


def test_second_derivatives_go_through_the_merge() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        key = torch.randn(7, 1, 3, dtype=torch.float64, requires_grad=True)
        query = torch.randn(2, 1, 3, dtype=torch.float64)

        def score(key: Tensor, merge: bool) -> Tensor:
            state = ops.write(query, key, key)
            state = all_merge(state) if merge else state
            return state.content.sin().sum() + state.log_mass.square().sum()

        grads = [torch.autograd.grad(score(key, merge), key, create_graph=True)[0] for merge in (True, False)]
        seconds = [torch.autograd.grad(grad.sin().sum(), key)[0] for grad in grads]
        assert_close(grads[0], grads[1])
        assert_close(seconds[0], seconds[1])
    finally:
        dist.destroy_process_group()
