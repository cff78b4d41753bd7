"""One run, from request to record; a killed run can be resumed at any moment."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch
from filelock import Timeout

from mooring.named import suggest
from mooring.suite.files import hold, remove_leftovers
from mooring.suite.records import DEFAULT_HARDWARE, Identity, RecordError, RunRecord, git_commit, record_path, versions
from mooring.suite.records.identity import code_hashes
from mooring.suite.train.checkpoint import Checkpoint, CheckpointStore, load_weights, misfit, optimizer_fault
from mooring.suite.train.config import ConfigError, defaults, flat, override, to_json
from mooring.suite.train.experiment import Experiment, derive_seed, get_experiment, is_memory, seed_torch
from mooring.suite.train.memories import effective_options, idle_options
from mooring.suite.train.view import Monitor

LOCK = "lock"
# Long enough for a killed predecessor to release the lock, short enough not to look like a hang.
LOCK_SECONDS = 10.0
# Between the commits of a run that was resumed with other code.
COMMIT_SEPARATOR = ", then "


@dataclass(frozen=True)
class RunRequest:
    """One run.

    Args:
        task: a registered task, or ``module.path:ClassName``.
        preset: one of the task's presets.
        overrides: config fields to change, as values or as text (:func:`mooring.suite.train.parse_overrides`).
        out: folder of the records.
        devices: processes that train this one run together. Each takes its own batches of every step and gradients are
            averaged, so k devices mean a batch k times as large, and a different run.
        accelerator: ``cpu``, ``cuda``, ``mps``, or ``auto`` for the best one of this machine.
        logger: ``tensorboard``, ``csv`` or ``wandb``, which also receive the metrics; the record stays the same.
    """

    task: str
    model: str
    seed: int
    preset: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    out: Path = Path("runs")
    devices: int = 1
    accelerator: str = "cpu"
    logger: str | None = None

    def to_json(self) -> str:
        """Return the request as one line of text, for another process."""
        return json.dumps({**dataclasses.asdict(self), "out": str(self.out)})

    @classmethod
    def from_json(cls, text: str) -> RunRequest:
        """Read :meth:`to_json` back."""
        content = json.loads(text)
        return cls(**{**content, "out": Path(content["out"])})

    def __str__(self) -> str:
        changes = "".join(f", {name}={value}" for name, value in self.overrides.items())
        return f"{self.task} {self.preset}{changes} {self.model} seed {self.seed}"


@dataclass(frozen=True)
class Run:
    """A request with its experiment, the path of its record, and the preset's values of the changed fields."""

    request: RunRequest
    experiment: Experiment
    record_path: Path
    changed: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """The folder of checkpoints, log and curves while the run is under way."""
        return self.record_path.with_suffix("")

    def require_accelerator(self) -> None:
        """Raise ConfigError if this machine lacks the accelerator; another machine of a cluster may have it."""
        name = self.request.accelerator
        if not _accelerators()[name]:
            where = f"{self.experiment.name} {self.request.preset!r}"
            raise ConfigError(f"{where}: accelerator={name!r}, but torch finds none here. Use 'cpu' or 'auto'.")

    def under_way(self) -> bool:
        """Return whether some process is training this run now, as far as the file system has locks."""
        lock = self.folder / LOCK
        try:
            with hold(lock, 0) if lock.exists() else contextlib.nullcontext():
                return False
        except Timeout:
            return True

    @property
    def identity(self) -> Identity:
        """The facts that a record or checkpoint of this run shares."""
        experiment, request = self.experiment, self.request
        return Identity(
            task=experiment.name,
            model=request.model,
            seed=request.seed,
            config={**to_json(experiment.config), **{name: getattr(request, name) for name in DEFAULT_HARDWARE}},
            data=experiment.data_hash(),
            code=code_hashes(experiment.source_modules()),
            defaults={**defaults(type(experiment.config)), **DEFAULT_HARDWARE},
        )

    def finished(self) -> RunRecord | None:
        """Return the record if the run is finished; RecordError if it belongs to another run or config."""
        if not self.record_path.exists():
            return None
        record = RunRecord.read(self.record_path)
        remedy = f"Use another --out, or delete {self.record_path} and {self.folder} to start over."
        self.identity.require(record.facts(), self.record_path, remedy)
        return record


def resolve(request: RunRequest) -> Run:
    """Look up the names of a request; ConfigError for a preset, a field or a model that does not exist."""
    cls = get_experiment(request.task)
    if request.preset not in cls.presets:
        meant = suggest(request.preset, cls.presets, f"the presets are {', '.join(cls.presets)}.")
        raise ConfigError(f"{cls.name}: unknown preset {request.preset!r}; {meant}")
    if cls.select[1] not in ("max", "min"):
        raise ConfigError(f"{cls.name}: select is {cls.select!r}, expected a metric and 'max' or 'min'.")
    where, preset = f"{cls.name} {request.preset!r}", cls.presets[request.preset]
    config = override(preset, request.overrides, where)
    if request.devices < 1:
        raise ConfigError(f"{where}: devices={request.devices}, expected 1 or more.")
    accelerators = _accelerators()
    if request.accelerator not in ("auto", *accelerators):
        names = ", ".join(accelerators)
        raise ConfigError(f"{where}: unknown accelerator {request.accelerator!r}; expected {names} or auto.")
    if request.accelerator == "auto":
        best = next(name for name in ("cuda", "mps", "cpu") if accelerators[name])
        request = replace(request, accelerator=best)
    # Each variant has a folder, named after the preset and what was changed in it, e.g. full,num_identifiers=50.
    values, usual = flat(config), flat(preset)
    changed = {name: usual[name] for name in sorted(request.overrides) if values[name] != usual[name]}
    variant = ",".join([request.preset, *(f"{name}={_plain(values[name])}" for name in changed)])
    path = record_path(request.out, cls.name, variant, request.model, request.seed)
    return Run(request, cls(config, request.model, request.seed), path, changed)


def _accelerators() -> dict[str, bool]:
    """Return the accelerators by name, and whether torch finds them on this machine."""
    return {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}


def _plain(value: Any) -> str:
    """Return a value as text for the name of a folder, without a path separator.

    >>> _plain(0.5), _plain((1, 2)), _plain("mean+sum"), _plain("../a")
    ('0.5', '1+2', 'mean+sum', '..%2Fa')
    """
    return "+".join(map(_plain, value)) if isinstance(value, tuple) else quote(str(value), safe="+ ")


def run_one(request: RunRequest, monitor: Monitor | None = None) -> RunRecord:
    """Train, select, evaluate and write the record; resume where a killed run of the same request stopped.

    A finished run is not run again. Kills change only `wall_seconds`, `versions` and `git_commit` of the record
    (:func:`join_commits`). The caller's random state and number of threads are restored; training uses one thread,
    because the rounding of sums depends on their number.

    Args:
        request: the run.
        monitor: receives finished epochs and notes, e.g. on a corrupt checkpoint; by default notes become warnings.
    """
    run, monitor = resolve(request), monitor or Monitor()
    run.require_accelerator()
    threads = torch.get_num_threads()
    with _locked(run, monitor), torch.random.fork_rng(devices=[]):
        torch.set_num_threads(1)
        try:
            return run.finished() or _train(run, monitor)
        finally:
            torch.set_num_threads(threads)


@contextlib.contextmanager
def _locked(run: Run, monitor: Monitor) -> Iterator[None]:
    """Hold the lock of a run; RecordError if another process is training it."""
    run.folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            has_locks = stack.enter_context(hold(run.folder / LOCK, LOCK_SECONDS))
        except Timeout:
            raise RecordError(
                f"{run.folder}: another process is training this run. Wait for it, or end it and try again."
            ) from None
        if not has_locks:
            monitor.note(f"{run.folder}: its file system has no locks. Do not start this run a second time meanwhile.")
        remove_leftovers(run.folder)
        remove_leftovers(run.record_path.parent, run.record_path.name)
        yield


def _train(run: Run, monitor: Monitor) -> RunRecord:
    # Imported late: Lightning takes seconds to load and a finished run does not need it.
    from mooring.suite.train.fit import evaluation, fit

    request, experiment, identity = run.request, run.experiment, run.identity
    store = CheckpointStore(run.folder, identity)
    # Before training, since commits made meanwhile do not change the code that trains.
    commit = git_commit()
    state = store.load(monitor.note) or Checkpoint(git_commit=commit)
    state.git_commit = join_commits(state.git_commit, commit)
    seed_torch(derive_seed(experiment.seed, "build"))
    net = experiment.build()
    if not state.done:
        if state.weights:
            load_weights(net, state.weights, run.folder)
            parameters = [each for group in experiment.parameter_groups(net) for each in group["params"]]
            if fault := optimizer_fault(state.optimizer, parameters):
                raise misfit(run.folder, fault)
        elif idle := idle_options(experiment, type(experiment).presets[request.preset], request.overrides):
            monitor.note(
                f"set without effect: {', '.join(idle)}. {experiment.model!r} has no such option or sets it itself; "
                "the record has it under 'config' all the same, and the options as built under 'options'."
            )
        fit(experiment, net, state, store, monitor, request.devices, request.accelerator, request.logger)
        # Read back rather than passed on: with several devices the weights live in another process.
        state = store.load(monitor.note) or state
    assert state.done
    load_weights(net, state.best_weights, run.folder)
    with evaluation(net, derive_seed(experiment.seed, "finish")):
        final, diagnostics = experiment.finish(net)
    best = {name: value for name, value in state.history[state.selected_epoch].items() if name != "epoch"}
    counts = {name: parameter.numel() for name, parameter in net.named_parameters()}
    memory = sum(count for name, count in counts.items() if is_memory(name))
    record = RunRecord(
        **{**identity.facts(), "config": to_json(experiment.config)},
        preset=request.preset,
        metrics={"best": best, "final": final, "epochs": state.history},
        selected_epoch=state.selected_epoch,
        diagnostics=diagnostics,
        wall_seconds=round(state.wall_seconds, 3),
        parameters={"total": sum(counts.values()), "memory": memory},
        versions=versions(),
        git_commit=state.git_commit,
        devices=request.devices,
        accelerator=request.accelerator,
        changed=dict(run.changed),
        options=effective_options(net),
        **experiment.describe(),
    )
    record.write(run.record_path)
    # Read back from disk, so that a caller sees the same whether the run is new or was finished long ago.
    return RunRecord.read(run.record_path)


def join_commits(trained_at: str, resumed_at: str) -> str:
    """Return the commits of a resumed run as one text; a record with more than one commit cannot be published.

    >>> join_commits("a", "a"), join_commits("a-dirty", "b"), join_commits("a, then b", "c")
    ('a', 'a-dirty, then b', 'a, then others, then c')
    >>> join_commits("a, then b", "b")
    'a, then b'
    """
    commits = trained_at.split(COMMIT_SEPARATOR)
    if commits[-1] == resumed_at:
        return trained_at
    return COMMIT_SEPARATOR.join([commits[0], *(["others"] if len(commits) > 1 else []), resumed_at])
