"""Records that may be published: those that can be made again.

A record names the commit it was made at. One made with changes that were never committed, or that names no commit or
one that the clone does not have, cannot be made again, so it is refused. So is a run that differs from its preset in a
field that it does not name as changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mooring.suite.records import changed_fields, load, printable, problem, unknown_commits


def refusals(results: Path, presets: Mapping[tuple[str, str], Mapping[str, Any]] | None = None) -> list[str]:
    """One line for each record under the folder that must not be published.

    Args:
        results: folder of the records.
        presets: configuration of each task and preset; a run that differs from it without saying so is refused.
    """
    records = load([results], skip=True)
    problems = {record.path: problem(record) for record in records}
    clean = {record.path: record.name("git_commit") for record in records if not problems[record.path]}
    gone = unknown_commits(results, set(clean.values()))
    problems |= {path: f"this clone has no commit {commit[:10]}." for path, commit in clean.items() if commit in gone}
    refused = [f"{path}: {why} Make it again from a clean commit." for path, why in problems.items() if why]
    for run in records.kind("run"):
        usual, config = (presets or {}).get((run.task, run.preset), {}), run.mapping("config")
        hidden = [name for name in usual.keys() & config.keys() - changed_fields(run) if config[name] != usual[name]]
        refused += [
            f"{run.path}: {name} is {config[name]!r} where preset '{run.preset}' has {usual[name]!r}, and the record "
            "does not name it as changed. Run it again."
            for name in sorted(hidden)[:1]
        ]
    return [*records.notes, *map(printable, refused)]
