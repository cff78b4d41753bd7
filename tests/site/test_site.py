"""The site in a browser, opened from files: formulas, search, dark mode, a phone, and nothing that needs a network."""

from __future__ import annotations

import importlib
import io
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from browser import Visit

FORMULAS = ["the-one-idea.html", "reference/nn.html"]
SHOWN = ["index.html", "tutorials/first-memory.html", "two-radius.html"]
# Axe takes as long as a page has elements.
AUDITED = [
    ("index.html", 1400, "light"),
    ("tutorials/first-memory.html", 360, "dark"),
    ("two-radius.html", 360, "light"),
]


def test_no_page_names_another_server_for_what_it_loads(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        text = page.read_text(encoding="utf-8")
        # Links may lead away; scripts, styles, images and frames may not.
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?([^\s\">]+)", text)
        loaded += re.findall(r"<link[^>]*\bhref=\"?([^\s\">]+)", text)
        assert [address for address in loaded if "//" in address] == [], page.name


def test_roles_and_directives_are_translated(site: Path) -> None:
    for page in (site / "reference").glob("*.html"):
        # The source code of a module stands on the page as it is.
        text = re.sub(r"<pre.*?</pre>", "", page.read_text(encoding="utf-8"), flags=re.S)
        assert not re.search(r":(?:class|func|math|mod|meth|attr):", text), page.name
        assert ".. math::" not in text, page.name
        assert "&gt;&gt;&gt;" not in text, page.name
    text = (site / "reference" / "nn.html").read_text(encoding="utf-8")
    assert re.search(r'href="ops\.html#mooring\.ops\.SlotState"', text), "a role is a link"


def test_every_public_name_has_an_entry(site: Path) -> None:
    from mooring import audit, models, nn, ops, theory, zoo

    look = importlib.import_module("mooring.look")
    places = set()
    for page in (site / "reference").glob("*.html"):
        places |= set(re.findall(r'id="mooring\.\w+\.(\w+)"', page.read_text(encoding="utf-8")))
    for package in (audit, look, models, nn, ops, theory, zoo):
        public = {one for one in package.__all__ if callable(getattr(package, one))}
        assert public - places == set(), package.__name__


def test_the_reference_has_every_command_and_option(site: Path) -> None:
    import typer

    from mooring.suite.cli import app

    text = (site / "reference" / "command.html").read_text(encoding="utf-8")
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        assert f'id="mooring-{name}"' in text
        for option in command.params:
            if option.param_type_name == "option":
                assert f"<code>{option.opts[0]}</code>" in text, (name, option.opts)


def test_labels_of_the_paper_are_printed_as_the_paper_numbers_them(site: Path) -> None:
    idea = (site / "the-one-idea.html").read_text(encoding="utf-8")
    assert re.search(r'<a href="?theorems\.html#the-papers-labels"?>Prop\.(?:\xa0|&nbsp;)4\.1</a>', idea)
    for page in [*site.glob("*.html"), *(site / "reference").glob("*.html")]:
        text = page.read_text(encoding="utf-8").partition('id="the-papers-labels"')[0]
        # In code, and in the table of the labels, they stand as they are.
        assert not re.search(r"<(?:p|td)>[^<]*<code>(?:prop|thm|cor):(?!roundtrip)", text), page.name


def test_no_cell_breaks_before_its_interval(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.search(r"<td[^>]*>[^<]*\S ± \S[^<]*</td>", page.read_text(encoding="utf-8")), page.name


def test_every_command_has_an_example_and_no_empty_table(site: Path) -> None:
    text = (site / "reference" / "command.html").read_text(encoding="utf-8")
    assert not re.search(r"<tbody>\s*(?:<tr>\s*(?:<td>\s*</td>\s*)*</tr>\s*)?</tbody>", text)
    assert re.sub(r"<[^>]+>", "", text).count("mooring audit torch_geometric.nn:SumAggregation") == 1


@pytest.mark.parametrize("name", ["findings.html", "zoo.html", "real-graphs.html"])
def test_the_contents_stand_at_the_right_of_long_pages(browser: Any, site: Path, name: str) -> None:
    with Visit(browser, site / name, 1400, "dark") as visit:
        contents = visit.page.locator(".md-sidebar--secondary")
        assert contents.is_visible()
        assert contents.bounding_box()["x"] > 1000
        assert visit.overflow() <= 0


def test_pictures_have_no_white_paper_in_the_dark(browser: Any, site: Path) -> None:
    with Visit(browser, site / "index.html", 800, "dark") as visit:
        visit.page.locator("img[src$='idea.svg']").scroll_into_view_if_needed()
        corner = visit.page.locator("img[src$='idea.svg']").screenshot()
        image = Image.open(io.BytesIO(corner)).convert("RGB")
        assert max(image.getpixel((4, image.height // 2))) < 80, "the page's own dark"
        assert max(high for _, high in image.getextrema()) > 180, "ink is light"


def test_long_tables_are_behind_a_fold(site: Path) -> None:
    assert "<summary>Table:" in (site / "zoo.html").read_text(encoding="utf-8")
    assert "<summary>Table:" not in (site / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_are_drawn(browser: Any, site: Path, name: str) -> None:
    with Visit(browser, site / name) as visit:
        visit.page.wait_for_selector(".katex")
        assert visit.page.locator(".katex").count() == visit.page.locator(".arithmatex").count() > 3
        assert visit.page.locator(".katex-error").count() == 0
        assert visit.complaints == []


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (360, "dark")])
@pytest.mark.parametrize("name", SHOWN)
def test_pages_are_whole_on_a_screen_and_on_a_phone(
    browser: Any, site: Path, artefacts: Path, name: str, width: int, scheme: str
) -> None:
    with Visit(browser, site / name, width, scheme) as visit:
        visit.page.screenshot(path=artefacts / f"site-{name.replace('/', '-')}-{width}-{scheme}.png")
        assert visit.overflow() <= 0
        assert visit.complaints == []
        assert visit.elsewhere(site.as_uri()) == []


def test_every_page_fits_a_small_screen_with_its_tables_unfolded(browser: Any, site: Path) -> None:
    pages = [page for page in sorted(site.rglob("*.html")) if page.name not in ("404.html", "explorer.html")]
    with Visit(browser, pages[0], 1280) as visit:
        for page in pages:
            visit.page.goto(page.as_uri())
            found = visit.page.evaluate(
                """() => {
                     document.querySelectorAll("details").forEach((one) => { one.open = true; });
                     const wide = [...document.querySelectorAll(".md-typeset__scrollwrap")];
                     return { page: document.documentElement.scrollWidth - innerWidth,
                              tables: wide.filter((one) => one.scrollWidth > one.clientWidth).length,
                              formulas: document.querySelectorAll(".katex-error").length };
                   }"""
            )
            assert found == {"page": 0, "tables": 0, "formulas": 0}, page.name
        assert visit.complaints == []
        assert visit.elsewhere(site.as_uri()) == []


def test_a_table_that_is_wider_than_a_phone_scrolls_and_shows_it(browser: Any, site: Path) -> None:
    with Visit(browser, site / "two-radius.html", 360) as visit:
        table = visit.page.locator(".md-typeset__scrollwrap").first
        assert table.evaluate("one => one.scrollWidth > one.clientWidth + 50")
        assert "radial-gradient" in table.evaluate("one => getComputedStyle(one).backgroundImage")
        table.focus()
        visit.page.keyboard.press("ArrowRight")
        visit.page.wait_for_function("document.querySelector('.md-typeset__scrollwrap').scrollLeft > 0")


@pytest.mark.parametrize(("name", "width", "scheme"), AUDITED)
def test_axe_finds_nothing_serious(browser: Any, site: Path, name: str, width: int, scheme: str) -> None:
    with Visit(browser, site / name, width, scheme) as visit:
        assert visit.violations() == []


def test_search_finds_the_module(browser: Any, site: Path) -> None:
    with Visit(browser, site / "index.html") as visit:
        visit.page.click("input.md-search__input")
        visit.page.type("input.md-search__input", "SlotVirtualNode")
        found = visit.page.locator(".md-search-result__link[href*='nn.html'][href$='#mooring.nn.SlotVirtualNode']")
        found.first.wait_for(timeout=15_000)
        assert visit.elsewhere(site.as_uri()) == []


def test_dark_is_one_click_away(browser: Any, site: Path) -> None:
    with Visit(browser, site / "index.html") as visit:
        scheme = "document.body.getAttribute('data-md-color-scheme')"
        assert visit.page.evaluate(scheme) == "default"
        visit.page.locator("label[title='Switch to dark']").click()
        assert visit.page.evaluate(scheme) == "slate"


def test_the_explorer_of_the_tutorial_is_drawn(browser: Any, site: Path) -> None:
    with Visit(browser, site / "tutorials" / "looking-inside.html") as visit:
        frame = visit.page.frame_locator("iframe[title^='The explorer']")
        visit.page.locator("iframe[title^='The explorer']").scroll_into_view_if_needed()
        frame.locator("figure").nth(1).wait_for()
        assert frame.locator("#p1s5").count() == 1
        assert visit.complaints == []
