"""Two processes over gloo have the gradients of one process, for split batches and split graphs."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from support import assert_close, run_script

from distributed_worker import (  # isort: skip
    SHARDED,
    WORLD,
    Carried,
    batch_of,
    build,
    build_sharded,
    inside_loss,
    loss_of,
)

WORKER = Path(__file__).parent / "distributed_worker.py"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("gloo")
    files = [folder / f"{rank}.pt" for rank in range(WORLD)]
    with ThreadPoolExecutor(WORLD) as pool:
        jobs = [
            pool.submit(run_script, WORKER, str(rank), str(folder / "meet"), str(files[rank])) for rank in range(WORLD)
        ]
        for job in jobs:
            job.result()
    return [torch.load(file) for file in files]


@pytest.mark.parametrize("name", ["anchored", "addressed", "mean"])
def test_ddp_gradients_are_the_mean_over_both_batches(results: list[Any], name: str) -> None:
    module = build(name)
    (sum(loss_of(module, name, rank) for rank in range(WORLD)) / WORLD).backward()  # type: ignore[union-attr]
    for key, parameter in module.named_parameters():
        for rank in range(WORLD):
            assert_close(results[rank][name][key], parameter.grad)  # type: ignore[arg-type]
    alone = build(name)
    loss_of(alone, name, 0).backward()
    some = next(iter(results[0][name]))
    assert not torch.allclose(dict(alone.named_parameters())[some].grad, results[0][name][some]), "the control"  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["fsdp", "carried"])
def test_sharded_layers_and_a_carried_memory(results: list[Any], how: str) -> None:
    """FSDP2 of every Linear and DDP of layers with a carried memory give the mean over both batches."""
    module = build("anchored") if how == "fsdp" else Carried()
    (sum(loss_of(module, how, rank) for rank in range(WORLD)) / WORLD).backward()  # type: ignore[union-attr]
    unused = [key for key, parameter in module.named_parameters() if parameter.grad is None]
    assert unused == ([] if how == "fsdp" else ["layers.1.write.slot"])
    for key, parameter in module.named_parameters():
        for rank in range(WORLD):
            grad = results[rank][how][key]
            assert_close(torch.zeros_like(parameter) if grad is None else grad, _grad(parameter))


@pytest.mark.parametrize("name", list(SHARDED))
def test_sharded_parts_and_everything_that_return_state_gives(results: list[Any], name: str) -> None:
    """FSDP2 of one submodule: others access its parameters only through its methods."""
    module = build_sharded(name)
    (sum(inside_loss(module, name, rank) for rank in range(WORLD)) / WORLD).backward()  # type: ignore[union-attr]
    for key, parameter in module.named_parameters():
        for rank in range(WORLD):
            assert_close(results[rank]["by part"][name][key], _grad(parameter))


def _grad(parameter: torch.nn.Parameter) -> torch.Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def test_one_graph_over_two_processes_is_one_memory(results: list[Any]) -> None:
    module = build("anchored")
    parts = [batch_of(rank)[0] for rank in range(WORLD)]
    x = torch.cat(parts).requires_grad_()
    out = module(x)
    out.square().sum().backward()
    split = [results[rank]["split"] for rank in range(WORLD)]
    assert_close(torch.cat([part["out"] for part in split]), out)
    assert_close(torch.cat([part["x"] for part in split]), x.grad)  # type: ignore[arg-type]
    for key, parameter in module.named_parameters():
        assert_close(split[0][f"parameter {key}"], parameter.grad)  # type: ignore[arg-type]


def test_a_process_without_nodes_receives_the_memory_of_the_others(results: list[Any]) -> None:
    whole = build("anchored").write(batch_of(0)[0]).log_mass
    for rank in range(WORLD):
        assert_close(results[rank]["split"]["one_sided"], whole)
        assert bool(results[rank]["split"]["nobody"].isneginf().all())
