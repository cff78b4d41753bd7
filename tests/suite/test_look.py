"""``mooring look``: what it is pointed at, and what it says of what it cannot look at."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_smiles
from typer.testing import CliRunner

from mooring.suite import cli
from mooring.suite.linksets.data import LinkSettings, collate, generate_many
from mooring.suite.look import load_data, page_of, trained
from mooring.suite.molecules import page_of_model
from mooring.suite.motifs.data import MotifSettings, cached_census
from mooring.suite.motifs.data import collate as collate_motifs
from mooring.suite.train import RunRequest, run_one

OWN = """
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_smiles

def graph():
    return Data(x=torch.ones(5, 16), edge_index=torch.tensor([[0, 1], [1, 2]]))

made = graph()
"""

OWN_TASK = """
from mooring.suite.two_radius.experiment import TwoRadiusExperiment

class Mine(TwoRadiusExperiment):
    name = "mine"
"""


# Importing it leaves a file behind.
FOREIGN = """
from pathlib import Path

from mooring.nn import SlotVirtualNode
from mooring.suite.real.experiment import MoleculeExperiment

Path(__file__).with_name("imported").touch()

def build(spec):
    return SlotVirtualNode(spec.channels, spec.slots, spec.heads)

class Task(MoleculeExperiment):
    pass
"""


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of a short run, with its checkpoints beside it."""
    out = tmp_path_factory.mktemp("runs")
    run_one(RunRequest("two-radius", "anchored", 0, "tiny", {"epochs": 2, "steps_per_epoch": 2}, out))
    (path,) = out.glob("two-radius/*/anchored-seed0.json")
    return path


def test_a_run_is_found_by_its_record_its_folder_and_its_checkpoint(record: Path) -> None:
    folder = record.with_suffix("")
    (*_, checkpoint) = sorted(folder.glob("epoch-*.safetensors"))
    pages = [page_of(str(path)) for path in (record, folder, checkpoint)]
    assert pages[0].html == pages[1].html == pages[2].html
    assert pages[0].title.startswith("two-radius: anchored, seed 0, after epoch ")
    assert pages[0].data["calls"][0]["slots"] == 5
    assert {"identifier", "role", "multiplicity"} <= pages[0].data["graphs"][0]["facts"].keys()


def test_the_weights_are_those_of_the_run(record: Path) -> None:
    net = trained(record).net
    fresh = trained(record).experiment.build()
    name, trained_weight = next(iter(net.state_dict().items()))
    assert bool((trained_weight == trained(record).net.state_dict()[name]).all())
    assert not bool((trained_weight == fresh.state_dict()[name]).all())


def test_a_run_without_a_memory_says_so(tmp_path: Path) -> None:
    run_one(RunRequest("two-radius", "mpnn", 0, "tiny", {"epochs": 1, "steps_per_epoch": 1}, tmp_path))
    (path,) = tmp_path.glob("two-radius/*/mpnn-seed0.json")
    with pytest.raises(ValueError, match="two-radius: mpnn, seed 0, after epoch 1: this model has no memory to show"):
        page_of(str(path))


def test_a_run_without_weights_says_so(record: Path, tmp_path: Path) -> None:
    alone = tmp_path / "two-radius" / "tiny" / record.name
    alone.parent.mkdir(parents=True)
    shutil.copy(record, alone)
    with pytest.raises(ValueError, match="has no checkpoint, so there are no weights"):
        page_of(str(alone))
    with pytest.raises(ValueError, match="not the folder of a run"):
        page_of(str(tmp_path))


def test_a_run_of_ones_own_experiment_is_found_by_its_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_look_task.py").write_text(OWN_TASK)
    monkeypatch.syspath_prepend(tmp_path)
    run_one(RunRequest("own_look_task:Mine", "anchored", 0, "tiny", {"epochs": 1, "steps_per_epoch": 1}, tmp_path))
    (path,) = tmp_path.glob("mine/*/anchored-seed0.json")
    assert page_of(str(path), task="own_look_task:Mine").title.startswith("mine: anchored, seed 0, after epoch 1")
    with pytest.raises(ValueError, match=r"unknown task 'mine'; .* add --task package\.module:ClassName\."):
        page_of(str(path))
    with pytest.raises(ValueError, match="a run of 'mine', but --task two-radius is called 'two-radius'"):
        page_of(str(path), task="two-radius")


def test_the_weights_of_another_run_are_refused(record: Path, tmp_path: Path) -> None:
    other = tmp_path / "two-radius" / "tiny" / "anchored-seed1"
    shutil.copytree(record.with_suffix(""), other)
    with pytest.raises(ValueError, match=r"made with seed=0, but this run asks for seed=1\. Its weights are not those"):
        page_of(str(other))


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The record of a run whose model is ``foreign_memory:build``, a module that is on the path and not imported."""
    (tmp_path / "foreign_memory.py").write_text(FOREIGN)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    run_one(RunRequest("molecules", "foreign_memory:build", 0, "tiny", {"epochs": 1}, tmp_path / "runs"))
    del sys.modules["foreign_memory"]
    (tmp_path / "imported").unlink()
    yield from tmp_path.glob("runs/molecules/*/foreign_memory@build-seed0.json")
    sys.modules.pop("foreign_memory", None)


@pytest.mark.parametrize(("command", "target"), [("look", ""), ("look", "folder"), ("report", "all"), ("draw", "")])
def test_no_file_names_code_to_import(foreign: Path, tmp_path: Path, command: str, target: str) -> None:
    path = {"": foreign, "folder": foreign.with_suffix(""), "all": foreign.parent}[target]
    arguments = [command, str(path), "--out", str(tmp_path / "out.svg")]
    refused = CliRunner().invoke(cli.app, arguments)
    said = refused.output + str(refused.exception or "")
    assert f"{foreign if target == 'all' else path}: its model is 'foreign_memory:build'" in said
    assert "add --trust." in said
    assert not (tmp_path / "imported").exists()
    trusting = CliRunner().invoke(cli.app, [*arguments, "--trust"])
    assert trusting.exit_code == 0, trusting.output
    assert (tmp_path / "imported").exists()


def test_the_weights_of_code_that_was_edited_are_refused(foreign: Path, tmp_path: Path) -> None:
    (tmp_path / "foreign_memory.py").write_text(FOREIGN + "# edited\n")
    with pytest.raises(ValueError, match=r"made with foreign_memory\.py of hash .* Its weights are not those"):
        page_of(str(foreign), trust=True)


@pytest.mark.parametrize("options", [[], ["--trust"]])
def test_no_file_names_a_task_to_import(foreign: Path, tmp_path: Path, options: list[str]) -> None:
    content = json.loads(foreign.read_text())
    foreign.write_text(json.dumps({**content, "task": "foreign_memory:Task", "model": "anchored"}))
    done = CliRunner().invoke(cli.app, ["look", str(foreign), *options])
    assert "unknown task 'foreign_memory:Task'" in str(done.exception)
    assert "add --task package.module:ClassName." in str(done.exception)
    assert not (tmp_path / "imported").exists()


def test_a_module_by_name_with_data_from_a_file_or_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_look_data.py").write_text(OWN)
    graph = Data(x=torch.randn(7, 16), edge_index=torch.tensor([[0], [1]]))
    torch.save([graph, graph], tmp_path / "graph.pt")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    named = ("own_look_data:graph", "own_look_data:made")
    for data, target in (("graph.pt", "mooring.nn:SlotVirtualNode"), *((name, "zoo.anchored") for name in named)):
        monkeypatch.setattr(sys, "argv", ["mooring", "look", target, "--data", data, "--arg", "slots=3"])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
        assert "page: look.html" in capsys.readouterr().out
    text = (tmp_path / "look.html").read_text(encoding="utf-8")
    assert "zoo.anchored" in text
    assert "(3 slots)" in text


@pytest.mark.parametrize(
    ("target", "data", "says"),
    [
        ("mooring.nn:SlotVirtualNode", None, "needs --data"),
        ("zoo.none", None, "builds no module"),
        ("somewhere", None, "neither a file, a folder nor of the form"),
        ("mooring.nn:SlotVirtualNode", "nothing.pt", "is neither a file nor of the form"),
        ("math:sqrt", "x:y", "no nn.Module to look into"),
        ("zoo.anchored", "math:pi", "look: --data math:pi: data is float, expected torch_geometric Data"),
        ("zoo.anchored", "math:sqrt", "look: --data math:sqrt cannot be called without arguments"),
    ],
)
def test_what_is_typed_wrongly_is_explained(target: str, data: str | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        page_of(target, data, arguments={} if target == "math:sqrt" else {"slots": 3})


def test_a_file_of_something_else_runs_no_code(tmp_path: Path) -> None:
    path = tmp_path / "evil.pt"
    torch.save({"run": print}, path)
    with pytest.raises(ValueError, match="not a file of PyG data"):
        load_data(str(path))


def test_batches_of_the_other_tasks_can_be_drawn() -> None:
    settings = MotifSettings()
    motifs = collate_motifs(cached_census(settings, "train", 3, 0), torch.arange(3).numpy(), settings.num_types)
    data = motifs.to_data()
    assert data.num_nodes == len(motifs.batch)
    assert data.planted is motifs.planted
    links = LinkSettings(nodes=(5, 7), larger_nodes=(8, 9))
    batch = collate(generate_many(links, "train", 2, 0, workers=1), torch.arange(2).numpy(), links.sectors)
    drawn = batch.to_data()
    assert drawn.edge_index.size(1) == int(batch.target.sum())
    assert drawn.pos is batch.position


def test_a_batch_that_is_no_pyg_data_asks_for_data(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.suite.two_radius.experiment.TwoRadiusExperiment.train_batch", lambda *_: {"x": 1})
    with pytest.raises(ValueError, match=r"a training batch of two-radius is not PyG data .*dict.* --data"):
        page_of(str(record))


def test_a_folder_of_runs_lists_a_command_for_each(record: Path, tmp_path: Path) -> None:
    runs = record.parents[2]
    found = CliRunner().invoke(cli.app, ["look", str(runs)])
    assert found.stdout.splitlines() == [f"mooring look {record}"]
    again = CliRunner().invoke(cli.app, [*found.stdout.split()[1:], "--out", str(tmp_path / "page.html")])
    assert again.exit_code == 0
    assert (tmp_path / "page.html").is_file()
    (tmp_path / "runs").mkdir()
    empty = CliRunner().invoke(cli.app, ["look", str(tmp_path / "runs")])
    assert "has no run with weights to look at. Train one with `mooring run TASK" in str(empty.exception)


@pytest.fixture
def molecules(tmp_path: Path) -> Path:
    """The folder of a model of `mooring train`."""
    pytest.importorskip("rdkit", reason="SMILES are read with RDKit: pip install 'mooring[molecules]'")
    rows = [f"{'C' * length}O,{length}" for length in range(1, 21)]
    (tmp_path / "chains.csv").write_text("\n".join(["smiles,logS", *rows]))
    size = ["--channels", "16", "--layers", "2", "--slots", "3", "--epochs", "1"]
    command = ["train", str(tmp_path / "chains.csv"), "--target", "logS", "--out", str(tmp_path / "model"), *size]
    assert CliRunner().invoke(cli.app, command, catch_exceptions=False).exit_code == 0
    return tmp_path / "model"


def test_a_model_of_train_is_shown_on_molecules_of_its_test(molecules: Path, tmp_path: Path) -> None:
    command = ["look", str(molecules), "--audit", "--out", str(tmp_path / "page.html")]
    assert CliRunner().invoke(cli.app, command, catch_exceptions=False).exit_code == 0
    page = page_of_model(molecules)
    assert page.title == f"{molecules}: logS"
    assert [call["slots"] for call in page.data["calls"]] == [3]
    about = json.loads((molecules / "training.json").read_text())
    assert [graph["total"] for graph in page.data["graphs"]] == [len(smiles) for smiles in about["examples"]]
    assert {symbol for graph in page.data["graphs"] for symbol in graph["symbols"]} == {"C", "O"}


def test_a_model_of_train_is_shown_on_other_data(molecules: Path, tmp_path: Path) -> None:
    torch.save(from_smiles("OCC(O)CO"), tmp_path / "glycerol.pt")
    page = page_of_model(molecules, str(tmp_path / "glycerol.pt"))
    assert [graph["total"] for graph in page.data["graphs"]] == [6]
    about = json.loads((molecules / "training.json").read_text())
    del about["examples"]
    (molecules / "training.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match=r"names no molecules to show\. Pass --data, or train"):
        page_of_model(molecules)


def test_the_folder_of_data_reaches_a_run(record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORING_DATA", "elsewhere")
    options = ["--data-dir", str(tmp_path), "--out", str(tmp_path / "page.html")]
    assert CliRunner().invoke(cli.app, ["look", str(record), *options]).exit_code == 0
    assert os.environ["MOORING_DATA"] == str(tmp_path)
