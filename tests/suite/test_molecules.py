"""A user's own molecules: what is read, what is said of lines that cannot be, what is trained and kept."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

pytest.importorskip("rdkit", reason="SMILES are read with RDKit: pip install 'mooring[molecules]'")

from mooring.suite.cli import app
from mooring.suite.molecules import MOST_LISTED, Settings, TrainedGNN, read_molecules, train

# Line 1 is the header. A byte order mark, as spreadsheets write it.
TROUBLED = """\ufeffname, smiles ,logS,toxic
a,CCO,1.5,0
b,C1CC,1.0,0
c,CCN,abc,1
d,"CC(=O)O",,1
e,CC

f,,2.0,1
g,c1ccccc1,-0.5,nan
h,[Na+].[Cl-],inf,0
"""


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def chains(path: Path) -> Path:
    """Chains whose value is the number of their oxygens less a tenth of their carbons; one class per value's sign."""
    rows = [
        f"{'C' * carbons}{'O' * oxygens}C,{oxygens - 0.1 * carbons:.1f},{int(oxygens > 2)}"
        for carbons in range(1, 9)
        for oxygens in range(6)
    ]
    return written(path, "\n".join(["smiles,value,class", *rows]))


def test_every_line_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    found = read_molecules(written(tmp_path / "a.csv", TROUBLED), "smiles", ["logS", "toxic"])
    assert found.smiles == ["CCO", "CCN", "CC(=O)O", "c1ccccc1", "[Na+].[Cl-]"]
    assert found.lines == [2, 4, 5, 9, 10]
    assert [graph.num_nodes for graph in found.graphs] == [3, 3, 4, 6, 2]
    expected = [[1.5, 0], [math.nan, 1], [math.nan, 1], [-0.5, math.nan], [math.nan, 0]]
    torch.testing.assert_close(found.labels, torch.tensor(expected, dtype=torch.float64), equal_nan=True)
    assert found.listed() == [
        "line 3: 'C1CC' is not a SMILES that RDKit can read; left out",
        "line 4: logS is 'abc', which is not a number; taken as missing",
        "line 6: has 2 fields, the header 4; left out",
        "line 8: the SMILES is missing; left out",
        "line 10: logS is 'inf', which is not a number; taken as missing",
        "logS: no label in 1 line: 5",
        "toxic: no label in 1 line: 9",
    ]


def test_a_long_list_of_problems_is_cut(tmp_path: Path) -> None:
    lines = "".join("C1CC\n" for _ in range(25))
    found = read_molecules(written(tmp_path / "a.csv", f"smiles\nCCO\n{lines}"), "smiles")
    assert len(found.listed()) == MOST_LISTED + 1
    assert found.listed()[-1] == "... and 15 more lines"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SMILES,y\nCCO,1\n", "has no column 'smiles'; did you mean 'SMILES'?"),
        ("CCO,1\nCCN,2\n", "has no column 'smiles'; its first line is 'CCO,1', which must name the columns."),
        ("smiles,y\nC1CC,1\n", "no molecule could be read from column 'smiles': line 2: 'C1CC'"),
        ("smiles,y\n", "there are no lines below the header"),
    ],
)
def test_a_file_of_which_nothing_can_be_read(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=r"a\.csv: ") as error:
        read_molecules(written(tmp_path / "a.csv", text), "smiles", ["y"])
    assert says in str(error.value)


def test_too_few_labels_and_labels_that_are_all_the_same_are_refused(tmp_path: Path) -> None:
    few = read_molecules(written(tmp_path / "a.csv", TROUBLED), "smiles", ["logS"])
    with pytest.raises(ValueError, match="train: 2 molecules have a label but at least 10 were expected"):
        train(few, ["logS"], Settings(), lambda _: None)
    rows = "".join(f"{'C' * length},7.0\n" for length in range(1, 20))
    same = read_molecules(written(tmp_path / "b.csv", f"smiles,y\n{rows}"), "smiles", ["y"])
    with pytest.raises(ValueError, match="train: y is 7 wherever it is given"):
        train(same, ["y"], Settings(), lambda _: None)


def test_values_are_learned_and_the_model_is_the_same_after_saving(tmp_path: Path) -> None:
    molecules = read_molecules(chains(tmp_path / "a.csv"), "smiles", ["value"])
    state = torch.get_rng_state()
    trained = train(
        molecules, ["value"], Settings(channels=16, layers=2, slots=2, epochs=150, learning_rate=5e-3), lambda _: None
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert trained.kind == "regression"
    assert trained.metrics["test"]["rmse"]["value"] < 0.5 * float(molecules.labels.std())
    trained.save(tmp_path / "model")
    again = TrainedGNN.load(tmp_path / "model")
    torch.testing.assert_close(again.predict(molecules.graphs), trained.predict(molecules.graphs))
    hub = pytest.importorskip("mooring.contrib.hub", reason="pip install 'mooring[hub]'")
    assert repr(hub.PretrainedGNN.from_pretrained(tmp_path / "model")) == repr(again.net).replace(
        "GNN(", "PretrainedGNN(", 1
    )


def test_the_command_goes_from_a_table_to_predictions_for_another(tmp_path: Path) -> None:
    table, other, out = (
        chains(tmp_path / "a.csv"),
        written(tmp_path / "b.csv", "smiles\nCCO\nC1CC\nCOO\n"),
        tmp_path / "out",
    )
    size = ["--channels", "16", "--layers", "2", "--epochs", "3"]
    labels = ["--target", "value", "--target", "class"]
    command = ["train", str(table), *labels, "--predict", str(other), "--out", str(out), *size]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0
    assert "48 molecules" in " ".join(done.output.split())
    assert "b.csv, line 3: 'C1CC' is not a SMILES that RDKit can read; left out" in " ".join(done.output.split())
    about = json.loads((out / "training.json").read_text())
    assert (about["kind"], about["targets"]) == ("regression", ["value", "class"])
    with (out / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["line"], row["smiles"]) for row in rows] == [("2", "CCO"), ("4", "COO")]
    again = tmp_path / "again.csv"
    CliRunner().invoke(app, ["predict", str(out), str(other), "--out", str(again)], catch_exceptions=False)
    assert again.read_text() == (out / "predictions.csv").read_text()


def test_zeros_and_ones_are_classes_and_labels_may_be_missing(tmp_path: Path) -> None:
    text = (
        chains(tmp_path / "a.csv").read_text().replace("CCOC,0.8,0", "CCOC,0.8,").replace("CCOOC,1.8,0", "CCOOC,1.8,NA")
    )
    molecules = read_molecules(written(tmp_path / "b.csv", text), "smiles", ["class"])
    assert len(molecules.missing["class"]) == 2
    trained = train(molecules, ["class"], Settings(channels=16, layers=2, epochs=20), lambda _: None)
    assert trained.kind == "classification"
    assert trained.metrics["molecules"] == {"train": 38, "valid": 4, "test": 4}
    predicted = trained.predict(molecules.graphs)
    assert bool(((predicted >= 0) & (predicted <= 1)).all())


@pytest.mark.parametrize("labels", [["value,value"], ["value", "value"], [","]])
def test_no_label_is_named_twice(tmp_path: Path, labels: list[str]) -> None:
    options = [part for name in labels for part in ("--target", name)]
    done = CliRunner().invoke(app, ["train", str(chains(tmp_path / "a.csv")), *options])
    assert "names of different columns were expected" in str(done.exception)


def test_a_width_that_the_heads_do_not_divide_is_refused_before_training(tmp_path: Path) -> None:
    options = ["--target", "value", "--channels", "30", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["train", str(chains(tmp_path / "a.csv")), *options])
    assert "train: channels is 30 but a multiple of 4 was expected" in str(done.exception)
    assert "Pass 32." in str(done.exception)


def test_metrics_stand_beside_those_of_a_constant(tmp_path: Path) -> None:
    molecules = read_molecules(chains(tmp_path / "a.csv"), "smiles", ["value"])
    settings = Settings(channels=16, layers=1, slots=2, epochs=1)
    trained = train(molecules, ["value"], settings, lambda _: None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        order = torch.randperm(48)
    labels = molecules.labels[order].squeeze(1)
    # Four molecules select the epoch, and the next four are the test.
    error = labels[4:8] - labels[8:].mean()
    expected = {"rmse": error.square().mean().sqrt(), "mae": error.abs().mean()}
    for metric, value in expected.items():
        assert trained.metrics["constant"][metric]["value"] == pytest.approx(float(value), abs=1e-6)
        assert f"{float(value):.3f}" in trained.to_table().to_text(140)
    assert trained.examples == [molecules.smiles[number] for number in order[4:8].tolist()]


def test_a_constant_ranks_nothing(tmp_path: Path) -> None:
    molecules = read_molecules(chains(tmp_path / "a.csv"), "smiles", ["class"])
    trained = train(molecules, ["class"], Settings(channels=16, layers=1, slots=2, epochs=1), lambda _: None)
    assert trained.metrics["constant"]["roc_auc"] == {"class": 0.5}


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no config.json, so it is not a model of `mooring train`"):
        TrainedGNN.load(tmp_path)
