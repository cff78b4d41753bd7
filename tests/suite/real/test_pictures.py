"""Pictures of molecules: shares, masses, counts and the command that draws them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from mooring.nn import SlotVirtualNode
from mooring.suite.cli import app
from mooring.suite.real import pictures
from mooring.suite.real.data import generated_graphs
from mooring.suite.real.pictures import counted, draw, written
from mooring.suite.train import RunRequest, resolve, run_one
from support import Ragged


def test_an_atom_shares_out_what_it_writes_by_the_exponentials_of_its_scores() -> None:
    batch = Ragged((5, 3), True, seed=1)
    memory = SlotVirtualNode(8, slots=3, heads=1).double()
    x = batch.randn(8, 8)
    _, state = memory(x, batch.index(), return_state=True)
    found = written(state, batch.index())
    query, key = memory.write.score_parts(x, None)
    scores = torch.einsum("mhd,nhd->nm", query, key.expand(-1, 1, -1))
    assert np.allclose(found.share, scores.softmax(dim=1).detach().numpy())
    assert np.allclose(found.log_mass[0], scores[:5].logsumexp(dim=0).detach().numpy())


def test_a_slot_that_holds_a_count_is_found() -> None:
    graphs = generated_graphs(40)
    numbers = np.arange(40)
    sizes = np.diff(graphs.node_start).astype(np.float64)
    log_mass = np.stack([np.log1p(sizes), np.zeros(40)], axis=1)
    found = counted(graphs, numbers, log_mass)
    assert found["atoms"] == pytest.approx([1.0, 0.0])
    assert abs(found["N"][0]) < 0.9


def test_every_atom_has_a_place_with_rdkit_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = generated_graphs(5)
    nodes, edges = slice(*graphs.node_start[2:4]), slice(*graphs.edge_start[2:4])
    given = graphs.x[nodes], graphs.edge[edges], graphs.edge_attr[edges]
    found = pictures.positions(*given)
    assert found.shape == (len(given[0]), 2)
    assert len(np.unique(found.round(6), axis=0)) == len(found)
    if importlib.util.find_spec("rdkit"):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        assert not np.allclose(pictures.positions(*given), found)


def test_the_command_draws_a_run(tmp_path: Path) -> None:
    request = RunRequest("molecules", "anchored", 0, "tiny", {}, tmp_path)
    run_one(request)
    record, out = resolve(request).record_path, tmp_path / "drawn.svg"
    done = CliRunner().invoke(app, ["draw", str(record), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "<svg" in out.read_text()
    # Three molecules above their masses, and what the slots count.
    figure: Any = draw(record, [0, 3], layer=0)
    bars = figure.axes[3].patches
    assert len(bars) == 3
    assert [axes.get_title(loc="left").split(",")[0].split()[0] for axes in figure.axes[:2]] == ["generated"] * 2
    for wrong, words in ((([99], None), "expected some of 0 to"), (([0], 7), "only behind 0, 1")):
        with pytest.raises(ValueError, match=words):
            draw(record, *wrong)


def test_a_run_without_slots_is_refused(tmp_path: Path) -> None:
    for task, model, words in (("nodes", "anchored", "expected molecules"), ("molecules", "plain", "has no memory")):
        request = RunRequest(task, model, 0, "tiny", {"epochs": 1}, tmp_path)
        run_one(request)
        with pytest.raises(ValueError, match=words):
            draw(resolve(request).record_path)
    with pytest.raises(ValueError, match="no slots that nodes write to"):
        written(None, torch.zeros(3))  # type: ignore[arg-type]
