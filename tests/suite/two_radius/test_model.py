from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from mooring.suite.two_radius import TwoRadiusExperiment, TwoRadiusNet
from mooring.suite.two_radius.data import CountedTask, TwoRadiusBatch, stream
from mooring.suite.two_radius.experiment import PAPER, TINY
from mooring.suite.two_radius.metrics import losses

MODELS = ["mpnn", "vn", "cross-attn", "anchored"]
CONFIG = replace(TINY, init_std=0.5)
FULL = CountedTask(num_identifiers=5, num_centres=1, rendering="full")
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}


def network(model: str, dtype: torch.dtype = torch.float64, **changes: Any) -> TwoRadiusNet:
    """A network whose memory is far from the identity, so that a fault in it shows in the logits."""
    torch.manual_seed(0)
    net = TwoRadiusExperiment(replace(CONFIG, **changes), model, seed=0).build()
    assert isinstance(net, TwoRadiusNet)
    return net.to(dtype)


def outcome(net: TwoRadiusNet, batch: TwoRadiusBatch) -> dict[str, Tensor]:
    """Logits, loss and the gradient of every parameter."""
    answer = net(batch)
    loss = sum(losses(answer, batch).values(), torch.zeros(()))
    net.zero_grad()
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in net.named_parameters() if parameter.grad is not None}
    assert answer.count is not None
    return {"label": answer.label.detach(), "count": answer.count.detach(), "loss": loss.detach(), **gradients}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("model", [*MODELS, "vn-sum"])
def test_collapsed_rendering_gives_the_same_logits_loss_and_gradients(model: str, dtype: torch.dtype) -> None:
    net = network(model, dtype)
    full, collapsed = (
        outcome(net, replace(FULL, rendering=rendering).batch(7, stream(0, "train")))  # type: ignore[arg-type]
        for rendering in ("full", "collapsed")
    )
    assert full.keys() == collapsed.keys()
    for name, value in full.items():
        # A sum-pooled state grows with the number of sources, and rounding grows with it.
        scale = max(1.0, float(value.abs().max()))
        torch.testing.assert_close(collapsed[name] / scale, value / scale, rtol=0, atol=TOLERANCE[dtype], msg=name)


def test_ignoring_multiplicities_is_noticed() -> None:
    net = network("anchored")
    full = FULL.batch(7, stream(0, "train"))
    collapsed = replace(FULL, rendering="collapsed").batch(7, stream(0, "train"))
    once = replace(collapsed, multiplicity=torch.ones_like(collapsed.multiplicity))
    assert (outcome(net, full)["count"] - outcome(net, once)["count"]).abs().max() > 1e-3


def spread_over_scales(net: TwoRadiusNet) -> float:
    """Largest difference between the logits of one target at different scales."""
    batch = FULL.batch(7, stream(0, "train"))
    with torch.no_grad():
        answer = net(batch)
    assert answer.count is not None
    logits = torch.cat([answer.label, answer.count], dim=1).view(7, 3, 5, -1)
    identifier = batch.identifier[batch.targets].view(7, 3, 5)
    by_identifier = logits.gather(2, identifier.argsort(dim=2)[..., None].expand_as(logits))
    return float((by_identifier - by_identifier[:, :1]).abs().max())


@pytest.mark.parametrize("model", ["mpnn", "mpnn-additive", "mpnn-summed", "vn", "vn-joint", "vn-max", "cross-attn"])
def test_normalised_variants_are_blind_to_replication(model: str) -> None:
    assert spread_over_scales(network(model)) < 1e-12


@pytest.mark.parametrize("model", ["anchored", "vn-sum"])
def test_variants_with_a_mass_are_not(model: str) -> None:
    assert spread_over_scales(network(model)) > 1e-3


@pytest.mark.parametrize("model", MODELS)
def test_answers_do_not_depend_on_batch_mates(model: str) -> None:
    net = network(model)
    batch = FULL.batch(1, stream(0, "train"))
    bigger = FULL.batch(1, stream(0, "train", step=1))
    start, edges = batch.num_nodes, batch.edge_index.size(1)
    together = TwoRadiusBatch(
        **{
            name: torch.cat([getattr(batch, name), getattr(bigger, name)])
            for name in ("identifier", "label", "role", "multiplicity", "y_label", "y_count", "scale")
        },
        edge_index=torch.cat([batch.edge_index, bigger.edge_index + start], dim=1),
        batch=torch.cat([batch.batch, bigger.batch + batch.num_graphs]),
        num_graphs=batch.num_graphs + bigger.num_graphs,
    )
    assert together.edge_index.size(1) > edges
    torch.testing.assert_close(net(together).label[: len(batch.y_label)], net(batch).label, rtol=1e-12, atol=1e-12)


def test_variants_share_one_backbone_and_differ_in_the_memory_only() -> None:
    shapes = []
    for model in MODELS:
        parameters = TwoRadiusExperiment(PAPER, model, seed=0).build().named_parameters()
        shapes.append({name: value.shape for name, value in parameters if not name.startswith("memory.")})
    assert shapes[0] == shapes[1] == shapes[2] == shapes[3]
    count = sum(shape.numel() for shape in shapes[0].values())
    embeddings = (13 + 13 + 3) * 128
    encoder = (3 * 128 + 1) * 128 + (128 + 1) * 128 + 2 * 128
    convs = 3 * ((2 * 128 + 1) * 128 + (128 + 1) * 128)
    heads = 2 * ((128 + 1) * 128 + (128 + 1) * 12)
    assert count == embeddings + encoder + convs + heads


def test_anchors_and_mass_are_all_that_anchored_adds() -> None:
    plain, anchored = (
        {name: value.shape for name, value in network(model).named_parameters()} for model in ("cross-attn", "anchored")
    )
    assert {name.split(".")[2] for name in anchored.keys() - plain.keys()} == {
        "anchor_logit",
        "anchor_value",
        "mass_mlp",
    }
    assert plain.items() <= anchored.items()


def test_memory_is_handed_out_when_asked_for() -> None:
    batch = FULL.batch(2, stream(0, "train"))
    net = network("anchored")
    assert net(batch).memory is None
    assert net(batch, return_state=True).memory.content.shape == (6, 5, 32)
    torch.testing.assert_close(net(batch).label, net(batch, return_state=True).label)
