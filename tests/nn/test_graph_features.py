"""Graph features: exact, received only by the slots of their graph, and validated."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from mooring import ops
from mooring.models import GNN
from mooring.nn import HeteroSlotVirtualNode, SlotAggregation, SlotConv, SlotVirtualNode

CHANNELS, SLOTS, HEADS, WIDTH = 6, 3, 2, 5
BATCH = torch.tensor([2, 0, 2, 0, 4, 4, 4])  # graphs 1, 3 and 5 have no nodes
GRAPHS = 6


@pytest.fixture(params=["default", "paper", "moored", "residual", "carried"])
def memory(request: pytest.FixtureRequest) -> Any:
    """Return a memory with graph features as a function of nodes, ids and features."""
    torch.manual_seed(0)
    options: dict[str, Any] = {"graph_channels": WIDTH}
    if request.param in ("paper", "moored"):
        return getattr(SlotVirtualNode, request.param)(CHANNELS, SLOTS, HEADS, **options).double()
    integrate = "residual" if request.param == "residual" else "film"
    module = SlotVirtualNode(CHANNELS, SLOTS, HEADS, integrate=integrate, init_std=0.5, **options).double()
    if request.param == "carried":
        _, carried = module(nodes(), BATCH, num_graphs=GRAPHS, graph_features=features(), return_state=True)
        held = carried._replace(slots=carried.slots.detach())
        return lambda *args, **kwargs: module(*args, memory=held, **kwargs)
    return module


def nodes() -> Tensor:
    return torch.randn(len(BATCH), CHANNELS, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def features(graphs: int = GRAPHS) -> Tensor:
    return torch.randn(graphs, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def test_the_oracle_has_the_same_values_and_gradients() -> None:
    """For each slot: the slot without features, plus a matrix times the features."""
    torch.manual_seed(0)
    memory = SlotVirtualNode(CHANNELS, SLOTS, HEADS, graph_channels=WIDTH, init_std=0.5).double()
    plain = SlotVirtualNode(CHANNELS, SLOTS, HEADS, init_std=0.5).double()
    plain.load_state_dict({name: one for name, one in memory.state_dict().items() if not name.startswith("graph.")})
    g = features().requires_grad_()
    out, inside = memory(nodes(), BATCH, num_graphs=GRAPHS, graph_features=g, return_state=True)

    again = features().requires_grad_()
    _, before = plain(nodes(), BATCH, num_graphs=GRAPHS, return_state=True)
    maps = memory.graph.lin.weight.view(SLOTS, CHANNELS, WIDTH)
    rows = [[before.slots[k, m] + maps[m] @ again[k] for m in range(SLOTS)] for k in range(GRAPHS)]
    slots = torch.stack([torch.stack(row) for row in rows])
    expected = torch.empty_like(out)
    for graph in BATCH.unique():
        mine = graph == BATCH
        x = nodes()[mine]
        context = plain.read(
            x, slots[graph : graph + 1], ops.plan(num_nodes=len(x)), address=plain.write.routes(x, None)
        )
        expected[mine] = plain.integrate(x, context, slots[graph : graph + 1], None)
    torch.testing.assert_close(inside.slots, slots)
    torch.testing.assert_close(out, expected)
    out.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(g.grad, again.grad)
    assert g.grad[BATCH.unique()].abs().min() > 0
    assert not g.grad[[1, 3, 5]].any(), "no node reads the slots of an empty graph"


def test_a_graph_sees_its_own_features_only(memory: Any) -> None:
    out = memory(nodes(), BATCH, num_graphs=GRAPHS, graph_features=features())
    changed = features()
    changed[[0, 1, 3]] += 1.0
    moved = (memory(nodes(), BATCH, num_graphs=GRAPHS, graph_features=changed) - out).abs().amax(dim=1)
    assert (moved[BATCH == 0] > 1e-6).all()
    torch.testing.assert_close(moved[BATCH != 0], torch.zeros(5, dtype=torch.float64))


def test_the_order_of_the_nodes_does_not_matter(memory: Any) -> None:
    order = torch.randperm(len(BATCH))
    out = memory(nodes(), BATCH, num_graphs=GRAPHS, graph_features=features())
    shuffled = memory(nodes()[order], BATCH[order], num_graphs=GRAPHS, graph_features=features())
    torch.testing.assert_close(shuffled, out[order])


def test_features_of_zero_are_no_features(memory: Any) -> None:
    out = memory(nodes(), BATCH, num_graphs=GRAPHS, graph_features=features())
    nothing = memory(nodes(), BATCH, num_graphs=GRAPHS, graph_features=0 * features())
    assert not torch.allclose(out, nothing), "the control"


@pytest.mark.parametrize("empty", [3, 60], ids=["a few", "so many that they are left out otherwise"])
def test_empty_graphs_have_slots_with_their_own_features(empty: int) -> None:
    torch.manual_seed(0)
    memory = SlotVirtualNode(CHANNELS, SLOTS, HEADS, graph_channels=WIDTH).double()
    count = GRAPHS + empty
    out, inside = memory(nodes(), BATCH, num_graphs=count, graph_features=features(count), return_state=True)
    one, alone = memory(nodes()[:0], num_graphs=1, graph_features=features(count)[-1:], return_state=True)
    assert one.shape == (0, CHANNELS)
    torch.testing.assert_close(inside.slots[-1], alone.slots[0])
    assert not torch.allclose(inside.slots[-1], inside.slots[-2])
    few = memory(nodes(), BATCH, graph_features=features(count)[:5])
    torch.testing.assert_close(out, few)


def test_a_merge_of_parts_is_exact() -> None:
    """Two parts of a graph have the same features, which are added once."""
    memory = SlotVirtualNode(CHANNELS, SLOTS, HEADS, graph_channels=WIDTH).double()
    here = torch.arange(len(BATCH)) % 2 == 0
    whole = memory(nodes(), BATCH, num_graphs=GRAPHS, graph_features=features())
    _, elsewhere = memory(nodes()[~here], BATCH[~here], num_graphs=GRAPHS, graph_features=features(), return_state=True)
    memory.merge = lambda state: ops.merge(state, elsewhere.state)
    part = memory(nodes()[here], BATCH[here], num_graphs=GRAPHS, graph_features=features())
    torch.testing.assert_close(part, whole[here])


def test_all_node_types_see_them() -> None:
    memory = HeteroSlotVirtualNode(CHANNELS, SLOTS, HEADS, graph_channels=WIDTH, init_std=0.5).double()
    kind = torch.tensor([0, 1, 0, 1, 0, 1, 1])
    x = {name: nodes()[kind == one] for one, name in enumerate("ab")}
    ids = {name: BATCH[kind == one] for one, name in enumerate("ab")}
    out = memory(x, ids, num_graphs=GRAPHS, graph_features=features())
    together = memory({"a": nodes()}, {"a": BATCH}, num_graphs=GRAPHS, graph_features=features())["a"]
    torch.testing.assert_close(out, {name: together[kind == one] for one, name in enumerate("ab")})
    other = memory(x, ids, num_graphs=GRAPHS, graph_features=-features())
    assert all(not torch.allclose(other[name], out[name]) for name in "ab")


@pytest.mark.parametrize("count", [GRAPHS, 80])
def test_sets_of_an_aggregation_have_them(count: int) -> None:
    aggr = SlotAggregation(CHANNELS, SLOTS, HEADS, graph_channels=WIDTH).double()
    g = features(count)
    out, inside = aggr(nodes(), BATCH, dim_size=count, graph_features=g, return_state=True)
    for graph in (2, 1, count - 1):
        mine = graph == BATCH
        alone = aggr(
            nodes()[mine],
            torch.zeros(int(mine.sum()), dtype=torch.long),
            dim_size=1,
            graph_features=g[graph : graph + 1],
        )
        torch.testing.assert_close(out[graph], alone[0])
    assert inside.slots.shape == (count, SLOTS, CHANNELS)
    both = torch.stack([nodes(), nodes().flip(0)], dim=1)
    apart = aggr(both, BATCH, dim_size=count, dim=0, graph_features=g)
    torch.testing.assert_close(apart[:, 0], out)


def test_layers_and_networks_hand_them_on() -> None:
    edges = torch.tensor([[0, 1, 4], [2, 3, 5]])
    layer = SlotConv(CHANNELS, None, SLOTS, HEADS, graph_channels=WIDTH).double().eval()
    outs = [
        layer(nodes(), edges, BATCH, num_graphs=GRAPHS, memory_kwargs={"graph_features": sign * features()})
        for sign in (1, -1)
    ]
    assert not torch.allclose(*outs)
    memory = partial(SlotVirtualNode, slots=SLOTS, heads=HEADS, graph_channels=WIDTH)
    model = GNN(CHANNELS, CHANNELS, 1, layers=3, memory=memory, carry=True).double().eval()
    outs = [model(nodes(), edges, batch=BATCH, num_graphs=GRAPHS, graph_features=sign * features()) for sign in (1, -1)]
    assert not torch.allclose(*outs)
    model.reset_parameters()
    with pytest.raises(ValueError, match="GNN: got graph_features but there is no memory to see them"):
        GNN(CHANNELS, CHANNELS, 1).double()(nodes(), edges, graph_features=features(1))
    with pytest.raises(ValueError, match="GNN: got graph_features but SlotVirtualNode takes none"):
        GNN(CHANNELS, 8, 1, memory=SlotVirtualNode).double()(nodes(), edges, graph_features=features(1))


def test_derivatives_are_exact() -> None:
    memory = SlotVirtualNode(CHANNELS, SLOTS, HEADS, graph_channels=WIDTH, init_std=0.5).double()
    function = lambda g: memory(nodes(), BATCH, num_graphs=GRAPHS, graph_features=g)  # noqa: E731
    assert torch.autograd.gradcheck(function, features().requires_grad_())
    assert torch.autograd.gradgradcheck(function, features().requires_grad_())


G = torch.zeros(GRAPHS, WIDTH)


@pytest.mark.parametrize(
    ("width", "given", "error", "message"),
    [
        (
            WIDTH,
            None,
            ValueError,
            r"was built with graph_channels=5 but got no graph_features. Pass graph_features=\[graphs, 5\]",
        ),
        (None, G, ValueError, r"got graph_features but takes none. Build it with graph_channels=5."),
        (WIDTH, G[:5], ValueError, "graph_features has 5 rows but the batch has 6 graphs"),
        (WIDTH, G[:, :3], ValueError, "graph_features has width 3 but graph_channels=5"),
        (WIDTH, G[0], ValueError, "graph_features"),
        (WIDTH, G.double(), TypeError, "graph_features has dtype float64 but x has float32"),
        (WIDTH, G.long(), TypeError, "graph_features"),
        (WIDTH, [[0.0] * WIDTH] * GRAPHS, TypeError, "graph_features"),
    ],
)
@pytest.mark.parametrize("kind", [SlotVirtualNode, HeteroSlotVirtualNode, SlotAggregation])
@pytest.mark.usefixtures("as_users_run_it")
def test_mistakes_are_named(kind: Any, width: int | None, given: Any, error: type[Exception], message: str) -> None:
    module = kind(CHANNELS, SLOTS, HEADS, graph_channels=width)
    x, sizes = nodes().float(), {"dim_size": GRAPHS} if kind is SlotAggregation else {"num_graphs": GRAPHS}
    args = ({"a": x}, {"a": BATCH}) if kind is HeteroSlotVirtualNode else (x, BATCH)
    with pytest.raises(error, match=message) as raised:
        module(*args, graph_features=given, **sizes)
    assert str(raised.value).startswith(kind.__name__)


@pytest.mark.usefixtures("as_users_run_it")
def test_a_width_that_is_none_is_refused() -> None:
    for width in (0, 2.5, "3"):
        with pytest.raises((TypeError, ValueError), match="SlotVirtualNode: graph_channels"):
            SlotVirtualNode(CHANNELS, SLOTS, HEADS, graph_channels=width)  # type: ignore[arg-type]


def test_it_is_shown_and_saved() -> None:
    memory = SlotVirtualNode(CHANNELS, SLOTS, HEADS, graph_channels=WIDTH)
    assert "graph_channels=5" in repr(memory)
    assert repr(memory.graph) == "GraphFeatures(5)"
    other = SlotVirtualNode(CHANNELS, SLOTS, HEADS, graph_channels=WIDTH)
    other.load_state_dict(memory.state_dict())
    args = (nodes().float(), BATCH)
    g = features(5).float()
    torch.testing.assert_close(other(*args, graph_features=g), memory(*args, graph_features=g))
    other.reset_parameters()
    assert not torch.equal(other.graph.lin.weight, memory.graph.lin.weight)
