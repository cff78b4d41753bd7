"""Who is blind to copies and who counts: every module has its audit card, and the cards say what was expected."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from mooring import zoo
from mooring.audit import Adapter, adapt, measure
from zoo.rivals import NAMES, RANDOM_EDGES, build, call

SPEC = zoo.MemorySpec(channels=8, slots=3, heads=2, init_std=0.5)

BLIND = {
    *("vn", "vn-joint", "vn-max", "vn-clones", "vn-independent", "wide-vn-add", "wide-vn-film", "wide-vn-mlp"),
    *("cross-attn", "cross-attn-global-film", "slot-attention", "isab", "perceiver", "range"),
    *("transformer", "performer", "physics-attention", "physics-slices"),
}
COUNT = {
    *("vn-sum", "vn-log-sum", "wide-vn-film-sum", "wide-vn-mlp-sum"),
    *("wide-vn-deep-sum", "wide-vn-mask-sum", "wide-vn-bilinear-sum"),
    *("anchored", "anchored-global-film", "anchored-raw", "moored", "shared-anchor", "lse"),
    # Tokens in the softmax are anchors that nobody reads, yet the content is drawn towards them as nodes get fewer.
    *("registers", "sink"),
    *("acam", "cpa-add", "cpa-scale", "gmt", "gmt-mass", "pna", "deep-sets", "gin-sum"),
}
# Proved to be of no use for a lookup: what a node receives does not depend on the node.
SEPARABLE = {"vn", "wide-vn-add"}
INVARIANTS = ("permutation", "unsorted_index", "batch_mates", "padding", "empty_set", "dtypes")


def woken(name: str, spec: zoo.MemorySpec = SPEC) -> Adapter:
    torch.manual_seed(0)
    module = zoo.build(name, spec)
    assert module is not None
    return adapt(module, channels=spec.channels)


def replicated(name: str, most: int = 6) -> Tensor:
    """What the first node hears of a set repeated once, twice, ... in graphs of one batch."""
    module = build(name, SPEC)
    x = call(SPEC, sizes=(5,)).x
    graphs = torch.arange(most).repeat_interleave(5 * torch.arange(1, most + 1))
    out = module(torch.cat([x.repeat(times, 1) for times in range(1, most + 1)]), graphs).detach()
    first = torch.tensor([int((graphs == graph).nonzero()[0]) for graph in range(most)])
    return out[first]


def test_every_module_is_one_or_the_other() -> None:
    assert set(NAMES) == BLIND | COUNT | RANDOM_EDGES
    assert not BLIND & COUNT


@pytest.mark.parametrize("name", NAMES)
def test_the_card_shows_nothing_broken(name: str) -> None:
    adapter = woken(name)
    findings = [measure(key, adapter, seed=0, trials=2) for key in INVARIANTS]
    broken = {finding.name for finding in findings if finding.broken}
    # Random edges follow the order of the nodes.
    assert broken == ({"permutation", "unsorted_index"} if name in RANDOM_EDGES else set()), findings


@pytest.mark.parametrize("name", sorted(BLIND))
def test_the_card_says_who_is_blind(name: str) -> None:
    finding = measure("replication", woken(name), seed=0, trials=3)
    assert finding.verdict.startswith("blind"), finding


@pytest.mark.parametrize("name", sorted(COUNT))
def test_every_number_of_copies_gives_another_answer(name: str) -> None:
    answers = replicated(name)
    assert float(torch.pdist(answers).min()) > 1e-4
    # They tell numbers from each other in order, not by chance: more copies are further from one.
    assert float((answers[-1] - answers[0]).norm()) > float((answers[1] - answers[0]).norm())


def test_a_blind_module_gives_one_answer() -> None:
    assert float(torch.pdist(replicated("cross-attn")).max()) < 1e-12


@pytest.mark.parametrize("name", ["lse", "gmt"])
def test_a_probe_reads_the_number_off(name: str) -> None:
    finding = measure("replication", woken(name, replace(SPEC, channels=16, slots=8)), seed=0, trials=2)
    assert finding.details["counts"], finding


@pytest.mark.parametrize("name", NAMES)
def test_the_card_says_whose_message_is_the_same_for_all(name: str) -> None:
    finding = measure("separability", woken(name), seed=0, trials=2)
    assert finding.details["separable"] == (name in SEPARABLE), finding
