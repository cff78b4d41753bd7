"""Run the tests of the C++ operators on a build that checks every access to memory and every undefined operation."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from parts import PARTS, ROOT, Part

LIBRARIES = ("libasan.so", "libubsan.so")


def build(folder: Path) -> Path:
    """Build the operators with the sanitizers in a copy of their sources; return the folder to import them from."""
    sources = folder / "native"
    shutil.copytree(ROOT / "native", sources, ignore=shutil.ignore_patterns("build", "*.so", "*.egg-info"))
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=sources, check=True, env={**os.environ, "MOORING_NATIVE_SANITIZE": "1"})
    return sources


def preloaded() -> str:
    """Return the runtime libraries, which must be in the process before Python."""
    found = [subprocess.check_output(["cc", f"-print-file-name={name}"], text=True).strip() for name in LIBRARIES]
    return ":".join(found)


def soak(folder: Path) -> dict[str, Any]:
    """Return how many tests ran and the error that ended them, if any."""
    started, sources = time.monotonic(), build(folder)
    # Python itself frees nothing at its end, so leaks are not looked for.
    environment = {"LD_PRELOAD": preloaded(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(sources)}
    check = "import mooring_native; print(mooring_native._spec.origin)"
    environment = {**os.environ, **environment}
    origin = subprocess.check_output([sys.executable, "-c", check], text=True, env=environment, cwd=folder).strip()
    assert origin.startswith(str(sources)), f"{origin} was imported and not the build with sanitizers"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-W", "ignore", "-p", "no:cacheprovider"]
    command += [str(ROOT / "tests" / "ops" / "test_native.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    passed = re.search(r"(\d+) passed", done.stdout)
    output = (done.stdout + done.stderr).strip()
    return {
        "tests": int(passed[1]) if passed else 0,
        "errors": [] if done.returncode == 0 and passed else [output[-2000:]],
        "seconds": round(time.monotonic() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PARTS, help="folder of the record")
    part = Part(parser.parse_args().out / "sanitizers.json", {"what": "sanitizers"})
    state = part.load()
    if state is None:
        with tempfile.TemporaryDirectory() as folder:
            state = soak(Path(folder))
        part.save(state)
    print(f"{state['tests']} tests of the C++ operators under ASan and UBSan, {len(state['errors'])} errors")
    print(*state["errors"], sep="\n")
    sys.exit(bool(state["errors"]))


if __name__ == "__main__":
    main()
