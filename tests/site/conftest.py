"""The site, built once as `make docs` does, for all tests that look at it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from support import ROOT


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site; skipped with the reason where it cannot be built."""
    for package in ("material", "mkdocstrings"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install 'mooring[docs]'")
    if shutil.which("npm") is None and not (ROOT / ".cache" / "site").exists():
        pytest.skip("no npm, which brings what formulas are drawn with: install Node.js")
    shared = tmp_path_factory.getbasetemp()
    # Workers of one run share what is above their own folders.
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder = shared / "site"
    with FileLock(shared / "site.lock"):
        if not folder.exists():
            source = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
            environment = {**os.environ, "PYTHONPATH": source, "NO_MKDOCS_2_WARNING": "1", "OMP_NUM_THREADS": "1"}
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-3000:]
    return folder
