"""The tasks and modules that ``mooring list`` prints and a shell completes, from a file: to import them takes seconds.

``python -m mooring.suite.listing`` writes the file anew; a test compares it with what is registered.
"""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import typer

from mooring.suite.terminal import words
from mooring.table import Table

FILE = "listing.json"


def collected() -> dict[str, Any]:
    """Return every task and module of the zoo as the file stores them; imports all of them."""
    from mooring import zoo
    from mooring.suite.train import list_experiments

    tasks = {
        name: {"preset": task.usual_preset(), "presets": list(task.presets), "models": list(task.models)}
        for name, task in list_experiments().items()
    }
    entries = [zoo.entry(name) for name in zoo.names()]
    return {"tasks": tasks, "zoo": {one.name: {"title": one.title, "paper": one.paper} for one in entries}}


@functools.cache
def listed() -> dict[str, Any]:
    """Return the content of the file."""
    return json.loads((files("mooring.suite") / FILE).read_text(encoding="utf-8"))


def tables() -> tuple[Table, Table]:
    """Return the tasks with their presets, and every global module with its paper."""
    tasks = tuple(
        (name, task["preset"], ", ".join(task["presets"]), ", ".join(task["models"]))
        for name, task in listed()["tasks"].items()
    )
    modules = tuple((name, one["title"], one["paper"]) for name, one in listed()["zoo"].items())
    headings = words("task", "default preset", "presets", "models by default")
    return (
        Table("tasks", "tasks: mooring run TASK", headings, tasks),
        Table("zoo", "global modules: --models NAME,...", words("name", "what it is", "paper"), modules),
    )


def complete_task(incomplete: str) -> list[str]:
    """Complete the name of a task."""
    return [name for name in listed()["tasks"] if name.startswith(incomplete)]


def complete_preset(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a preset of the task on the command line."""
    task = listed()["tasks"].get(ctx.params.get("task"), {"presets": []})
    return [name for name in task["presets"] if name.startswith(incomplete)]


def complete_models(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the last of the names between commas: models of the task, then those of the zoo."""
    before, comma, last = incomplete.rpartition(",")
    task = listed()["tasks"].get(ctx.params.get("task"), {"models": []})
    known = dict.fromkeys([*task["models"], *listed()["zoo"]])
    return [f"{before}{comma}{name}" for name in known if name.startswith(last)]


def complete_record(incomplete: str) -> list[str]:
    """Complete the record of a run in this folder."""
    return [name for path in sorted(Path("runs").rglob("*-seed*.json")) if (name := str(path)).startswith(incomplete)]


def as_text(content: dict[str, Any]) -> str:
    """Return the content as JSON with one line per name, so that a change is seen in one line."""
    parts = []
    for kind, entries in content.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
        parts.append(f" {json.dumps(kind)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    Path(str(files("mooring.suite") / FILE)).write_text(as_text(collected()), encoding="utf-8")
