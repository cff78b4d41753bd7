"""The rule that chooses a back end."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mooring import ops
from mooring.ops import backend, native, plain, plan

MOLECULES = torch.arange(64).repeat_interleave(torch.arange(64) % 17 + 9)


@pytest.fixture
def without_native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "load_native", lambda: None)


def chosen(batch: torch.Tensor | None, num_nodes: int) -> str:
    x = torch.randn(num_nodes, 1, 8)
    return backend.select(ops.plan(batch, num_nodes=num_nodes), x).__name__.rpartition(".")[2]


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ([17] * 64, "plain"),
        ([9, 25, 40] * 20, "plain"),
        ([150] * 128, "tiles"),  # no small graphs
        ([2] * 60 + [60], "tiles"),  # padding
        ([20] * 1_000, "tiles"),  # too many nodes
        ([1] * 5 + [0] * 40, "tiles"),  # hardly a node
    ],
)
@pytest.mark.usefixtures("without_native")
def test_small_even_batches_use_plain(sizes: list[int], name: str) -> None:
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    plan = ops.plan(batch, num_graphs=len(sizes))
    assert backend.select(plan, torch.randn(sum(sizes), 1, 8)).__name__.rpartition(".")[2] == name


@pytest.mark.usefixtures("without_native")
def test_one_graph_is_cut_into_tiles() -> None:
    assert chosen(None, 20) == "tiles"


@pytest.mark.usefixtures("without_native")
def test_a_backward_under_autocast_has_no_half_precision_products() -> None:
    assert chosen(MOLECULES, len(MOLECULES)) == "plain"
    with torch.autocast("cpu"):
        assert chosen(MOLECULES, len(MOLECULES)) == "tiles"


def test_native_computes_single_precision_if_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "load_native", lambda: native)
    assert chosen(None, 20) == "native"
    assert chosen(MOLECULES, len(MOLECULES)) == "native"
    assert backend.select(ops.plan(None, num_nodes=9), torch.randn(9, 1, 8).double()).__name__.endswith("tiles")
    with torch.autocast("cpu"):
        assert chosen(MOLECULES, len(MOLECULES)) == "tiles"
    with FlopCounterMode(display=False):
        assert chosen(None, 20) == "tiles"


@pytest.mark.usefixtures("without_native")
def test_use_backend_names_a_missing_native() -> None:
    with pytest.raises(ValueError, match=r"use_backend: .native. needs mooring-native\. Run pip install"):
        ops.use_backend("native")


def test_use_backend_overrides_the_rule() -> None:
    with ops.use_backend("tiles"):
        assert chosen(MOLECULES, len(MOLECULES)) == "tiles"


def test_all_back_ends_agree_on_molecules() -> None:
    query, key = torch.randn(8, 4, 16).double(), torch.randn(len(MOLECULES), 4, 16).double()
    states = []
    for name in ("tiles", "plain", None):
        with ops.use_backend(name):
            states.append(ops.write(query, key, key, MOLECULES))
    for state in states[1:]:
        torch.testing.assert_close(state.content, states[0].content)
        torch.testing.assert_close(state.log_mass, states[0].log_mass)


def test_a_batch_is_small_up_to_its_limits() -> None:
    def small(*sizes: int) -> bool:
        return plain.is_small(plan(torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))))

    assert small(plain.SMALL_GRAPH, plain.SMALL_GRAPH)
    assert not small(plain.SMALL_GRAPH + 1, plain.SMALL_GRAPH)
    most = plain.SMALL_BATCH // 64
    assert small(*[64] * most)
    assert not small(*[64] * most, 1)
