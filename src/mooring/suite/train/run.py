"""One run from request to record, resumable at any moment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from filelock import FileLock, Timeout
from torch import nn

from mooring.suite.files import remove_leftovers
from mooring.suite.train.checkpoint import Checkpoint, CheckpointStore
from mooring.suite.train.config import to_json
from mooring.suite.train.experiment import Experiment, is_memory
from mooring.suite.train.progress import Monitor
from mooring.suite.train.provenance import git_commit, versions
from mooring.suite.train.record import Record, RecordError
from mooring.suite.train.request import RunRequest

# Long enough for a killed predecessor to let go, short enough not to look like a hang.
LOCK_SECONDS = 10.0


def run_one(request: RunRequest, monitor: Monitor | None = None) -> Record:
    """Train, select, evaluate and write the record; go on where a killed run of the same request stopped.

    A finished run is not run again. The record does not depend on how often the run was killed, except for
    `wall_seconds` and the provenance of the process that finished it. The caller's random state and number of threads
    are left as they were; training uses one thread, because sums over several depend on their number.

    Args:
        request: What to run.
        monitor: Hears of finished epochs and of corrupt checkpoints; by default the latter become warnings.
    """
    experiment = request.experiment()
    with _only_one(request), _one_thread(), torch.random.fork_rng(devices=[]):
        return request.finished(experiment) or _train(request, experiment, monitor or Monitor())


def _train(request: RunRequest, experiment: Experiment, monitor: Monitor) -> Record:
    # Imported late: Lightning takes seconds to load and a finished run does not need it.
    from mooring.suite.train.fit import evaluation, fit
    from mooring.suite.train.module import derive_seed, seed_torch

    store = CheckpointStore(request.folder, request.identity(experiment))
    state = store.load(monitor.note) or Checkpoint()
    seed_torch(derive_seed(experiment.seed, "build"))
    net = experiment.build()
    if not state.done:
        if state.weights:
            _load(net, state.weights, request)
        fit(experiment, net, state, store, monitor, request.devices)
        # Read back rather than passed on: with several devices the weights live in another process.
        state = store.load(monitor.note) or state
    assert state.done
    _load(net, state.best_weights, request)
    with evaluation(net, derive_seed(experiment.seed, "finish")):
        final, diagnostics = experiment.finish(net)
    best = {name: value for name, value in state.history[state.selected_epoch].items() if name != "epoch"}
    counts = {name: parameter.numel() for name, parameter in net.named_parameters()}
    record = Record(
        task=experiment.name,
        model=request.model,
        seed=request.seed,
        preset=request.preset,
        config=to_json(experiment.config),
        metrics={"best": best, "final": final, "epochs": state.history},
        selected_epoch=state.selected_epoch,
        diagnostics=diagnostics,
        wall_seconds=round(state.wall_seconds, 3),
        parameters={
            "total": sum(counts.values()),
            "memory": sum(count for name, count in counts.items() if is_memory(name)),
        },
        versions=versions(),
        git_commit=git_commit(),
        devices=request.devices,
    )
    record.write(request.record_path)
    # Returned as it reads from disk, so that a caller sees the same whether the run is new or finished long ago.
    return Record.read(request.record_path)


def _load(net: nn.Module, weights: dict[str, torch.Tensor], request: RunRequest) -> None:
    try:
        net.load_state_dict(weights)
    except RuntimeError as error:
        raise RecordError(
            f"{request.folder}: its checkpoint does not fit the network ({error}). The code has changed since it was "
            "written; delete the folder to start over."
        ) from error


@contextlib.contextmanager
def _only_one(request: RunRequest) -> Iterator[None]:
    """Hold the run's lock, which the system lets go when the process dies."""
    request.folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(request.folder / "lock", timeout=LOCK_SECONDS)
    try:
        lock.acquire()
    except Timeout:
        raise RecordError(
            f"{request.folder}: another process is training this run. Wait for it, or end it and try again."
        ) from None
    try:
        remove_leftovers(request.folder)
        remove_leftovers(request.record_path.parent, request.record_path.name)
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
