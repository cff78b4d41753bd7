"""What stands on the page: the numbers of the pass, nothing that could run or be fetched, and what was left out."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import re
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data, HeteroData

import mooring
from look.drawable import CHANNELS, HEADS, SLOTS, Net, copies, ring
from mooring import zoo
from mooring.audit import Card, Finding
from mooring.look import Page, look
from mooring.nn import HeteroSlotVirtualNode, SlotAggregation, SlotVirtualNode, VirtualNode

EVIL = '</script><img src=x onerror="alert(1)">&amp;'


def unpacked(text: str) -> Tensor:
    raw = torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8).int()
    return raw[::2] + 256 * raw[1::2]


def data_of(page: Page) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.html, flags=re.S)
    assert found is not None
    return json.loads(found[1])


def test_it_is_called_by_the_name_of_its_package() -> None:
    memory, graph = SlotVirtualNode(CHANNELS, SLOTS, HEADS), ring(7)
    package = importlib.import_module("mooring.look")
    assert sys.modules["mooring.look"] is mooring.look is package
    for called in (mooring.look, package, package.look):
        assert isinstance(called(memory, graph), Page)


def test_weights_masses_and_anchors_are_those_of_the_pass() -> None:
    memory, graph = SlotVirtualNode(CHANNELS, SLOTS, HEADS, anchor_init=1.0).eval(), ring(11)
    _, inside = memory(graph.x, return_state=True)
    drawn = data_of(look(memory, graph))["calls"][0]["graphs"][0]
    for name, weights in (("write", inside.write_weights), ("read", inside.read_weights)):
        shown = (unpacked(drawn[name]).float() / 65535).square().view(11, SLOTS, HEADS)
        torch.testing.assert_close(shown, weights.detach(), rtol=1e-2, atol=1e-5)
    state, anchor = inside.state, inside.anchor_weight
    for name, values in (("anchor", anchor), ("log_mass", state.log_mass), ("content", state.content.norm(dim=-1))):
        torch.testing.assert_close(torch.tensor(drawn[name]), values[0].detach(), rtol=1e-4, atol=1e-5)


def test_copies_move_the_anchors_and_leave_the_content_where_it_was() -> None:
    graph = ring(13)
    memory = SlotVirtualNode(CHANNELS, SLOTS, HEADS, anchor_init=2.0)
    first, second = data_of(look(memory, [graph, copies(graph, 3)]))["calls"][0]["graphs"]
    alone, copied = torch.tensor(first["anchor"]), torch.tensor(second["anchor"])
    torch.testing.assert_close((1 - copied) / copied, 3 * (1 - alone) / alone, rtol=1e-3, atol=0)
    assert float(torch.tensor(second["moved"]).max()) < 1e-4


def test_positions_are_those_of_the_data_seen_flat() -> None:
    pos = torch.tensor([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [2.0, 1.0, 0.0], [0.0, 1.0, 0.01]])
    graph = Data(x=torch.randn(4, CHANNELS), edge_index=torch.empty(2, 0, dtype=torch.long), pos=pos)
    x = unpacked(data_of(look(VirtualNode(CHANNELS), graph))["graphs"][0]["x"]).float().view(4, 2) / 65535
    given, drawn = torch.cdist(pos, pos), torch.cdist(x, x)
    torch.testing.assert_close(drawn / drawn.max(), given / given.max(), rtol=0.02, atol=0.02)


def test_a_large_graph_is_sampled_and_says_so() -> None:
    page = look(SlotVirtualNode(CHANNELS, SLOTS, HEADS), ring(53), max_nodes=19)
    graph = data_of(page)["graphs"][0]
    assert graph["note"].startswith("19 of 53 nodes are drawn")
    assert len(graph["ids"]) == 19
    assert graph["total"] == 53
    whole = data_of(look(SlotVirtualNode(CHANNELS, SLOTS, HEADS), ring(53)))["graphs"][0]
    assert whole["note"] == ""


def test_a_batch_shows_its_first_graphs_or_those_that_are_asked_for() -> None:
    batch = Batch.from_data_list([ring(size) for size in (5, 7, 11, 13, 17)])
    memory = SlotVirtualNode(CHANNELS, SLOTS, HEADS)
    assert [graph["total"] for graph in data_of(look(memory, batch))["graphs"]] == [5, 7, 11, 13]
    shown = data_of(look(memory, batch, graphs=[4, 0]))
    assert [graph["total"] for graph in shown["graphs"]] == [17, 5]
    assert "2 of the 5 graphs" in shown["note"]
    with pytest.raises(ValueError, match="expected some of 0 to 4"):
        look(memory, batch, graphs=[5])


def test_values_of_nodes_are_told_and_features_are_not() -> None:
    graph = ring(5, role=torch.tensor([0, 1, 2, 1, 0]), target=torch.randn(1, 3))
    facts = data_of(look(SlotVirtualNode(CHANNELS, SLOTS, HEADS), graph))["graphs"][0]["facts"]
    assert facts == {"role": [0, 1, 2, 1, 0]}


def test_values_that_are_no_numbers_are_told_in_letters(tmp_path: Path) -> None:
    y = torch.tensor([0.5, float("nan"), float("inf"), 1.0, 2.0])
    page = look(SlotVirtualNode(CHANNELS, SLOTS, HEADS), ring(5, y=y, phase=torch.randn(5, dtype=torch.complex64)))
    assert data_of(page)["graphs"][0]["facts"] == {"y": [0.5, "nan", "inf", 1.0, 2.0]}
    page.save(tmp_path / "page.html")


def test_empty_graphs_at_the_end_hold_nothing_that_is_known() -> None:
    """A model that is given graph ids alone does not know of them."""
    memory = SlotVirtualNode(CHANNELS, SLOTS, HEADS)
    nothing = Data(x=torch.empty(0, CHANNELS), edge_index=torch.empty(2, 0, dtype=torch.long))
    unknown = [[None] * HEADS] * SLOTS
    for graphs in ([ring(3), nothing], [ring(3), ring(4), nothing]):
        page = look(memory, Batch.from_data_list(graphs), call=lambda model, data: model(data.x, data.batch))
        *full, empty = data_of(page)["calls"][0]["graphs"]
        assert empty["log_mass"] == empty["anchor"] == empty["content"] == unknown
        assert all(one["log_mass"][0][0] is not None for one in full)


def test_arguments_are_filled_in_by_name_or_by_a_call_of_ones_own() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.memory = SlotVirtualNode(CHANNELS, SLOTS, HEADS)

        def forward(self, features: Tensor, scale: float) -> Tensor:
            return self.memory(features * scale)

    net, graph = Own(), ring(5)
    with pytest.raises(ValueError, match="takes features, scale, which the data does not have"):
        look(net, graph)
    page = look(net, graph, call=lambda net, data: net(data.x, 2.0))
    assert repr(page) == "Page('Own', 1 graph, 1 memory)"


def test_memories_of_one_vector_and_of_a_readout_have_pages_too() -> None:
    for module in (VirtualNode(CHANNELS), SlotAggregation(CHANNELS, SLOTS, HEADS)):
        shown = data_of(look(module, ring(5), call=lambda net, data: net(data.x)))["calls"][0]
        assert shown["graphs"][0]["read"] is None


def test_several_node_types_are_one_drawing() -> None:
    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(3, CHANNELS), torch.randn(4, 8)
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2], [3, 0, 1]])
    shown = data_of(look(HeteroSlotVirtualNode({"user": CHANNELS, "item": 8}, SLOTS, HEADS), data))
    assert shown["graphs"][0]["facts"]["type"] == ["user"] * 3 + ["item"] * 4
    assert unpacked(shown["graphs"][0]["edges"]).view(-1, 2).tolist() == [[0, 6], [1, 3], [2, 4]]


@pytest.mark.parametrize("names", [["user", "item"], ["item", "user"]])
def test_the_weights_of_a_node_type_are_its_own_in_whichever_order_types_are_passed(names: list[str]) -> None:
    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(3, CHANNELS), torch.randn(4, CHANNELS)
    module = HeteroSlotVirtualNode({"user": CHANNELS, "item": CHANNELS}, SLOTS, HEADS)
    silent = {"user": torch.zeros(3, dtype=torch.bool)}

    def call(module: nn.Module, data: HeteroData) -> object:
        return module({name: data[name].x for name in names}, sources=silent)

    drawn = data_of(look(module, data, call=call))["calls"][0]["graphs"][0]
    writes = unpacked(drawn["write"]).view(7, -1).sum(dim=1) > 0
    assert writes.tolist() == [False] * 3 + [True] * 4
    _, memory = module(data.x_dict, return_state=True)
    with pytest.raises(ValueError, match="several node types does not say in which order they were passed"):
        look(memory, data)


def test_a_molecule_is_drawn_as_a_chemist_would() -> None:
    pytest.importorskip("rdkit", reason="molecules are drawn with RDKit")
    graph = Data(x=torch.randn(7, CHANNELS), edge_index=torch.empty(2, 0, dtype=torch.long), smiles="Oc1ccccc1")
    memory = SlotVirtualNode(CHANNELS, SLOTS, HEADS)
    assert data_of(look(memory, graph))["graphs"][0]["symbols"] == ["O", *"CCCCCC"]
    graph.smiles = "not a molecule"
    assert data_of(look(memory, graph))["graphs"][0]["symbols"] == []


def acetamide(**more: Tensor) -> Data:
    """Four heavy atoms in OGB's features, with one double bond, each bond in both directions."""
    x, ends = torch.zeros(4, 9, dtype=torch.long), torch.tensor([[0, 1, 1], [1, 2, 3]])
    x[:, 0] = torch.tensor([5, 5, 7, 6])
    types = torch.zeros(6, 3, dtype=torch.long)
    types[[1, 4], 0] = 1
    return Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], dim=1), edge_attr=types, **more)


def called(module: nn.Module, data: Data) -> object:
    return module(torch.randn(data.num_nodes, CHANNELS), data.get("batch"))


def test_features_of_ogb_are_drawn_as_atoms_and_bonds() -> None:
    memory = SlotVirtualNode(CHANNELS, SLOTS, HEADS)
    drawn = data_of(look(memory, [acetamide(), acetamide()], call=called))["graphs"]
    for one in drawn:
        assert one["symbols"] == ["C", "C", "O", "N"]
        orders = dict(zip(map(tuple, unpacked(one["edges"]).view(-1, 2).tolist()), one["orders"], strict=True))
        assert orders == {(0, 1): 1.0, (1, 2): 2.0, (1, 3): 1.0}
    # Positions of the data come first.
    line = torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    placed = data_of(look(memory, acetamide(pos=line), call=called))["graphs"][0]
    assert unpacked(placed["x"]).view(-1, 2)[:, 1].unique().numel() == 1
    # Real features, other widths and numbers that are no atom are drawn as any graph.
    for change in ({"x": torch.randn(4, 9)}, {"edge_attr": torch.zeros(6, 2).long()}, {"x": 200 + acetamide().x}):
        other = acetamide()
        other.update(change)
        plain = data_of(look(memory, other, call=called))["graphs"][0]
        assert (plain["symbols"], plain["orders"]) == ([], [])


@pytest.mark.parametrize(
    ("model", "data", "says"),
    [
        (nn.Linear(3, 3), ring(5), "Linear has no memory inside"),
        (SlotVirtualNode(CHANNELS, SLOTS, HEADS), torch.randn(5, CHANNELS), "data is Tensor, expected torch_geometric"),
        (lambda x: x, ring(5), "model is a function but an nn.Module, a SlotMemory or a dictionary of them was"),
        ({}, ring(5), "the dictionary has no memory"),
        ({0: None}, ring(5), "the dictionary has no memory"),
        ({0: 1}, ring(5), "model is a dict but an nn.Module"),
        (zoo.build("transformer", zoo.MemorySpec(channels=CHANNELS)), ring(5), "DenseAttention kept no memory"),
    ],
)
def test_what_cannot_be_looked_at_is_said(model: nn.Module, data: object, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        look(model, data)


def test_what_a_pass_returned_is_shown_without_another() -> None:
    memory, graphs = SlotVirtualNode(CHANNELS, SLOTS, HEADS), Batch.from_data_list([ring(5), ring(7)])
    _, inside = memory(graphs.x, graphs.batch, return_state=True)
    page = look(inside, graphs)
    expected = look(memory, graphs)
    assert repr(page) == "Page('Memory', 2 graphs, 1 memory)"
    assert data_of(page)["calls"][0]["graphs"] == data_of(expected)["calls"][0]["graphs"]
    assert [one["name"] for one in data_of(look({0: inside, 2: inside}, graphs))["calls"]] == ["0", "2"]
    # Of a memory that keeps nothing, or of a last graph without nodes, there is nothing to show.
    assert repr(look({0: inside, 1: None}, graphs)) == repr(page)
    more = Batch.from_data_list([ring(5), ring(7), ring(7).subgraph(torch.zeros(7, dtype=torch.bool))])
    assert repr(look(inside, more)) == "Page('Memory', 3 graphs, 1 memory)"
    with pytest.raises(ValueError, match="memory has the slots of 2 graphs but the data has 1"):
        look(inside, ring(5))


def test_a_memory_over_something_else_than_nodes_is_said() -> None:
    class Edges(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.readout = SlotAggregation(CHANNELS, SLOTS, HEADS)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.readout(x[edge_index[0]], edge_index[1], dim_size=len(x))

    with pytest.raises(ValueError, match=r"5 nodes but the memories were written by other rows \(readout: 6\)"):
        look(Edges(), ring(5))


def test_names_and_values_cannot_break_out() -> None:
    graph = ring(5, **{EVIL: torch.arange(5)})
    page = look(SlotVirtualNode(CHANNELS, SLOTS, HEADS), graph, title=EVIL)
    assert EVIL in data_of(page)["graphs"][0]["facts"]
    assert "<img" not in page.html
    assert page.html.count("</script>") == 2
    frame = page._repr_html_()
    assert frame.count('"') == 2 * len(re.findall(r'\w+="', frame)), "the page cannot end its own attribute"


def test_the_policy_allows_this_script_and_no_request() -> None:
    text = look(SlotVirtualNode(CHANNELS, SLOTS, HEADS), ring(5)).html
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    for tag in ("script", "style"):
        inline = re.search(rf"<{tag}>(.*?)</{tag}>", text, flags=re.S)
        assert inline is not None
        digest = base64.b64encode(hashlib.sha256(inline[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", text)


def test_the_audit_stands_on_the_page_if_it_is_given() -> None:
    memory, graph = SlotVirtualNode(CHANNELS, SLOTS, HEADS), ring(5)
    assert data_of(look(memory, graph))["card"] is None
    card = Card("memory", "virtual_node", CHANNELS, (Finding("replication", "counts", 1.0, "none", 1, "by hand"),))
    assert data_of(look(memory, graph, card=card))["card"]["findings"][0]["verdict"] == "counts"


def test_saving_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = look(Net(), ring(5))
    path = page.save(tmp_path / "folder" / "look.html")
    assert path.read_text(encoding="utf-8") == page.html
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("no room")))
    with pytest.raises(OSError, match="no room"):
        look(Net(), ring(7)).save(path)
    assert path.read_text(encoding="utf-8") == page.html
    assert [one.name for one in path.parent.iterdir()] == ["look.html"]


def test_a_page_of_200_nodes_is_small() -> None:
    assert len(look(Net(slots=16), ring(200)).html.encode()) < 1_000_000
