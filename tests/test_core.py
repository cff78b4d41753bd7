"""The core without the suite: what `pip install mooring` brings is enough."""

import subprocess
import sys

import pytest

from support import ROOT

SUITE = ("filelock", "jinja2", "lightning", "matplotlib", "pydantic", "rich", "safetensors", "torchmetrics", "typer")

BLOCK = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {SUITE!r} or name == "mooring.suite" and {{allow!r}} is False:
            raise ModuleNotFoundError(f"blocked: {{{{name}}}}", name=name)

# PyG takes jinja2 and rich for what they do not need here, where they are installed.
import torch_geometric.nn
for name in [name for name in sys.modules if name.partition(".")[0] in {SUITE!r}]:
    del sys.modules[name]
sys.meta_path.insert(0, Blocked())
"""

CORE = """
import torch
import mooring
from mooring import audit, models, nn, ops, theory, zoo

# Called before the package of that name is imported, and after.
from torch_geometric.data import Data
graph = Data(x=torch.randn(3, 16), edge_index=torch.tensor([[0, 1], [1, 2]]))
assert "mooring.look" not in sys.modules
pages = [mooring.look(mooring.SlotVirtualNode(16, slots=3), graph) for _ in range(2)]
from mooring.look import Page
assert all(isinstance(page, Page) for page in pages)

x, batch = torch.randn(7, 16), torch.tensor([0, 0, 0, 2, 2, 2, 2])
mooring.SlotVirtualNode(16, slots=3)(x, batch).sum().backward()
ops.write(torch.randn(3, 1, 16), x.unsqueeze(1), x.unsqueeze(1), ops.plan(batch))
assert zoo.build("gmt", zoo.MemorySpec(channels=16, slots=3))(x, batch).shape == x.shape
assert models.GNN(16, 16, 1, conv="GCNConv")(x, torch.tensor([[0], [1]]), batch=batch).shape == (3, 1)
assert "replication" in audit.audit(mooring.SlotAggregation(16, 3), channels=16, trials=1).render()
assert theory.verify(["prop:mass"], 0).passed
print("the core is enough")
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_part_of_the_core_imports_and_runs_without_the_suite() -> None:
    done = run(BLOCK.format(allow=False) + CORE)
    assert "the core is enough" in done.stdout, done.stderr


def test_the_command_says_in_a_line_what_to_install() -> None:
    done = run(BLOCK.format(allow=True) + "from mooring.__main__ import main\nmain()")
    assert done.returncode == 1
    assert "pip install 'mooring[suite]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_importing_mooring_loads_neither_torch_nor_pyg() -> None:
    done = run("import sys, mooring; print([name for name in ('torch', 'torch_geometric') if name in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


def test_names_come_when_they_are_asked_for() -> None:
    import mooring

    assert mooring.nn.SlotVirtualNode is mooring.SlotVirtualNode
    assert set(mooring.__all__) <= set(dir(mooring))
    for name in mooring.__all__:
        assert getattr(mooring, name) is not None
    with pytest.raises(AttributeError, match="slotvirtualnode"):
        mooring.slotvirtualnode  # noqa: B018
