"""Import budget of the demo, as `tools/house.py` measures it."""

from __future__ import annotations

import sys

from support import ROOT

sys.path.insert(0, str(ROOT / "tools"))

from house import demo_modules

# A dozen of them are the explorer, with which the page shows the trained memories.
MOST = 81


def test_the_demo_imports_few_modules() -> None:
    modules = demo_modules()
    assert len(modules) <= MOST, modules
    # Proof that the demo has trained and reported.
    assert {"mooring.ops.write", "mooring.suite.train.fit", "mooring.suite.two_radius.figures"} <= set(modules)
    others = ("theory", "audit", "suite.bench", "suite.motifs", "suite.linksets")
    assert [name for name in modules if name.startswith(tuple(f"mooring.{other}" for other in others))] == []
