"""The explorer in a browser: hover, keyboard, a screen reader's view, no request, quick at 10,000 nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from browser import Visit
from look.drawable import CHANNELS, Net, copies, ring
from mooring.audit import Card, Finding
from mooring.look import look, measure
from mooring.nn import HeteroSlotVirtualNode, SlotVirtualNode, VirtualNode

EVIL = '</script><img src=x onerror="window.broken=1">'
UNAUDITED = [("one", 1400, "light"), ("one", 1400, "dark"), ("two", 360, "light"), ("two", 360, "dark")]
UNAUDITED += [(name, 800, scheme) for name in ("one", "two") for scheme in ("light", "dark")]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of one graph, of a graph beside its three copies, of a large one and of one with hostile names."""
    torch.manual_seed(0)
    folder, graph, net = tmp_path_factory.mktemp("pages"), ring(31), Net(slots=8)
    card = Card("memory", "virtual_node", CHANNELS, (Finding("replication", "it counts", 1.0, "none", 1, "by hand"),))
    found = {
        "one": look(net, ring(200, role=torch.arange(200) % 3), card=card),
        "two": look(net, [graph, copies(graph, 3)]),
        "large": look(net, ring(2500), max_nodes=2000),
        "mesh": look(net, grid(100), max_nodes=10_000),
        "evil": look(SlotVirtualNode(CHANNELS, 4), ring(5, **{EVIL: torch.arange(5)}), title=EVIL),
        "plain": look(VirtualNode(CHANNELS), ring(5)),
        "alike": look(alike(), ring(9)),
        "sharp": look(SlotVirtualNode(CHANNELS, 4, 1, temperature=1e-4), ring(9, height=torch.arange(9).float())),
        "molecule": look(
            SlotVirtualNode(CHANNELS, 4), anilide(), call=lambda net, data: net(torch.randn(10, CHANNELS))
        ),
        "types": look(HeteroSlotVirtualNode({"author": 8, "paper": 8}, 4), papers()),
    }
    return {name: page.save(folder / f"{name}.html") for name, page in found.items()}


def grid(side: int) -> Data:
    """A square mesh with coordinates."""
    number = torch.arange(side * side).view(side, side)
    edges = [torch.stack([number[:, :-1].flatten(), number[:, 1:].flatten()])]
    edges.append(torch.stack([number[:-1].flatten(), number[1:].flatten()]))
    place = torch.stack([number % side, number // side], dim=-1).flatten(0, 1).float()
    return Data(x=torch.randn(side * side, CHANNELS), edge_index=torch.cat(edges, dim=1), pos=place)


def alike() -> SlotVirtualNode:
    """A memory whose slots are all written and read alike."""
    memory = SlotVirtualNode(CHANNELS, 8, 2, routing="free")
    for weight in (memory.write.lin_key.weight, memory.read.lin_query.weight):
        torch.nn.init.zeros_(weight)
    return memory


def papers() -> HeteroData:
    data = HeteroData()
    data["author"].x, data["paper"].x = torch.randn(3, 8), torch.randn(4, 8)
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    return data


def anilide() -> Data:
    """Acetanilide in OGB's features: a double bond, a ring of aromatic ones."""
    atoms = torch.zeros(10, 9, dtype=torch.long)
    atoms[:, 0] = torch.tensor([5, 5, 7, 6, 5, 5, 5, 5, 5, 5])
    ends = torch.tensor([[0, 1], [1, 2], [1, 3], [3, 4], [4, 5], [5, 6], [6, 7], [7, 8], [8, 9], [9, 4]]).t()
    types = torch.zeros(10, 3, dtype=torch.long)
    types[1, 0], types[4:, 0] = 1, 3
    return Data(x=atoms, edge_index=ends, edge_attr=types)


def centre(visit: Visit, selector: str) -> tuple[float, float]:
    box = visit.page.locator(selector).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 800, 360])
@pytest.mark.parametrize("name", ["one", "two"])
def test_it_is_whole_at_every_width_in_light_and_dark(
    browser: Any, artefacts: Path, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    with Visit(browser, pages[name], width, scheme) as visit:
        visit.page.mouse.move(*centre(visit, "#p0s3"))
        visit.page.screenshot(path=artefacts / f"look-{name}-{width}-{scheme}.png", full_page=True)
        assert visit.overflow() <= 0
        # Axe takes as long as a page has elements; colours and widths are each seen once.
        assert (name, width, scheme) in UNAUDITED or visit.violations() == []
        assert visit.complaints == []
        assert visit.requests == [visit.address]


def test_a_node_shows_where_it_writes_and_what_it_reads(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["one"]) as visit:
        visit.page.mouse.move(*centre(visit, "#p0n17"))
        said = visit.page.locator("#details").inner_text()
        assert "node 17" in said
        assert "role 2" in said
        assert visit.page.locator(".link.write").count() > 0
        assert visit.page.locator(".link.read").count() > 0
        status = visit.page.locator("#status").inner_text()
        assert "writes slot" in status
        assert "reads slot" in status


def test_a_slot_shows_its_nodes_mass_and_anchor_in_both_graphs(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["two"]) as visit:
        visit.page.mouse.move(*centre(visit, "#p0s2"))
        first, second = visit.page.locator("#details > div").all_inner_texts()
        for text in (first, second):
            assert "anchor’s share" in text
            assert "content norm" in text
        masses = [float(text.split("mass: ")[1].split()[0]) for text in (first, second)]
        assert masses[1] == pytest.approx(3 * masses[0], rel=0.02)
        assert "content is 0.0 % away" in second
        share = [float(text.split("anchor’s share: ")[1].split()[0]) for text in (first, second)]
        assert share[1] < share[0]


def test_a_click_keeps_and_escape_lets_go(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["one"]) as visit:
        visit.page.mouse.click(*centre(visit, "#p0s1"))
        visit.page.mouse.move(*centre(visit, "#p0n5"))
        assert "slot 1" in visit.page.locator("#details").inner_text()
        visit.page.locator("[data-kind=slot]").press("Escape")
        assert visit.page.locator("#details").inner_text() == ""


def test_everything_is_reached_by_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["one"]) as visit:
        kinds = []
        for _ in range(14):
            visit.page.keyboard.press("Tab")
            kinds.append(visit.page.evaluate("document.activeElement.dataset.kind || document.activeElement.id"))
            if kinds[-1] == "node":
                before = visit.page.locator("#status").inner_text()
                seen = {before}
                for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "End"):
                    visit.page.keyboard.press(key)
                    seen.add(visit.page.locator("#status").inner_text())
                assert len(seen) >= 4
                named = visit.page.evaluate("document.activeElement.getAttribute('aria-activedescendant')")
                assert named == "p0n199"
                assert visit.page.locator(f"#{named}").get_attribute("aria-selected") == "true"
            if kinds[-1] == "slot":
                visit.page.keyboard.press("ArrowDown")
                assert "slot 1 of graph 0" in visit.page.locator("#status").inner_text()
        assert {"call", "after", "head", "mode", "theme", "node", "slot"} <= set(kinds)


def test_memories_heads_and_graphs_are_stepped_through(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["two"]) as visit:
        first = visit.page.locator("#table").text_content()
        visit.page.click("#after")
        assert visit.page.locator("#call").input_value() == "1"
        second = visit.page.locator("#table").text_content()
        visit.page.select_option("#head", "1")
        third = visit.page.locator("#table").text_content()
        assert len({first, second, third}) == 3
        visit.page.select_option("#second", "-1")
        assert visit.page.locator("figure").count() == 1
        fills = [one.get_attribute("fill") for one in visit.page.locator(".node").all()]
        visit.page.select_option("#mode", "read")
        assert fills != [one.get_attribute("fill") for one in visit.page.locator(".node").all()]
        visit.page.click("#theme")
        assert visit.page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_what_was_left_out_or_measured_is_said(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["large"]) as visit:
        assert "2,000 of 2,500 nodes are drawn" in visit.page.locator("figcaption").inner_text()
        assert not visit.page.locator("#audit").is_visible()
    with Visit(browser, pages["one"]) as visit:
        visit.page.click("#audit summary")
        assert "it counts" in visit.page.locator("#card").inner_text()
    with Visit(browser, pages["plain"]) as visit:
        visit.page.mouse.move(*centre(visit, "#p0n1"))
        assert "This module has no write weights." in visit.page.locator("#details").inner_text()
        assert visit.complaints == []


def test_names_are_shown_and_never_run(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["evil"]) as visit:
        visit.page.mouse.move(*centre(visit, "#p0n1"))
        assert EVIL in visit.page.locator("#details").inner_text()
        assert EVIL in visit.page.locator("h1").inner_text()
        assert visit.page.evaluate("window.broken") is None
        assert visit.complaints == []


def test_the_policy_would_stop_a_request(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["one"]) as visit:
        stopped = visit.page.evaluate(
            """() => new Promise((done) => {
                 document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
                 fetch("http://127.0.0.1:9/").catch(() => null);
               })"""
        )
        assert stopped == "connect-src"


def test_a_page_is_drawn_within_a_second_and_10000_nodes_stay_smooth(browser: Any, pages: dict[str, Path]) -> None:
    def drawn(name: str) -> float:
        with Visit(browser, pages[name]) as visit:
            return float(visit.page.evaluate("document.documentElement.dataset.drawn"))

    # The fastest of three, as other work on the machine can only slow it down.
    assert min(drawn("one") for _ in range(3)) < 1000
    for name in ("large", "mesh"):
        with Visit(browser, pages[name]) as visit:
            moves = visit.page.evaluate(
                """() => {
                     const svg = document.querySelector("svg"), box = svg.getBoundingClientRect(), times = [];
                     for (let i = 0; i < 12; i++) {
                       const start = performance.now(), x = box.left + 60 * i + 90, y = box.top + 320;
                       svg.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: x, clientY: y }));
                       document.documentElement.getBoundingClientRect();
                       times.push(performance.now() - start);
                     }
                     return times.sort((a, b) => a - b);
                   }"""
            )
            assert moves[len(moves) // 2] < 50, f"milliseconds per move: {moves}"


def test_a_mesh_has_its_own_coordinates_and_its_nodes_write(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["mesh"]) as visit:
        corners = [centre(visit, f"#p0n{node}") for node in (0, 99, 9900, 9999)]
        # Upwards as in the coordinates, and downwards on the screen.
        assert corners[0] == pytest.approx((corners[2][0], corners[1][1]), abs=1)
        assert corners[3] == pytest.approx((corners[1][0], corners[2][1]), abs=1)
        assert corners[1][0] - corners[0][0] == pytest.approx(corners[0][1] - corners[2][1], abs=2)
        assert corners[1][0] - corners[0][0] > 300
        visit.page.mouse.move(*centre(visit, "#p0n5050"))
        # A ten-thousandth of a slot is not nothing.
        said = visit.page.locator("#details").inner_text()
        assert "It does not write" not in said
        assert "0.0 %" not in said.split("reads")[0]
        # Zoomed in, what is outside is not drawn, and is again afterwards.
        for _ in range(4):
            visit.page.locator(".tools button").first.click()
        assert visit.page.locator("#p0n0").get_attribute("d") == ""
        visit.page.locator(".tools button").nth(2).click()
        assert centre(visit, "#p0n0") == pytest.approx(corners[0], abs=1)
        assert visit.complaints == []


def test_the_verdict_has_the_numbers_of_the_measurement(browser: Any, pages: dict[str, Path]) -> None:
    memory, graph = alike().eval(), ring(9)
    numbers = measure(memory(graph.x, return_state=True)[1])
    with Visit(browser, pages["alike"]) as visit:
        said = visit.page.locator("#verdict").inner_text()
    assert f"Reads use {numbers['slots_read']:.1f} of 8 slots: nearly one virtual node" in said
    assert f"writes spread over {numbers['slots_written']:.1f} of 8 slots: slots hold nearly the same" in said
    with Visit(browser, pages["sharp"]) as visit:
        assert "of 4 slots: every node reads one slot" in visit.page.locator("#verdict").inner_text()
    with Visit(browser, pages["two"]) as visit:
        assert "graph 1: masses ×3.00, content unchanged." in visit.page.locator("#verdict").inner_text()
    with Visit(browser, pages["plain"]) as visit:
        assert visit.page.locator("#verdict").inner_text() == "One slot: a virtual node with a single state."


def test_a_colour_is_as_strong_as_a_node_is_sure(browser: Any, pages: dict[str, Path]) -> None:
    """Grey where all slots are alike, however bright the slot that happens to be first."""
    grey, strong = [], []
    for name, found in (("alike", grey), ("sharp", strong)):
        with Visit(browser, pages[name]) as visit:
            visit.page.select_option("#mode", "read")
            fills = visit.page.locator(".node").evaluate_all("(all) => all.map((one) => one.getAttribute('fill'))")
            found += [int(fill.split("%, var(--blank)")[0].rpartition(" ")[2]) for fill in fills]
    assert max(grey) <= 2
    assert min(strong) >= 90


def test_bars_have_one_scale_and_a_mark_at_an_equal_share(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["alike"]) as visit:
        visit.page.mouse.move(*centre(visit, "#p0n1"))
        reads = visit.page.locator("#details > div").nth(2)
        assert "the mark is an equal share, 12.5 %" in reads.inner_text()
        bar, tick = (reads.locator(part).first.bounding_box() for part in ("meter", ".tick"))
        assert tick["x"] - bar["x"] == pytest.approx(bar["width"] / 8, abs=1)
        meters = visit.page.locator("meter")
        assert set(meters.evaluate_all("(all) => all.map((one) => one.max)")) == {1}
        widths = visit.page.locator(".link.read").evaluate_all(
            "(all) => all.map((one) => one.getAttribute('stroke-width'))"
        )
        assert max(map(float, widths)) < 1.6, "equal shares are thin lines"


def test_nodes_are_coloured_by_their_values_and_shaped_by_their_type(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["one"]) as visit:
        visit.page.select_option("#mode", "fact:role")
        fills = visit.page.locator(".node").evaluate_all("(all) => all.map((one) => one.getAttribute('fill'))")
        assert len(set(fills)) == 3
        assert fills[0] == fills[3] != fills[1]
        assert visit.page.locator("#key").inner_text().split() == ["role:", "0", "1", "2"]
        visit.page.mouse.move(*centre(visit, "#p0s3"))
        assert visit.page.locator(".link.write").count() > 0
    with Visit(browser, pages["sharp"]) as visit:
        visit.page.select_option("#mode", "fact:height")
        assert len(visit.page.locator("#key .swatch").all()) == 9
    with Visit(browser, pages["types"]) as visit:
        shapes = visit.page.locator(".node").evaluate_all(
            "(all) => all.map((one) => one.getAttribute('d').includes('a'))"
        )
        assert shapes == [True] * 3 + [False] * 4
        assert "their type" in visit.page.locator("#mode").inner_text()


def test_zoom_keeps_what_is_pointed_at_and_the_whole_graph_comes_back(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["one"]) as visit:
        page, before = visit.page, centre(visit, "#p0n17")
        page.mouse.dblclick(*before)
        assert centre(visit, "#p0n17") == pytest.approx(before, abs=1)
        spread = [centre(visit, "#p0n40")[axis] - before[axis] for axis in (0, 1)]
        page.mouse.move(before[0] + 30, before[1] + 30)
        page.mouse.down()
        page.mouse.move(before[0] + 70, before[1] + 50, steps=4)
        page.mouse.up()
        dragged = centre(visit, "#p0n17")
        assert dragged == pytest.approx((before[0] + 40, before[1] + 20), abs=2)
        assert [centre(visit, "#p0n40")[axis] - dragged[axis] for axis in (0, 1)] == pytest.approx(spread, abs=1)
        page.click("[aria-label='Whole graph, graph 0']")
        page.mouse.move(0, 0)
        assert centre(visit, "#p0n17") == pytest.approx(before, abs=1)
        page.locator("[data-kind=node]").press("+")
        assert page.locator("figure.zoomed").count() == 1
        assert visit.complaints == []


def test_the_address_is_a_link_to_what_is_selected(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["two"]) as visit:
        assert "#" not in visit.page.evaluate("location.href"), "nothing was chosen yet"
        visit.page.click("#after")
        visit.page.select_option("#mode", "read")
        visit.page.mouse.click(*centre(visit, "#p1n5"))
        link, said = visit.page.evaluate("location.href"), visit.page.locator("#details").inner_text()
        assert "memory=1" in link
        assert "node=1%2C5" in link
    with Visit(browser, link) as visit:
        assert visit.page.locator("#details").inner_text() == said
        assert visit.page.locator("#call").input_value() == "1"
        assert visit.page.locator("#mode").input_value() == "read"
        visit.page.mouse.move(*centre(visit, "#p0n1"))
        assert visit.page.locator("#details").inner_text() == said, "it is kept"
        visit.page.locator("[data-kind=node]").first.press("Escape")
        assert "node=" not in visit.page.evaluate("location.href")
        assert visit.complaints == []
    for broken in ("#memory=99&head=x&graphs=7,8&node=5,5&slot=0,1e3", "#node=0", "#%"):
        with Visit(browser, f"{pages['two'].as_uri()}{broken}") as visit:
            assert visit.page.locator("figure").count() == 2
            assert visit.page.locator("#details").inner_text() == ""
            assert visit.complaints == []


def test_a_molecule_has_symbols_and_lines_for_the_order_of_its_bonds(
    browser: Any, artefacts: Path, pages: dict[str, Path]
) -> None:
    with Visit(browser, pages["molecule"], 800) as visit:
        visit.page.screenshot(path=artefacts / "look-molecule-800-light.png", full_page=True)
        assert "".join(visit.page.locator(".symbol").all_text_contents()) == "CCONCCCCCC"
        lines = [one.get_attribute("d").count("M") for one in visit.page.locator(".edges").all()]
        assert lines == [11, 6], "nine single lines, two of the double bond; a dashed one for each bond of the ring"
        assert visit.complaints == []


@pytest.mark.parametrize("kind", ["SVG", "PNG"])
def test_the_drawing_is_saved_as_it_is_seen(browser: Any, pages: dict[str, Path], tmp_path: Path, kind: str) -> None:
    with Visit(browser, pages["sharp"]) as visit:
        with visit.page.expect_download() as waited:
            visit.page.click(f"[aria-label='Save as {kind}, graph 0']")
        path = tmp_path / waited.value.suggested_filename
        waited.value.save_as(path)
        assert visit.complaints == []
    content = path.read_bytes()
    if kind == "PNG":
        assert path.name == "graph 0.png"
        assert content.startswith(b"\x89PNG")
        assert len(content) > 5000
    else:
        text = content.decode()
        # Colours stand in the file itself, and nothing refers to the page's style.
        assert "var(" not in text
        assert text.count("<path") > 9
        assert "class=" not in text
