"""Invariances: the output of a node depends only on the nodes of its graph."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mooring.nn import SlotVirtualNode, VirtualNode
from support import Ragged, assert_close, ragged

from modules import CHANNELS, NAMES, build, inputs, slots  # isort: skip

NAME = st.sampled_from(NAMES)


def pick(tensors: dict[str, Tensor], nodes: Tensor) -> dict[str, Tensor]:
    return {key: tensor[nodes] for key, tensor in tensors.items()}


@given(ragged(3), NAME)
def test_node_order_does_not_matter(batch: Ragged, name: str) -> None:
    module, index, given_ = build(name), batch.index(), inputs(batch, name)
    order = torch.randperm(batch.num_nodes, generator=batch.generator())
    out = module(**given_, batch=index, num_graphs=batch.num_graphs)
    moved = module(**pick(given_, order), batch=index[order], num_graphs=batch.num_graphs)
    assert_close(moved, out[order])


@given(ragged(3), NAME)
def test_batch_mates_graph_order_and_padding_do_not_matter(batch: Ragged, name: str) -> None:
    module, index, given_ = build(name), batch.index(), inputs(batch, name)
    out = module(**given_, batch=index, num_graphs=batch.num_graphs)
    relabel = torch.randperm(batch.num_graphs + 3, generator=batch.generator())
    assert_close(module(**given_, batch=relabel[index], num_graphs=batch.num_graphs + 3), out)
    for graph in range(batch.num_graphs):
        mine = index == graph
        assert_close(module(**pick(given_, mine)), out[mine])


@given(ragged(3), NAME)
def test_only_sources_write_and_only_targets_change(batch: Ragged, name: str) -> None:
    module, index, given_ = build(name), batch.index(), inputs(batch, name)
    sources, targets = batch.mask(salt=4), batch.mask(salt=5)
    masks = {"batch": index, "sources": sources, "targets": targets, "num_graphs": batch.num_graphs}
    out = module(**given_, **masks)
    assert torch.equal(out[~targets], given_["x"][~targets])
    # What a node that does not write holds reaches no one else.
    changed = given_["x"] + (~sources).unsqueeze(-1) * batch.randn(batch.num_nodes, CHANNELS, salt=6)
    readers = sources & targets
    assert_close(module(**{**given_, "x": changed}, **masks)[readers], out[readers])


@given(ragged(3, 5), NAME, st.integers(2, 3))
def test_log_weight_is_a_number_of_copies(batch: Ragged, name: str, copies: int) -> None:
    module, index, given_ = build(name), batch.index(), inputs(batch, name)
    weight = torch.full((batch.num_nodes,), math.log(copies), dtype=torch.float64)
    weighed = module(**given_, batch=index, log_weight=weight, num_graphs=batch.num_graphs)
    repeated = {key: tensor.repeat(copies, 1) for key, tensor in given_.items()}
    copied = module(**repeated, batch=index.repeat(copies), num_graphs=batch.num_graphs)
    assert_close(weighed, copied[: batch.num_nodes])


def change_when_doubled(module: SlotVirtualNode | VirtualNode) -> float:
    x = Ragged((7,), True, seed=1).randn(7, CHANNELS)
    return float((module(x.repeat(2, 1))[:7] - module(x)).detach().abs().max())  # type: ignore[operator,union-attr]


def test_anchors_see_a_doubled_graph_and_plain_attention_does_not() -> None:
    """``prop:replication``; the mean is blind too, and the sum is not."""
    blind, seeing = (
        ("cross-attn", "free, cross-attn", "mean", "max", "clones"),
        ("anchored", "anchored, log-odds", "anchored, mixture", "sum"),
    )
    for name in blind:
        assert change_when_doubled(build(name)) < 1e-12, name  # type: ignore[arg-type]
    for name in seeing:
        assert change_when_doubled(build(name)) > 1e-4, name  # type: ignore[arg-type]


def test_a_memory_shared_by_the_batch_fails_the_same_check() -> None:
    """The control: without ``batch`` all nodes are one graph, and batch mates matter."""
    batch = Ragged((3, 5), True, seed=1)
    module, x = slots().double(), inputs(batch, "anchored")["x"]
    with pytest.raises(AssertionError):
        assert_close(module(x)[:3], module(x[:3]))
