"""The page is one file that needs nothing else, and it says what it does not show."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from mooring.markup import digest, policy
from mooring.suite.chapters import REPORT, build_report, tables_text, write_figures
from mooring.suite.records import Records, load
from mooring.suite.report import RecordError, Summary, documents
from mooring.suite.report.page import Inside

find = partial(documents.find, REPORT)

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Checks that tags are balanced, and keeps ids, links and loaded resources."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.handlers: list[str] = []
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag not in VOID:
            self.stack.append(tag)
        self.handlers += [name for name in found if name.startswith("on")]
        if tag in ("section", "figure"):
            self.ids.append(found.get("id") or "")
        if tag == "a":
            self.links.append(found["href"] or "")
        self.loaded += [value or "" for name, value in attrs if name in ("src", "srcset", "data", "action")]
        self.loaded += [found.get("href") or ""] if tag in ("link", "image", "base") else []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "image":
            self.loaded.append(dict(attrs).get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


@pytest.fixture(scope="module")
def records(everything: Path) -> Records:
    return load([everything])


@pytest.fixture(scope="module")
def built(summary: Summary) -> tuple[Summary, str]:
    return summary, summary.path.read_text(encoding="utf-8")


def test_the_page_parses_and_its_links_lead_somewhere(built: tuple[Summary, str]) -> None:
    page = Page(built[1])
    assert all(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert page.links
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)


def test_nothing_is_loaded_from_anywhere(built: tuple[Summary, str]) -> None:
    text = built[1]
    page = Page(text)
    assert all(value.startswith("data:") for value in page.loaded)
    assert page.handlers == []
    assert "@import" not in text
    # Were something missed here, the browser would still refuse to load it.
    assert "default-src 'none'" in text
    assert "unsafe" not in text
    assert " style=" not in text
    assert not re.search(r"url\((?!\s*['\"]?#)", text)
    # XML namespaces name a standard and load nothing; nothing else may carry an address.
    assert re.findall(r"https?://(?!www\.w3\.org/)[^\s\"'<]+", text) == []


def test_what_runs_is_named_by_its_hash_and_the_rest_is_data(built: tuple[Summary, str]) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', built[1])
    assert policy is not None
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", built[1], flags=re.S)
    (code,) = (body for kind, body in scripts if "json" not in kind)
    (style,) = re.findall(r"<style>(.*?)</style>", built[1], flags=re.S)
    assert f"script-src {digest(code)};" in policy[1]
    assert f"style-src {digest(style)};" in policy[1]
    assert len(scripts) > 5
    for kind, body in scripts:
        if "json" in kind:
            assert any(chart["curves"] for charts in json.loads(body) for chart in charts)


def test_the_values_beside_a_drawing_are_those_that_are_drawn(records: Records) -> None:
    picture = find("figure", "learning-curves").make(records, {"preset": "paper"})
    svg, (chart,) = picture.drawings()[0]
    (line,) = (one for one in picture.panels[0].axes[0].lines if one.get_gid() == "curve:Anchored")
    (curve,) = (one for one in chart["curves"] if one["name"] == "Anchored")
    assert curve["x"] == list(line.get_xdata())
    assert curve["y"] == pytest.approx(list(line.get_ydata()), rel=1e-4)
    # Where the page looks for a value is where the line is drawn.
    path = next(
        part for part in ElementTree.fromstring(svg).iter() if part.get("data-curve") == "Anchored" and len(part) == 1
    )
    points = [float(number) for number in re.findall(r"-?[\d.]+", path[0].get("d", ""))]
    left, top, right, bottom = chart["frame"]
    for place, value, low, high, start, end in (
        (points[0], curve["x"][0], *chart["x"][:2], left, right),
        (points[1], curve["y"][0], *chart["y"][:2], bottom, top),
    ):
        assert place == pytest.approx(start + (value - low) / (high - low) * (end - start), abs=0.2)


def test_text_in_figures_is_text(built: tuple[Summary, str]) -> None:
    assert re.search(r"<text[^>]*>accuracy \(%\)</text>", built[1])
    assert re.search(r"<text[^>]*>Anchored</text>", built[1])


def test_pages_inside_the_page_may_run_by_their_hashes_and_cannot_leave_their_frame(
    save: Callable[..., Path], make_run: Callable[..., Any], tmp_path: Path
) -> None:
    save(make_run("vn", 0, 0.0833, 0.1667, 0.0139), "vn.json")
    html = f'<meta content="{policy([digest("a")], [digest("b")])}"><script>a</script><style>b</style>'
    inside = Inside('"><script>alert(1)</script>', "mooring look a&b.json", html)
    build_report([tmp_path / "records"], tmp_path / "report.html", [inside])
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert "inside" in page.ids
    assert "#inside" in page.links
    outer = text[: text.index("<style>")]
    assert digest("a") in outer
    assert digest("b") in outer
    assert 'sandbox="allow-scripts"' in text
    assert "<script>a" not in text
    assert "<script>alert" not in text
    assert "mooring look a&amp;b.json" in text


def test_a_loaded_address_would_be_found() -> None:
    assert Page('<p><img src="https://example.org/a.png"></p>').loaded == ["https://example.org/a.png"]


def test_every_drawing_is_well_formed(built: tuple[Summary, str]) -> None:
    drawings = re.findall(r"<svg.*?</svg>", built[1], flags=re.DOTALL)
    assert len(drawings) > 20
    for drawing in drawings:
        assert ElementTree.fromstring(drawing).get("role") == "img"


def test_every_figure_is_explained_in_two_sentences(built: tuple[Summary, str]) -> None:
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", built[1], flags=re.DOTALL)
    assert len(captions) == built[1].count("<figure")
    for caption in captions:
        assert len(re.findall(r"[.!?](?:\s|$)", caption.replace("et al.", "et al").replace("n!", "n"))) == 2, caption


def test_chapters_with_records_are_shown_and_the_others_named(built: tuple[Summary, str]) -> None:
    summary, text = built
    assert summary.sections == ("two-radius", "capacity", "original", "motifs", "linksets", "verify", "audit", "bench")
    assert summary.missing == ("learning", "motifs-tuned", "molecules", "peptides", "nodes", "meshes", "leaderboard")
    assert "Every module: <code>mooring run two-radius-leaderboard --preset screen</code>" in text
    assert "16.7" in text
    assert 'id="leaderboard"' not in text


def test_one_record_is_enough(save: Callable[..., Path], make_run: Callable[..., Any], tmp_path: Path) -> None:
    save(make_run("vn", 0, 0.0833, 0.1667, 0.0139), "vn.json")
    summary = build_report([tmp_path / "records"], tmp_path / "report.html")
    assert summary.sections == ("two-radius",)
    text = summary.path.read_text(encoding="utf-8")
    assert "mooring run motifs" in text
    # One seed: no interval in the row, and no word of one in the table's notes.
    (row,) = (table.rows[0] for table in summary.tables if table.name == "two-radius")
    assert row == ("VN", "8.3", "16.7", "1.4", "8.9", "18.3", "1.4", "1")
    assert "Accuracy in %, at the epoch with the best Both." in text


def test_the_result_stands_at_the_head_of_the_page(
    save: Callable[..., Path], make_run: Callable[..., Any], tmp_path: Path
) -> None:
    save(make_run("vn", 0, 0.0833, 0.1667, 0.0139), "vn.json")
    path = save(make_run("anchored", 0, 1.0, 0.75, 0.7439), "anchored.json")
    REPORT.build([path.parent], tmp_path / "page.html")
    head = (tmp_path / "page.html").read_text(encoding="utf-8").partition("<nav")[0]
    expected = (
        "Label and count right (counted Two-Radius, preset paper, 1 seed): Anchored Cross-Attn VN 74.4 %, VN 1.4 %."
    )
    assert f'<p class="headline">{expected}</p>' in head


def test_no_record_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError) as caught:
        build_report([tmp_path], tmp_path / "report.html")
    message = f"report: no record under {tmp_path}. Write some first, e.g. with `mooring run two-radius`."
    assert str(caught.value) == message
    assert not (tmp_path / "report.html").exists()


def test_a_record_that_lacks_a_field_is_left_out_and_named(
    save: Callable[..., Path], make_run: Callable[..., Any], tmp_path: Path
) -> None:
    data = make_run("vn", 0, 0.1, 0.2, 0.02)
    del data["wall_seconds"]
    path = save(data, "vn.json")
    again = "Write the record again with `mooring run two-radius --preset paper`."
    problem = f"{path}: field 'wall_seconds' is missing. {again}"
    with pytest.raises(RecordError, match="no usable record") as caught:
        build_report([tmp_path / "records"], tmp_path / "report.html")
    assert str(caught.value).endswith(problem)
    assert not (tmp_path / "report.html").exists()

    save(make_run("mpnn", 0, 0.1, 0.2, 0.02), "mpnn.json")
    summary = build_report([tmp_path / "records"], tmp_path / "report.html")
    assert summary.num_records == 1
    assert [note for note in summary.notes if note.endswith(problem)] == list(summary.notes)
    assert [row[0] for table in summary.tables if table.name == "two-radius" for row in table.rows] == ["MPNN"]


def test_names_in_records_cannot_inject_markup(
    save: Callable[..., Path], make_run: Callable[..., Any], tmp_path: Path
) -> None:
    save(make_run("<script>alert(1)</script>", 0, 0.1, 0.2, 0.02), "x.json")
    build_report([tmp_path / "records"], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_terminal_text_and_figure_files(
    save: Callable[..., Path], make_run: Callable[..., Any], tmp_path: Path
) -> None:
    save(make_run("vn", 0, 0.0833, 0.1667, 0.0139), "vn.json")
    text = tables_text([tmp_path / "records"])
    assert re.search(r"VN +8\.3 +16\.7 +1\.4 +8\.9 +18\.3 +1\.4 +1\n", text)
    names = [path.name for path in write_figures([tmp_path / "records"], tmp_path / "figures")]
    assert names == ["idea-1.svg", "idea-2.svg", *(f"learning-curves-paper-{i}.svg" for i in (1, 2, 3))]
