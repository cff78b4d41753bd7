"""Records of real graphs -> rows: the setting that a search chose, paired gains, times, published scores."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mooring.suite.chapters import REPORT
from mooring.suite.real.tables import NAMED, choose
from mooring.suite.records import RunRecord, load, write
from mooring.suite.report import documents

build = partial(documents.make_table, REPORT)
find = partial(documents.find, REPORT)

ROOT = Path(__file__).parents[3]


def save(out: Path, model: str, seed: int, test: float, valid: float, *, title: str, **config: Any) -> None:
    settings = {"dataset": "esol", "learning_rate": 0.001, "epochs": 2, "steps_per_epoch": 600, **config}
    metric = "rmse" if settings["dataset"] == "esol" else "roc_auc"
    rows = [{"epoch": epoch, metric: valid + 1 - epoch} for epoch in range(2)]
    record = RunRecord(
        task="molecules",
        model=model,
        seed=seed,
        preset="full",
        config=settings,
        metrics={"best": {metric: valid}, "final": {f"test/{metric}": test}, "epochs": rows},
        selected_epoch=1,
        diagnostics={"metric": metric},
        wall_seconds=10.0,
        parameters={"total": 201_400, "memory": 100_000},
        git_commit="0123456789abcdef",
        title=title,
        order={"none": 0, "anchored": 1}[model],
    )
    record.write(out / f"{settings['dataset']}-{model}-{settings['learning_rate']}-{seed}.json")


@pytest.fixture
def records(tmp_path: Path) -> Any:
    for seed, (none, ours) in enumerate([(1.00, 0.90), (1.20, 1.08), (1.10, 1.01)]):
        save(tmp_path, "none", seed, none, 1.0, title="No memory")
        save(tmp_path, "anchored", seed, ours, 0.8, title="Anchored")
    # A search at one seed: better on validation or on test, but not what was run at all seeds.
    save(tmp_path, "anchored", 0, 0.1, 0.9, title="Anchored", learning_rate=0.003)
    save(tmp_path, "none", 0, 0.7, 0.75, title="No memory", dataset="hiv")
    return load([tmp_path])


def test_one_change_at_a_time_is_paired_with_the_usual_memory(tmp_path: Path) -> None:
    for seed, (none, usual, changed) in enumerate([(1.0, 0.90, 0.95), (1.2, 1.08, 1.15), (1.1, 1.01, 1.04)]):
        save(tmp_path / "a", "none", seed, none, 1.0, title="No memory", heads=4)
        save(tmp_path / "a", "anchored", seed, usual, 0.8, title="Anchored", heads=4)
        save(tmp_path / "b", "anchored", seed, changed, 0.8, title="Anchored", heads=1)
    table = build("choosing", load([tmp_path]), preset="full")
    better = {row[1]: row[3:5] for row in table.rows}
    assert better == {
        "No memory": ("-0.103 ± 0.038", "–"),
        "Anchored, as it is": ("–", "+0.103 ± 0.038"),
        "heads 1": ("-0.050 ± 0.050", "+0.053 ± 0.014"),
    }


def test_rows_have_paired_gains_and_numbers_of_settings(records: Any) -> None:
    table = build("molecules", records, preset="full")
    names = [column.title for column in table.columns]
    rows = {(row[0], row[1]): dict(zip(names, row, strict=True)) for row in table.rows}
    ours, none = rows["esol, RMSE", "Anchored"], rows["esol, RMSE", "No memory"]
    # Differences .10, .12, .09: their interval is far smaller than that of either model.
    assert ours["Gain"] == "+0.103 ± 0.038"
    assert ours["Test"].startswith("0.997 ± 0.22")
    assert (ours["Settings"], ours["Seeds"], ours["Updates"]) == ("2", "3", "1,200")
    assert (none["Settings"], none["Gain"], none["Score"]) == ("1", "–", "1.173")
    assert "Time" not in names
    assert ours["Score"] == "–"
    assert "arXiv 2005.00687" in none["Model and budget"]
    assert rows["hiv, ROC-AUC, %", "No memory"]["Test"] == "70.0"
    assert rows["hiv, ROC-AUC, %", "No memory"]["Score"] == "75.6"


def test_times_are_those_measured_in_turns_of_one_run(records: Any, tmp_path: Path) -> None:
    rows = [
        {"set": "esol", "memory": "Anchored", "over_no_memory": 0.75, "over_plain_network": 1.5},
        {"set": "esol", "memory": "No memory", "over_no_memory": 1.0, "over_plain_network": 2.0},
    ]
    write(tmp_path / "updates.json", {"schema": 1, "kind": "bench", "name": "updates", "rows": rows})
    table = build("molecules", load([tmp_path]), preset="full")
    at = [column.title for column in table.columns].index("Time")
    assert {(row[0], row[1]): row[at] for row in table.rows} == {
        ("esol, RMSE", "Anchored"): "1.5",
        ("esol, RMSE", "No memory"): "2.0",
        ("hiv, ROC-AUC, %", "No memory"): "–",
    }


def test_the_setting_with_most_seeds_is_chosen_and_then_the_best_on_validation(tmp_path: Path) -> None:
    save(tmp_path, "anchored", 0, 0.1, 0.9, title="Anchored", learning_rate=0.003)
    save(tmp_path, "anchored", 0, 0.5, 0.8, title="Anchored")
    (chosen,) = choose(load([tmp_path]).runs("molecules", "full"))
    assert chosen.test.mean == 0.5
    assert chosen.searched == 2
    # The same validation scores of a metric of which more is better choose the other.
    for rate, test, valid in ((0.003, 0.1, 0.9), (0.001, 0.5, 0.8)):
        save(tmp_path, "anchored", 0, test, valid, title="Anchored", dataset="hiv", learning_rate=rate)
    assert [item.test.mean for item in choose(load([tmp_path]).runs("molecules", "full"))] == [0.5, 0.1]


def test_controls_are_rows_of_their_own_beside_their_own_reference(tmp_path: Path) -> None:
    for control, none, ours in (("none", 1.0, 0.7), ("head", 0.8, 0.75)):
        save(tmp_path / control, "none", 0, none, 1.0, title="No memory", log_size=control)
        save(tmp_path / control, "anchored", 0, ours, 0.9, title="Anchored", log_size=control)
    # One more of the usual kind, so that it is the usual one.
    save(tmp_path / "more", "none", 1, 1.0, 1.0, title="No memory", log_size="none")
    table = build("molecules", load([tmp_path]), preset="full")
    names = [column.title for column in table.columns]
    found = {row[1]: dict(zip(names, row, strict=True)) for row in table.rows}
    assert found["Anchored"]["Gain"] == "+0.300"
    assert found["Anchored (log size head)"]["Gain"] == "+0.050"
    assert {row["Settings"] for row in found.values()} == {"1"}
    assert found["No memory (log size head)"]["Score"] == "–"


def test_readouts_stand_side_by_side(tmp_path: Path) -> None:
    for readout, none, ours, valid in (("mean", 1.0, 0.7, 0.9), ("mean+sum", 0.8, 0.75, 0.92)):
        save(tmp_path / readout, "none", 0, none, 1.0, title="No memory", readout=readout)
        save(tmp_path / readout, "anchored", 0, ours, valid, title="Anchored", readout=readout)
    save(tmp_path / "faster", "anchored", 0, 0.2, 0.95, title="Anchored", readout="mean", learning_rate=0.003)
    records = load([tmp_path])
    table = build("molecules-readouts", records, preset="full")
    assert [column.title for column in table.columns] == ["Set", "Memory", "mean", "mean+sum"]
    assert table.rows == (
        ("esol, RMSE", "No memory", "1.000", "0.800"),
        ("esol, RMSE", "Anchored", "0.700", "0.750"),
    )
    (chosen,) = (row for row in build("molecules", records, preset="full").rows if row[1] == "Anchored")
    assert "0.001, mean" in chosen
    assert "3" in chosen


def test_curves_are_drawn_for_each_set(records: Any) -> None:
    picture: Any = find("figure", "molecules-curves").make(records, {"preset": "full"})
    assert len(picture.panels) == 2
    lines = picture.panels[0].axes[0].lines
    assert len(lines) == 2
    assert [round(float(value), 3) for value in lines[0].get_ydata()] in ([2.0, 1.0], [1.8, 0.8])


@pytest.mark.parametrize(("dataset", "sign"), [("esol", 1), ("hiv", -1)])
def test_the_best_curves_and_no_memory_are_named(tmp_path: Path, dataset: str, sign: int) -> None:
    save(tmp_path, "none", 0, 0.5, 1 + sign, title="No memory", dataset=dataset)
    for place in range(2 * NAMED):
        options: dict[str, Any] = {"title": f"Anchored {place}", "dataset": dataset, "steps_per_epoch": place}
        save(tmp_path / str(place), "anchored", 0, 0.5, 1 + 0.01 * sign * place, **options)
    picture: Any = find("figure", "molecules-curves").make(load([tmp_path]), {"preset": "full"})
    axes = picture.panels[0].axes[0]
    assert len(axes.lines) == 2 * NAMED + 1
    named = {label.get_text() for label in axes.texts}
    assert named == {"No memory", *(f"Anchored {place}" for place in range(NAMED))}


def test_sets_may_be_shown_apart(records: Any) -> None:
    every = build("molecules", records, preset="full").rows
    assert build("molecules", records, preset="full", sets="hiv,esol").rows == every
    assert [row[0] for row in build("molecules", records, preset="full", sets="hiv").rows] == ["hiv, ROC-AUC, %"]
    with pytest.raises(ValueError, match="table 'molecules': no run on 'lippo', expected some of esol, hiv, or 'all'"):
        build("molecules", records, preset="full", sets="lippo")
