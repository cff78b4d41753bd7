"""Write the file of tasks and modules that `mooring list` prints and a shell completes; a test compares it.

python tools/listing.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent.parent / "src"


def collected() -> dict[str, Any]:
    """Return every task and module of the zoo as the file stores them; imports all of them."""
    sys.path.insert(0, str(SOURCE))
    from mooring import zoo
    from mooring.suite.train import list_experiments

    tasks = {
        name: {"preset": task.usual_preset(), "presets": list(task.presets), "models": list(task.models)}
        for name, task in list_experiments().items()
    }
    entries = [zoo.entry(name) for name in zoo.names()]
    return {"tasks": tasks, "zoo": {entry.name: {"title": entry.title, "paper": entry.paper} for entry in entries}}


def as_text(content: dict[str, Any]) -> str:
    """Return the content as JSON with one line per name, so that a change is seen in one line."""
    parts = []
    for kind, entries in content.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
        parts.append(f" {json.dumps(kind)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    (SOURCE / "mooring" / "suite" / "listing.json").write_text(as_text(collected()), encoding="utf-8")
