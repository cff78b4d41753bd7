"""Records of the mesh task -> rows: the best first, routing in words, sizes in columns."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mooring.nn.addresses import TEMPERATURES
from mooring.suite.chapters import REPORT
from mooring.suite.meshes import tables
from mooring.suite.records import RunRecord, load
from mooring.suite.report import documents

build = partial(documents.make_table, REPORT)
SELF = {"routing": "self", "temperature": 0.25}
ORDER = ("plain", "none", "anchored", "physics-attention")


def save(out: Path, model: str, seed: int, error: float, preset: str = "heat", **config: Any) -> None:
    settings = {"epochs": 8, "steps_per_epoch": 250, "learning_rate": 0.001, "slots": 32, "nodes": [400, 700]}
    settings |= {"routing": "free", "temperature": 1.0, **config}
    RunRecord(
        task="meshes",
        model=model,
        seed=seed,
        preset=preset,
        config=settings,
        changed=config,
        metrics={
            "best": {"error": error},
            "final": {f"{split}/error": error * factor for split, factor in (("test", 1.0), ("finer", 1.5))},
            "epochs": [{"epoch": epoch, "error": error * (9 - epoch)} for epoch in range(8)],
        },
        selected_epoch=7,
        wall_seconds=100.0 + seed,
        parameters={"total": 150_000 if model == "plain" else 406_000, "memory": 100_000},
        git_commit="0123456789abcdef",
        title={"anchored": "Anchored Cross-Attn VN", "none": "No memory"}.get(model, model),
        order=ORDER.index(model),
    ).write(out / f"{len(list(out.iterdir()))}.json")


@pytest.fixture
def records(tmp_path: Path) -> Any:
    for seed in range(3):
        save(tmp_path, "none", seed, 0.90 + 0.01 * seed)
        save(tmp_path, "plain", seed, 0.95 + 0.01 * seed)
        save(tmp_path, "anchored", seed, 0.50 + 0.01 * seed)
        save(tmp_path, "anchored", seed, 0.40 + 0.01 * seed, **SELF)
        save(tmp_path, "physics-attention", seed, 0.30 + 0.02 * seed)
    return load([tmp_path])


def test_the_best_memory_comes_first_whichever_it_is(records: Any) -> None:
    table = build("meshes", records, preset="heat")
    names = [column.title for column in table.columns]
    rows = {row[0]: dict(zip(names, row, strict=True)) for row in table.rows}
    ours = "Anchored Cross-Attn VN, self-addressed"
    assert list(rows) == ["physics-attention", ours, "Anchored Cross-Attn VN", "No memory", "plain"]
    assert rows[ours]["Test"] == "41.0 ± 2.5"
    assert rows[ours]["Finer"] == "61.5 ± 3.7"
    assert rows[ours]["Larger"] == "–"
    # Differences of 10, 9 and 8 points: their interval is smaller than that of either row.
    assert (rows[ours]["Behind"], rows["physics-attention"]["Behind"]) == ("+9.0 ± 2.5", "–")
    assert (rows[ours]["Seconds"], rows[ours]["Updates"], rows[ours]["Tries"]) == ("101", "2,000", "1")
    assert not any("Contradicted" in note for note in table.notes)


def test_what_differs_from_the_preset_is_in_its_row_and_counts_as_a_try(records: Any, tmp_path: Path) -> None:
    save(tmp_path, "anchored", 0, 0.2, **SELF, learning_rate=0.003)
    save(tmp_path, "anchored", 0, 0.1, routing="self", temperature=1.0)
    table = build("meshes", load([tmp_path]), preset="heat")
    tries = {row[0]: row[[column.title for column in table.columns].index("Tries")] for row in table.rows}
    name = "Anchored Cross-Attn VN, self-addressed"
    assert {title: tries[title] for title in tries if title.startswith(name)} == {
        name: "3",
        f"{name} (learning rate 0.003)": "3",
        f"{name} (temperature 1)": "3",
    }


def test_temperatures_that_go_without_saying_are_the_defaults() -> None:
    assert tables.TEMPERATURES.items() <= TEMPERATURES.items()


def test_a_row_with_another_budget_contradicts_the_notes(records: Any, tmp_path: Path) -> None:
    save(tmp_path, "none", 3, 0.2, epochs=40)
    table = build("meshes", load([tmp_path]), preset="heat")
    assert any("one budget of updates" in note for note in table.notes)


def test_slots_are_columns_and_nodes_are_rows(tmp_path: Path) -> None:
    for slots, error in ((4, 0.5), (128, 0.3)):
        save(tmp_path, "anchored", 0, error, "nodes", **SELF, slots=slots)
    save(tmp_path, "anchored", 0, 0.8, "nodes", **SELF, slots=4, nodes=[4000, 7000])
    table = build("meshes-sizes", load([tmp_path]), preset="nodes")
    name = "Anchored Cross-Attn VN, self-addressed"
    assert table.rows == (
        (name, "400 to 700", "50.0", "30.0", "2,000", "1"),
        (name, "4,000 to 7,000", "80.0", "–", "2,000", "1"),
    )
    assert not any("Contradicted" in note for note in table.notes)


def test_curves_are_drawn_for_memories_and_not_for_sizes(records: Any, tmp_path: Path) -> None:
    save(tmp_path, "anchored", 0, 0.8, "slots", **SELF, slots=4)
    records = load([tmp_path])
    assert len(tables.curves.shown(records)) == 2
    assert tables.curves.make(records, {"preset": "slots"}) is None
    picture = tables.curves.make(records, {"preset": "heat"})
    (axes,) = picture.panels[0].axes
    ends = {line.get_gid(): line.get_ydata()[-1] for line in axes.lines}
    assert ends["curve:Anchored Cross-Attn VN, self-addressed"] == pytest.approx(100 * (0.40 + 0.41 + 0.42) / 3 * 2)
    assert len(ends) == 5
    assert axes.lines[0].get_xdata().tolist() == list(range(250, 2001, 250))
