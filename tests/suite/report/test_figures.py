"""Figures draw what the records hold; what cannot be drawn is said by file and field."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from mooring.suite.chapters import REPORT
from mooring.suite.motifs.tables import by_count
from mooring.suite.records import Record, RecordError, Records, load
from mooring.suite.report import documents
from mooring.suite.report.drawing import PALETTE, Picture, colours, spread
from mooring.suite.report.groups import Group, group
from mooring.suite.two_radius.maps import in_slot_order, matrix

build = partial(documents.make_table, REPORT)
find = partial(documents.find, REPORT)


@pytest.fixture(scope="module")
def records(everything: Path) -> Records:
    return load([everything])


@pytest.fixture(scope="module")
def counted(records: Records) -> list[Group]:
    return group(records.runs("two-radius", "paper"))


def test_no_caption_names_a_shade_that_a_dark_page_inverts() -> None:
    captions = {name: figure.text for name, figure in REPORT.exhibits("figure").items()}
    assert len(captions) > 10
    assert [name for name, text in captions.items() if "darker" in text or "lighter" in text] == []


def only(kind: str, data: dict[str, Any]) -> Records:
    """Records that hold one alone."""
    return Records((Record(Path("a.json"), kind, data),))


def lines(figure: Figure) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in figure.axes[0].lines]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def draw(name: str, records: Records, /, **options: str) -> Picture | None:
    found = find("figure", name).make(records, options)
    assert found is None or isinstance(found, Picture)
    return found


def drawn(name: str, records: Records, /, **options: str) -> tuple[Figure, ...]:
    picture = draw(name, records, **options)
    assert picture is not None
    return picture.panels


def test_curves_are_means_over_seeds(records: Records, counted: list[Group]) -> None:
    label, count, _ = drawn("learning-curves", records, preset="paper")
    anchored = counted[-1]
    expected = [
        100 * np.mean([run.data["metrics"]["epochs"][epoch]["label"] for run in anchored.runs]) for epoch in range(23)
    ]
    assert any(np.allclose(y, expected) for x, y in lines(label) if len(x) == 23)
    # Chance, the best constant count and the ceiling of a blind model are drawn at their heights.
    assert any(y == pytest.approx([100 / 12] * 2) for _, y in lines(label))
    assert sorted(y[0] for x, y in lines(count) if len(x) == 2) == pytest.approx([100 / 6, 100 / 3])
    assert {"Anchored", "Cross-Attn", "VN", "MPNN", "blind ceiling 33.3", "constant 16.7"} <= set(texts(count))


def test_a_seed_that_stopped_early_keeps_its_last_value(make_run: Callable[..., Any]) -> None:
    runs = []
    for seed, epochs in enumerate((3, 5)):
        data = make_run("vn", seed, 0.1, 0.2, 0.02)
        data["metrics"]["epochs"] = [{"epoch": e, "label": 0.1 * e} for e in range(epochs)]
        runs.append(Record(Path(f"{seed}.json"), "run", data))
    epochs, rows = Group("vn", "", tuple(runs)).curves("label")
    assert epochs == [0, 1, 2, 3, 4]
    assert rows[2] == pytest.approx([0.2, 0.2])
    assert rows[4] == pytest.approx([0.2, 0.4])


def test_the_state_is_compared_with_the_first_scale_whatever_it_is(
    make_run: Callable[..., Any], save: Callable[..., Path]
) -> None:
    distance = {"scales": [2, 3], "max": [0.0, 0.5], "mean": [0.0, 0.1]}
    made = make_run("anchored", 0, 1.0, 1.0, 1.0, diagnostics={"state_distance": distance})
    path = save(made, "anchored.json")
    (figure,) = drawn("state-distance", load([path.parent]), preset="paper")
    assert figure.axes[0].get_title(loc="left") == "Distance from the r = 2 state"
    assert [(list(x), list(y)) for x, y in lines(figure) if len(x) == 1] == [([3], [0.5])] * 2
    notes = " ".join(build("two-radius-diagnostics", load([path.parent]), preset="paper").notes)
    assert "of the global state from its r = 2 state" in notes
    made["diagnostics"]["state_distance"] = {"scales": [2], "max": [0.0], "mean": [0.0]}
    save(made, "anchored.json")
    assert draw("state-distance", load([path.parent]), preset="paper") is None


def test_labels_never_overlap(records: Records) -> None:
    for figure in drawn("learning-curves", records, preset="paper"):
        figure.draw_without_rendering()
        boxes = sorted((Text.get_window_extent(text) for text in figure.axes[0].texts), key=lambda box: box.y0)
        assert all(above.y0 >= below.y1 - 0.5 for below, above in pairwise(boxes))


@pytest.mark.parametrize("places", [[0.0, 0.0, 0.0], [95.0, 99.0, 100.0], [3.0, 50.0, 51.0, 52.0]])
def test_spread_keeps_order_gap_and_room(places: list[float]) -> None:
    moved = spread(places, 10.0, 100.0)
    assert all(b - a >= 10 - 1e-9 for a, b in pairwise(moved))
    assert min(moved) >= 0
    assert max(moved) <= 100


def test_state_distance_is_logarithmic_and_leaves_out_models_without_a_state(records: Records) -> None:
    (figure,) = drawn("state-distance", records, preset="paper")
    assert figure.axes[0].get_yscale() == "log"
    assert "MPNN" not in texts(figure)
    assert {"VN", "Cross-Attn", "Anchored", "rounding error"} <= set(texts(figure))
    assert all(x[0] != 1 for x, _ in lines(figure) if len(x) == 2 and x != [0, 1])
    stateless = Records(tuple(run for run in records.runs("two-radius") if run.model == "mpnn"))
    assert draw("state-distance", stateless, preset="paper") is None


def test_a_model_keeps_its_colour_where_others_are_left_out(records: Records) -> None:
    inks = colours(["mpnn", "vn", "cross-attn", "anchored"])
    assert inks == dict(zip(["anchored", "cross-attn", "vn", "mpnn"], PALETTE, strict=False))
    assert len(set(colours(f"my-{i}" for i in range(len(PALETTE))).values())) == len(PALETTE)
    for name in ("learning-curves", "state-distance"):
        found = {text.get_text(): text.get_color() for text in drawn(name, records, preset="paper")[0].axes[0].texts}
        assert [found[model] for model in ("VN", "Anchored")] == [inks["vn"], inks["anchored"]]


def test_heat_maps_sort_slots_into_a_diagonal(records: Records, counted: list[Group]) -> None:
    run = counted[-1].first
    weights = matrix(run, "write_weights", run.items("diagnostics", "write_weights"))
    assert not np.array_equal(weights.argmax(axis=0), np.arange(12))
    ordered = in_slot_order(run, weights)
    assert np.array_equal(ordered.argmax(axis=0), np.arange(12))
    mesh = drawn("write-weights", records, preset="paper")[-1].axes[0].collections[0]
    assert np.allclose(mesh.get_array().reshape(12, 12), ordered)
    assert len(drawn("read-weights", records, preset="paper")) == 2
    assert len(drawn("anchor-weights", records, preset="paper")) == 1


def test_a_broken_table_of_weights_is_named(make_run: Callable[..., Any]) -> None:
    data = make_run("anchored", 0, 1.0, 1.0, 1.0, diagnostics={"write_weights": [[0.5, 0.5], [1.0]]})
    with pytest.raises(RecordError, match=r"^a\.json: field 'diagnostics\.write_weights' is not a table of numbers"):
        draw("write-weights", only("run", data), preset="paper")


def test_confusion_rows_are_shares(records: Records) -> None:
    figure = drawn("count-confusion", records, preset="paper")[-1]
    shares = figure.axes[0].collections[0].get_array().reshape(12, 12)
    sums = shares.sum(axis=1)
    assert sorted(set(np.round(sums, 9))) == [0.0, 1.0]
    # The anchored fixture is never wrong; 5, 7, 10 and 11 are no product of a base number and a scale.
    assert [i + 1 for i in range(12) if shares[i, i] == 0] == [5, 7, 10, 11]


def test_count_by_scale_averages_seeds(records: Records) -> None:
    (figure,) = drawn("count-by-scale", records, preset="paper")
    assert any(y == pytest.approx([100.0, 100.0, 99.9]) for _, y in lines(figure))


def test_capacity_line_is_the_bound(records: Records) -> None:
    (figure,) = drawn("capacity", records)
    bits = math.log2(math.factorial(24))
    found = [(x, y) for x, y in lines(figure) if len(x) > 2]
    for (x, y), each in zip(found, (1, 4, 32), strict=True):
        assert [slots * width * each for width, slots in zip(x, y, strict=True)] == pytest.approx([bits] * len(x))
    assert draw("capacity", Records(tuple(records.runs("two-radius-permutation")[:1]))) is None


def test_motif_error_and_calibration_have_a_panel_each(records: Records) -> None:
    motifs = group(records.runs("motifs"))
    assert len(drawn("motif-error", records, preset="full")) == 3
    points = by_count(motifs[0], "iid")
    runs = [run.data["diagnostics"]["error_by_count"]["iid"]["log_mae"][1] for run in motifs[0].runs]
    assert points[2] == pytest.approx(sum(runs) / 5)
    assert len(drawn("calibration", records, preset="full")) == 4


def test_idea_picture_says_what_the_formula_says() -> None:
    _, anchored = drawn("idea", Records(()))
    heights = [patch.get_height() for patch in anchored.axes[0].patches if patch.get_facecolor()[0] > 0.8]
    # eq:anchored with all logits zero: the anchor's share is 1 / (1 + 2 r).
    assert heights == pytest.approx([1 / 3, 1 / 5, 1 / 7])


def test_series_of_another_length_is_refused() -> None:
    part = {"x": [1, 2, 3], "lines": [{"label": "a", "y": [1, 2]}], "xlabel": "n", "ylabel": "t", "log": ""}
    message = r"^a\.json: line 'a' has 2 values but x has 3\. Give one value per position\.$"
    with pytest.raises(RecordError, match=message):
        draw("bench", only("bench", {"name": "s", "series": [part]}), name="s")


def test_files_and_inline_drawings(tmp_path: Path) -> None:
    picture = draw("idea", Records(()))
    assert picture is not None
    assert [path.name for path in picture.write(tmp_path)] == ["idea-1.svg", "idea-2.svg"]
    (png, _) = picture.write(tmp_path, "png")
    assert png.read_bytes().startswith(b"\x89PNG")
    inline, _ = picture.drawings()[0]
    assert "currentColor" in inline
    assert "<metadata>" not in inline
    # The same records give the same bytes, so that a page in version control changes only with its numbers.
    again = draw("idea", Records(()))
    assert again is not None
    assert inline == again.drawings()[0][0]


def test_wide_vn_is_drawn_against_total_width(save: Any, make_run: Any) -> None:
    # Of two learning rates the better one is drawn.
    for model, slots, both, rate in [
        ("anchored", 3, 0.5, 1e-3),
        ("anchored", 3, 0.25, 1e-4),
        ("anchored", 6, 1.0, 1e-3),
        ("wide-vn-add", 3, 0.05, 1e-3),
        ("wide-vn-add", 3, 0.1, 1e-4),
    ]:
        config = {"slots": slots, "channels": 8, "num_identifiers": 6, "learning_rate": rate}
        made = make_run(model, 0, 1.0, both, both, task="two-radius-leaderboard", preset="width", config=config)
        path = save(made, f"{model}-{slots}-{rate}.json")
    label, both_panel = drawn("wide-vn", load([path.parent]))
    assert sorted(lines(both_panel)) == [([24], [10.0]), ([24, 48], [50.0, 100.0])]
    assert sorted(lines(label)) == [([24], [100.0]), ([24, 48], [100.0, 100.0])]
    assert draw("wide-vn", Records(())) is None


def test_wide_states_are_drawn_over_their_updates_and_stay_where_they_were_solved(wide_runs: Records) -> None:
    panel, longer = drawn("wide-states", wide_runs)
    assert lines(longer)[0][1] == pytest.approx([75.0] * 400)
    slots, wide = lines(panel)[:2]
    assert slots[0] == wide[0] == [50 * (epoch + 1) for epoch in range(40)]
    assert slots[1] == [37.5, 75.0, *[100.0] * 38]
    assert wide[1] == pytest.approx([30.0] * 40)
    assert draw("wide-states", Records(())) is None


def test_wide_states_are_drawn_by_their_parameters_at_the_budget_that_all_had(wide_runs: Records) -> None:
    (panel,) = drawn("wide-parameters", wide_runs)
    thousands = wide_runs[0].whole("parameters", "memory") / 1000
    # Each memory's line, and the mark of its one point.
    assert sorted(lines(panel)) == [([thousands], [pytest.approx(30.0)])] * 2 + [([thousands], [100.0])] * 2
    legend = panel.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["n = 6"]
    assert draw("wide-parameters", Records(())) is None
