"""The example on molecules: a file of the offline format, and SMILES where rdkit is installed."""

from __future__ import annotations

import importlib.util
import re
import runpy
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from mooring.suite.cli import app
from mooring.suite.real.data import generated_graphs
from mooring.suite.real.data.files import write_set
from support import ROOT

EXAMPLE = ROOT / "examples" / "molecules.py"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("molecules_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "CHANNELS", 16)
    return module


def test_a_data_set_is_learned(
    example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graphs = generated_graphs(150)
    counts = {"n_nodes": np.diff(graphs.node_start), "n_edges": np.diff(graphs.edge_start)}
    arrays = {name: getattr(graphs, name) for name in ("x", "edge", "edge_attr")}
    arrays["y"] = counts["n_nodes"][:, None].astype(np.float32)
    write_set(tmp_path / "tiny.npz", {**arrays, **counts, **graphs.splits})
    monkeypatch.setattr(example, "EPOCHS", 25)
    example.main(tmp_path / "tiny.npz")
    words = capsys.readouterr().out.replace(",", "").split()
    error, constant = float(words[words.index("RMSE") + 1]), float(words[-1])
    assert words[0] == "23"
    assert error < 0.5 * constant


def test_smiles_are_learned(
    example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rdkit", reason="SMILES are read with RDKit")
    chains = [f"{'C' * length}{end},{length}" for length in range(1, 9) for end in ("O", "N", "Cl", "=O", "(F)F")]
    (tmp_path / "chains.csv").write_text("\n".join(chains))
    monkeypatch.setattr(example, "EPOCHS", 2)
    example.main(tmp_path / "chains.csv")
    assert capsys.readouterr().out.startswith("8 held-out molecules: RMSE")


@pytest.mark.parametrize("header", ["smiles,logS", "name,smiles,logS"])
def test_a_table_with_a_header_is_for_the_command(example: ModuleType, tmp_path: Path, header: str) -> None:
    pytest.importorskip("rdkit", reason="SMILES are read with RDKit")
    (tmp_path / "named.csv").write_text(f"{header}\nCCO,1.0\n")
    with pytest.raises(SystemExit, match=r"named\.csv --target COLUMN"):
        example.main(tmp_path / "named.csv")


def test_the_example_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["molecules.py"])
    with pytest.raises(SystemExit, match=r"python examples/molecules\.py FILE"):
        runpy.run_path(str(EXAMPLE), run_name="__main__")


def test_a_model_of_the_command_is_looked_at_as_the_tutorial_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rdkit", reason="SMILES are read with RDKit")
    monkeypatch.chdir(tmp_path)
    rows = [f"{'C' * length}O,{length}" for length in range(1, 21)]
    Path("solubility.csv").write_text("\n".join(["smiles,logS", *rows]))
    trained = ["train", "solubility.csv", "--target", "logS", "--epochs", "1", "--channels", "16", "--layers", "2"]
    assert CliRunner().invoke(app, trained).exit_code == 0
    text = (ROOT / "docs" / "tutorials" / "molecules.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```py\n(.*?)^```", text, flags=re.M | re.S)
    namespace: dict[str, Any] = {}
    exec(block, namespace)
    assert len(namespace["page"].data["graphs"]) == 2
    assert "<title>" in Path("look.html").read_text(encoding="utf-8")


def test_the_example_stays_short() -> None:
    code = EXAMPLE.read_text().split('"""', 2)[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 45
