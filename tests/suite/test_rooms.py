"""How much of the package one command passes through."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support import ROOT

# The demo with the smallest preset, in one process: train the default models, then write the page.
DEMO = """
import json
import sys
from pathlib import Path

from mooring.suite.cli import app
from mooring.suite.train import RunRequest, get_experiment, run_one

out = Path(sys.argv[1])
for model in get_experiment("two-radius").models:
    run_one(RunRequest("two-radius", model, 0, "tiny", out=out))
app(["report", str(out), "--out", str(out / "report.html")], standalone_mode=False)
print(json.dumps([name for name in sys.modules if name.partition(".")[0] == "mooring"]), file=sys.stderr)
"""
# A dozen of them are the explorer, with which the page shows the trained memories.
MOST = 84


def test_the_demo_passes_through_few_modules(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", DEMO, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = json.loads(done.stderr.strip().splitlines()[-1])
    assert len(loaded) <= MOST, loaded
    # The run and the report themselves are among them, and what other tasks need is not.
    assert {"mooring.ops.write", "mooring.suite.train.fit", "mooring.suite.two_radius.figures"} <= set(loaded)
    others = (
        "mooring.theory",
        "mooring.audit",
        "mooring.suite.bench",
        "mooring.suite.motifs",
        "mooring.suite.linksets",
    )
    assert [name for name in loaded if name.startswith(others)] == []
