"""What a newcomer asks, and where the site answers: within two clicks from the front page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

# The question; the page and the place on it; words that the answer has there.
QUESTIONS = {
    "How do I install it into my own project?": ("index.html#install", "pip install"),
    "How many slots for molecules?": ("choosing.html#how-many-slots", "molecules"),
    "Does it run on a GPU?": ("devices.html#devices", "Nothing has been run on a GPU"),
    "How do I read the attention?": ("tutorials/looking-inside.html#read-the-weights-yourself", "write_weights"),
    "What do I put in place of GPSConv?": ("how-to/migrate.html#from-gpsconv", "SlotConv"),
    "When should I not use it?": ("index.html#when-to-use-it-and-when-not", "Do not"),
    "Will it count on larger graphs than it saw?": (
        "choosing.html#counting-beyond-the-training-range",
        "mass_map",
    ),
    "My loss is NaN: what now?": ("how-to/troubleshoot.html#nan", "not finite"),
    "What does it cost beside attention?": ("benchmarks.html#speed", "GPSConv"),
    "How do I cite it?": ("index.html#cite", "Marcoccia"),
    "Does it work with LoRA?": ("compatibility.html#wrapped-projections", "peft"),
    "My graph has several node types": ("how-to/heterogeneous.html#heterogeneous-graphs", "HeteroSlotVirtualNode"),
    "Can I train on forces?": ("how-to/forces.html#forces", "create_graph"),
    "How do I train it on my own task?": ("how-to/add-a-task.html#add-a-task", "Experiment"),
    "What are the arguments of SlotVirtualNode?": ("reference/nn.html#mooring.nn.SlotVirtualNode", "temperature"),
    "What does mooring look take?": ("reference/command.html#mooring-look", "--graphs"),
}
CLICKS = 2


class Reader(HTMLParser):
    """Where a page's links lead, and the text that follows each place with an id."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.text = ""
        self.places: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if given.get("id"):
            self.places[str(given["id"])] = len(self.text)

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader


@pytest.fixture(scope="module")
def clicks(site: Path) -> dict[str, int]:
    """How many clicks each page is from the front page, as far as two."""
    found = {"index.html": 0}
    for step in range(CLICKS):
        for page in [page for page, far in found.items() if far == step]:
            for link in read(site / page).links:
                target, _ = urldefrag(unquote(link))
                if target and "://" not in target and target.endswith(".html"):
                    path = (site / page).parent.joinpath(target).resolve()
                    found.setdefault(path.relative_to(site.resolve()).as_posix(), step + 1)
    return found


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_is_two_clicks_away(question: str, site: Path, clicks: dict[str, int]) -> None:
    address, words = QUESTIONS[question]
    page, _, place = address.partition("#")
    assert clicks.get(page, 9) <= CLICKS
    reader = read(site / page)
    assert place in reader.places
    assert words in reader.text[reader.places[place] :]


def test_an_answer_that_is_not_there_is_noticed(site: Path, clicks: dict[str, int]) -> None:
    assert "nowhere.html" not in clicks
    assert "no-such-place" not in read(site / "index.html").places


def test_the_front_page_asks_ten_of_them_itself(site: Path) -> None:
    text = read(site / "index.html").text
    asked = text[text.index("Questions") :]
    assert len(re.findall(r"\?\s|is NaN|node types\.|one machine\.", asked)) >= 10
