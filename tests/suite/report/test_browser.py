"""The page in a browser: sorted tables, hidden curves, values under the pointer and by keyboard, memories inside."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from browser import Visit
from mooring.suite.chapters import build_report
from mooring.suite.look import insides
from mooring.suite.report import Summary
from mooring.suite.train import RunRequest, run_one
from support import ROOT

EVIL = '</script><img src=x onerror="window.broken=1">'
CURVES = "#figure-learning-curves-tiny"


# What the page says of runs that differ from their preset.
CHANGED = "(steps per epoch 2)"


@pytest.fixture(scope="module")
def pages(summary: Summary, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of every kind of record, of a short run whose weights are there, of many cards, and of a hostile name."""
    folder = tmp_path_factory.mktemp("report")
    out = folder / "runs"
    for model in ("cross-attn", "anchored"):
        run_one(RunRequest("two-radius", model, 0, "tiny", {"epochs": 3, "steps_per_epoch": 2}, out))
    looked, left_out = insides([out])
    assert left_out == []
    build_report([out], folder / "demo.html", looked)
    build_report([ROOT / "results" / "audit.jsonl"], folder / "long.html")
    record = json.loads(next(out.rglob("anchored-seed0.json")).read_text(encoding="utf-8"))
    (folder / "evil.json").write_text(json.dumps({**record, "model": EVIL, "title": EVIL}))
    build_report([folder / "evil.json"], folder / "evil.html", [replace(looked[0], title=EVIL, command=EVIL)])
    return {"all": summary.path} | {name: folder / f"{name}.html" for name in ("demo", "long", "evil")}


@pytest.mark.parametrize(
    ("width", "scheme"), [(1400, "light"), (1400, "dark"), (1280, "light"), (360, "light"), (360, "dark")]
)
def test_it_is_whole_at_every_width_in_light_and_dark(
    browser: Any, artefacts: Path, pages: dict[str, Path], width: int, scheme: str
) -> None:
    with Visit(browser, pages["all"], width, scheme) as visit:
        visit.page.screenshot(path=artefacts / f"report-all-{width}-{scheme}.png", full_page=True)
        assert visit.overflow() <= 0
        assert visit.complaints == []
        assert visit.requests == [visit.address]
        # No drawing is so small that its text cannot be read, and none is wider than the window.
        boxes = [one.bounding_box() for one in visit.page.locator(".panels svg").all()]
        assert len(boxes) > 20
        assert all(box["x"] + box["width"] <= width for box in boxes)


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (360, "dark")])
def test_axe_finds_nothing_serious(
    browser: Any, artefacts: Path, pages: dict[str, Path], width: int, scheme: str
) -> None:
    with Visit(browser, pages["demo"], width, scheme) as visit:
        visit.page.screenshot(path=artefacts / f"report-demo-{width}-{scheme}.png", full_page=True)
        assert visit.violations() == []


def test_three_panels_stand_side_by_side_on_a_wide_screen_and_below_each_other_on_a_phone(
    browser: Any, pages: dict[str, Path]
) -> None:
    for width, rows in ((1400, 1), (360, 3)):
        with Visit(browser, pages["demo"], width) as visit:
            tops = {one.bounding_box()["y"] for one in visit.page.locator(f"{CURVES} .panels > svg").all()}
            assert len(tops) == rows


def test_columns_are_sorted_by_click_and_by_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["all"]) as visit:
        table = visit.page.locator("#two-radius table").first

        def column(place: int) -> list[str]:
            return table.locator(f"tbody tr > :nth-child({place})").all_inner_texts()

        given = column(1)
        head = table.locator("thead tr:last-child th").nth(3)
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        values = [float(text.split()[0]) for text in column(4) if text != "–"]
        assert values == sorted(values, reverse=True)
        assert len(set(values)) > 2
        head.locator("button").press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        assert [float(text.split()[0]) for text in column(4) if text != "–"] == values[::-1]
        head.locator("button").press(" ")
        assert head.get_attribute("aria-sort") is None
        assert column(1) == given
        table.locator("thead tr:last-child th button").first.click()
        assert column(1) == sorted(given, key=str.lower)
        # Cells without a value stay at the end, whichever way it is sorted.
        gaps = table.locator("thead tr:last-child th").nth(4).locator("button")
        for _ in range(2):
            gaps.click()
            cells = column(5)
            assert "–" not in cells[: len([cell for cell in cells if cell != "–"])]


def test_long_tables_unfold(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["long"]) as visit:
        button = visit.page.locator(".more").first
        rows = button.locator("xpath=preceding-sibling::*[1]").locator("tbody tr:visible")
        folded = rows.count()
        button.click()
        assert rows.count() > folded == 12
        assert button.get_attribute("aria-expanded") == "true"


def test_curves_are_hidden_and_shown_together_with_what_belongs_to_them(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["demo"]) as visit:
        parts = visit.page.locator(f"{CURVES} [data-curve='Anchored {CHANGED}']:visible")
        others = visit.page.locator(f"{CURVES} [data-curve='Cross-Attn {CHANGED}']:visible")
        before, beside = parts.count(), others.count()
        button = visit.page.locator(f"{CURVES} .toggles button", has_text="Anchored")
        button.click()
        assert button.get_attribute("aria-pressed") == "false"
        assert (parts.count(), others.count()) == (0, beside)
        visit.page.locator(f"{CURVES} .panels > svg").first.hover()
        assert "Anchored" not in visit.page.locator("#tip").inner_text()
        button.press("Enter")
        assert parts.count() == before >= 9


def test_values_are_shown_under_the_pointer_and_read_by_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["demo"]) as visit:
        drawing = visit.page.locator(f"{CURVES} .panels > svg").first
        drawing.hover()
        tip = visit.page.locator("#tip")
        lines = tip.inner_text().split("\n")
        assert lines[0].startswith("epoch ")
        assert {f"Anchored {CHANGED}", f"Cross-Attn {CHANGED}"} <= set(lines)
        assert all(0 <= float(line) <= 100 for line in lines[1:] if line[0].isdigit())
        visit.page.mouse.move(2, 2)
        assert not tip.is_visible()
        drawing.focus()
        drawing.press("Home")
        first = visit.page.locator("#said").inner_text()
        drawing.press("ArrowRight")
        second = visit.page.locator("#said").inner_text()
        assert first.startswith("epoch 0: ")
        assert second.startswith("epoch 1: ")
        drawing.press("Escape")
        assert not tip.is_visible()


def test_text_in_figures_can_be_selected(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["demo"]) as visit:
        visit.page.locator(f"{CURVES} text", has_text="accuracy").first.dblclick()
        assert visit.page.evaluate("getSelection().toString()").strip() == "accuracy"


def test_trained_memories_are_explored_inside_the_page(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["demo"]) as visit:
        titles = visit.page.locator("#inside summary").all_inner_texts()
        assert [title.split(",")[0] for title in titles] == ["two-radius: anchored", "two-radius: cross-attn"]
        visit.page.locator("#inside").scroll_into_view_if_needed()
        frame = visit.page.frame_locator("#inside iframe").first
        frame.locator("#p0s1").wait_for()
        # A frame is drawn before it has its width; the slots stand beside the graph all the same.
        slot, node = frame.locator("#p0s1").bounding_box(), frame.locator("#p0n0").bounding_box()
        assert slot["x"] > node["x"] + 40
        frame.locator("#p0s1").hover()
        assert "anchor’s share" in frame.locator("#details").inner_text()
        visit.page.locator("#inside summary").nth(1).press("Enter")
        visit.page.frame_locator("#inside iframe").nth(1).locator("#p0s1").wait_for()
        assert visit.complaints == []
        assert visit.elsewhere(visit.address) == []


def test_light_and_dark_are_one_click_away(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["demo"], scheme="dark") as visit:
        colour = "getComputedStyle(document.body).backgroundColor"
        before = visit.page.evaluate(colour)
        visit.page.click("#theme")
        assert visit.page.evaluate(colour) == "rgb(255, 255, 255)" != before


def test_names_are_shown_and_never_run(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["evil"]) as visit:
        visit.page.locator(f"{CURVES} .panels > svg").first.hover(position={"x": 60, "y": 50})
        assert EVIL in visit.page.locator("#tip").inner_text()
        assert EVIL in visit.page.locator("#two-radius tbody").first.inner_text()
        assert EVIL in visit.page.locator("#inside summary").inner_text()
        assert visit.page.evaluate("window.broken") is None
        assert visit.complaints == []
