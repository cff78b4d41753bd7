"""Measurements that need a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def ask(module: str, request: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> list[Any]:
    """Run ``python -m module REQUEST`` and return what it prints, one JSON value a line.

    Raises:
        RuntimeError: the process did not end well.
    """
    command = [sys.executable, "-m", module, json.dumps(request)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **(environment or {})}, check=False
    )
    if done.returncode:
        why = " (killed, as a system does that runs out of memory)" if done.returncode == -9 else ""
        raise RuntimeError(f"bench: {module} ended with {done.returncode}{why}: {done.stderr[-500:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]
