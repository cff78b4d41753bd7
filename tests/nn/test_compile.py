"""One graph, no breaks, no recompilation once two batch sizes of two nodes or more have been seen; equal to eager."""

import json
import shutil
from pathlib import Path

import pytest

from support import run_script

WORKER = Path(__file__).parent / "compile_worker.py"
GROUPS = [
    ("SlotVirtualNode", "SlotVirtualNode, masked"),
    ("VirtualNode", "VirtualNode, max", "SlotAggregation", "SlotConv"),
    ("film, left out", "residual, left out", "projected residual, left out"),
    ("carried", "HeteroSlotVirtualNode", "norm over graphs", "norm of addresses", "graph features"),
    ("global film, left out", "VirtualNode, left out", "SlotConv, left out"),
]


@pytest.mark.parametrize("names", GROUPS, ids=["slots", "others", "left out of slots", "carried", "left out of others"])
def test_compiles_to_one_graph_for_all_sizes(names: tuple[str, ...]) -> None:
    graphs = json.loads(run_script(WORKER, *names).splitlines()[-1])
    assert list(graphs) == list(names)
    # One for the first sizes seen, one for sizes that change; a third would mean that a size was baked in.
    assert all(1 <= count <= 2 for count in graphs.values()), graphs


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_inductor_lowers_a_batch_whose_number_of_graphs_it_does_not_know() -> None:
    graphs = json.loads(run_script(WORKER, "SlotVirtualNode, inductor").splitlines()[-1])
    assert 1 <= graphs["SlotVirtualNode, inductor"] <= 2


def test_one_node_and_none_are_compiled_apart_as_by_torch_for_any_module() -> None:
    """torch.compile specialises on sizes 0 and 1."""
    graphs = json.loads(run_script(WORKER, "few nodes").splitlines()[-1])
    assert graphs == {"Linear": [1, 2, 3, 4, 4, 4], "SlotVirtualNode": [1, 2, 3, 4, 4, 4]}


def test_compiled_modules_have_tangents() -> None:
    run_script(WORKER, "tangents")
