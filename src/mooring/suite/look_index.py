"""The runs in a folder that ``mooring look`` can be pointed at."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

RUN = re.compile(r".+-seed\d+")


def is_run(folder: Path) -> bool:
    """Return whether a folder is that of one run, by its name."""
    return RUN.fullmatch(folder.absolute().name) is not None


def commands_for(folder: Path) -> list[str]:
    """Return a command for each run below a folder that has weights to look at, newest first.

    Raises:
        ValueError: If there are none.
    """
    runs = {path.parent for path in folder.rglob("epoch-*.safetensors") if is_run(path.parent)}
    if not runs:
        raise ValueError(
            f"look: {folder} has no run with weights to look at. Train one with `mooring run TASK --out {folder}`, or "
            "name another folder."
        )
    commands = []
    for run in sorted(runs, key=lambda run: (-run.stat().st_mtime, run)):
        record = run.with_name(f"{run.name}.json")
        # A record writes the colon of package.module:Name as an at sign.
        trust = " --trust" if "@" in run.name else ""
        commands.append(f"mooring look {shlex.quote(str(record if record.exists() else run))}{trust}")
    return commands
