"""Kill tiny trainings at random moments, resume them, and compare their records with those of undisturbed runs.

The moments fall anywhere between the start of a process and its end: while it builds the data, trains, writes a
checkpoint or the record. A record must come out bit by bit the same, but for what says when and by whom it was made.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import shutil
import signal
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from parts import PARTS, Part

from mooring.suite.train import RunRequest, resolve

# Task -> model and changes to its tiny preset: epochs enough to be killed several times.
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "two-radius": ("anchored", {"epochs": 11}),
    "motifs": ("anchored", {"epochs": 11}),
    "linksets": ("anchored", {"epochs": 7}),
}
PROVENANCE = ("wall_seconds", "git_commit", "versions")
START_METHOD = "forkserver"


def train(request: str) -> None:
    """Run a request with a checkpoint after every epoch; the target of the processes that are killed."""
    from mooring.suite.train import fit, run_one

    fit.SECONDS_BETWEEN_CHECKPOINTS = 0.0
    run_one(RunRequest.from_json(request))


def start(request: RunRequest) -> BaseProcess:
    # The fork server imports once, so that a process is killed while it works rather than while it imports.
    context = multiprocessing.get_context(START_METHOD)
    context.set_forkserver_preload(
        ["mooring.suite.train.fit", "mooring.suite.two_radius.experiment", "mooring.suite.motifs.experiment"]
    )
    process = context.Process(target=train, args=(request.to_json(),))
    process.start()
    return process


def undisturbed(request: RunRequest) -> float:
    """Run to the end and return the seconds it took."""
    started = time.monotonic()
    process = start(request)
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{request}: the undisturbed run ended with exit code {process.exitcode}. Run it by itself.")
    return time.monotonic() - started


def killed(request: RunRequest, most: int, seconds: float, moments: random.Random) -> int:
    """Start, kill and start again until the run is finished, with at most so many kills; return how many there were."""
    kills = 0
    while True:
        process = start(request)
        if kills < most:
            process.join(moments.uniform(0.0, seconds))
            process.kill()
        process.join()
        if not process.exitcode:
            return kills
        if process.exitcode != -signal.SIGKILL:
            raise RuntimeError(f"{request}: resuming after {kills} kills ended with exit code {process.exitcode}.")
        kills += 1


def differences(one: Path, other: Path) -> list[str]:
    """The fields in which two records differ, to the last bit."""
    first, second = (json.loads(path.read_text(encoding="utf-8")) for path in (one, other))
    names = sorted({*first, *second} - set(PROVENANCE))
    return [name for name in names if json.dumps(first.get(name)) != json.dumps(second.get(name))]


def soak(task: str, number_of_kills: int, seed: int, part: Part, folder: Path) -> dict[str, Any]:
    """One undisturbed run of a task, then the same run killed and resumed again and again, until kills are enough."""
    state = part.load() or {"kills": 0, "runs": 0, "different": [], "seconds": 0.0}
    model, changes = TASKS[task]
    whole, torn = (RunRequest(task, model, seed, "tiny", changes, folder / name) for name in ("undisturbed", "killed"))
    shutil.rmtree(folder, ignore_errors=True)
    undisturbed(whole)
    shutil.rmtree(folder)
    seconds = undisturbed(whole)  # the first one waited for the fork server's imports
    while state["kills"] < number_of_kills:
        started = time.monotonic()
        moments = random.Random(1000 * seed + state["runs"])
        kills = killed(torn, number_of_kills - state["kills"], seconds, moments)
        changed = differences(resolve(whole).record_path, resolve(torn).record_path)
        left = [path.name for path in torn.out.rglob(".*.tmp")]
        if changed or left:
            state["different"].append({"run": state["runs"], "kills": kills, "fields": changed, "left_behind": left})
        shutil.rmtree(torn.out)
        state["kills"] += kills
        state["runs"] += 1
        state["seconds"] = round(state["seconds"] + time.monotonic() - started, 1)
        part.save(state)
    shutil.rmtree(folder, ignore_errors=True)
    return state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, default="two-radius")
    parser.add_argument("--kills", type=int, default=34)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=PARTS, help="folder of the record and of the runs")
    given = parser.parse_args()
    what = {"what": "kills", "task": given.task, "kills": given.kills, "seed": given.seed}
    part = Part(given.out / f"kills-{given.task}-{given.seed}.json", what)
    state = soak(given.task, given.kills, given.seed, part, given.out / f"kills-{given.task}")
    print(f"{given.task}: {state}; record: {part.path}")
    sys.exit(bool(state["different"]))


if __name__ == "__main__":
    main()
