"""What is checked of every module, and what comes out: the table that docs/compatibility.md is written from.

A check is a small function that raises where something does not hold. Beside it stands the outcome for each module:
it works, or it fails with these words. ``test_compatibility.py`` runs all of them.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode
from torch_geometric.data import Batch, Data
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import GATConv, GraphSAGE, HeteroConv, MessagePassing, SAGEConv
from torch_geometric.nn.aggr import MultiAggregation
from torch_geometric.transforms import VirtualNode

from mooring import ops

from compared import BATCH, CHANNELS, EDGES, HEADS, OURS, Subject  # isort: skip


@dataclass(frozen=True)
class Fails:
    """A check that fails with an error that has these words; ``note`` says so on the page.

    ``other_words`` has the words of subjects whose error is another.
    """

    words: str
    note: str
    other_words: Mapping[str, str] = field(default_factory=dict)


WORKS = "works"
Outcome = str | Fails
NO_ARGUMENT = Fails("unexpected keyword argument", "There is no such argument.")


@dataclass(frozen=True)
class Check:
    """One line of the page.

    Args:
        section, title: where it is and what it says.
        run: raises where it does not hold; None where tests elsewhere prove it.
        outcomes: of each module that it applies to.
        note: what a user should know although it works.
        proof: ids of tests elsewhere that prove it of Mooring's modules.
        modules: those that tests elsewhere prove it of; empty for all.
    """

    section: str
    title: str
    run: Callable[[Subject], None] | None
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    note: str = ""
    proof: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        assert self.run is not None
        return self.run.__name__


CHECKS: list[Check] = []


def check(
    section: str,
    title: str,
    *,
    ours: tuple[str, ...] | Fails = OURS,
    gps: Outcome | None = None,
    sets: Outcome | None = None,
    transform: Outcome | None = None,
    note: str = "",
    proof: tuple[str, ...] = (),
) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
    """Put a function into the table; a module without an outcome is one that the check does not apply to."""
    outcomes: dict[str, Outcome] = dict.fromkeys(OURS, ours) if isinstance(ours, Fails) else dict.fromkeys(ours, WORKS)
    peers = {"GPSConv": gps, "SetTransformerAggregation": sets, "VirtualNode transform": transform}
    outcomes |= {name: one for name, one in peers.items() if one is not None}

    def keep(run: Callable[[Subject], None]) -> Callable[[Subject], None]:
        CHECKS.append(Check(section, title, run, outcomes, note, proof))
        return run

    return keep


def proven(section: str, title: str, *proof: str, modules: tuple[str, ...], note: str = "") -> None:
    """A line that tests elsewhere prove of these modules."""
    CHECKS.append(Check(section, title, None, {}, note, proof, modules))


def same(one: Tensor, other: Tensor, words: str, tolerance: float = 1e-5) -> None:
    assert one.shape == other.shape, f"{words}: {tuple(one.shape)} and {tuple(other.shape)}"
    assert torch.allclose(one, other, rtol=0.0, atol=tolerance * max(1.0, float(other.detach().abs().max()))), words


def features(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*(shape or (7, CHANNELS)), generator=torch.Generator().manual_seed(1), dtype=dtype)


def double(subject: Subject) -> nn.Module:
    return subject.build().double().eval()


def function(subject: Subject) -> Callable[[Tensor], Tensor]:
    module = double(subject)
    return lambda x: subject.call(module, x, BATCH)


def _mates(subject: Subject, training: bool) -> None:
    module, x = double(subject).train(training), features()
    together, alone = subject.call(module, x, BATCH), subject.call(module, x[:4], edges=EDGES[:, :3])
    same(together[: len(alone)], alone, "the output depends on batch mates")


@check("Batches", "a graph gets the same output alone and in a batch", gps=WORKS, sets=WORKS, transform=WORKS)
def batch_mates(subject: Subject) -> None:
    _mates(subject, training=False)


@check(
    "Batches",
    "the same while training",
    gps=Fails("depends on batch mates", "BatchNorm, its default, mixes the graphs of a batch."),
    sets=WORKS,
    transform=WORKS,
)
def batch_mates_in_training(subject: Subject) -> None:
    _mates(subject, training=True)


@check(
    "Batches",
    "nodes of a batch in any order",
    gps=Fails("order of the nodes", "Unsorted ids are answered wrongly, or end in an error about shapes."),
    sets=Fails("not sorted", "It asks for sorted ids."),
    transform=WORKS,
)
def any_order(subject: Subject) -> None:
    module, x, order = double(subject), features(6, CHANNELS), torch.tensor([0, 2, 1, 3, 4, 5])
    batch, edges = torch.tensor([0, 0, 1, 1, 1, 1]), torch.tensor([[0, 2, 3], [1, 3, 4]])
    out = subject.call(module, x, batch, edges=edges)
    shuffled = subject.call(module, x[order], batch[order], edges=order.argsort()[edges])
    same(shuffled, out[order] if subject.per_node else out, "the order of the nodes changes the output")


@check("Batches", "a graph without nodes among the others: finite values and gradients", gps=WORKS, sets=WORKS)
def empty_graph(subject: Subject) -> None:
    module, x = double(subject), features().requires_grad_()
    out = subject.call(module, x, 2 * BATCH)
    out.square().sum().backward()
    grads = [x.grad, *(one.grad for one in module.parameters() if one.grad is not None)]
    assert all(bool(one.isfinite().all()) for one in (out, *grads)), "not finite"
    compact = subject.call(module, x, BATCH)
    same(out if subject.per_node else out[[0, 2]], compact, "an empty graph changes the others")


NO_LARGEST = Fails("max()", "It asks for the largest of no ids.")


@check("Batches", "a batch without nodes", gps=NO_LARGEST, sets=NO_LARGEST)
def no_nodes(subject: Subject) -> None:
    out = subject.call(double(subject), features(0, CHANNELS), BATCH[:0], edges=EDGES[:, :0])
    assert out.size(0) == 0


@check("Batches", "`int32` graph ids", gps=WORKS, sets=WORKS)
def int32(subject: Subject) -> None:
    module, x = double(subject), features()
    same(subject.call(module, x, BATCH.int()), subject.call(module, x, BATCH), "int32 changes the output")


@check(
    "Batches",
    "`ptr` in place of ids",
    gps=NO_ARGUMENT,
    sets=Fails("requires 'index'", "`ptr` is taken beside ids, not in place of them."),
)
def ptr(subject: Subject) -> None:
    module, x = double(subject), features()
    out = subject.call(module, x, None, ptr=torch.tensor([0, 4, 7]))
    same(out, subject.call(module, x, BATCH), "ptr and batch disagree")


@check(
    "Batches", "one `ops.plan` for all layers", proof=("tests/nn/test_carried.py::test_one_plan_serves_five_layers",)
)
def plan(subject: Subject) -> None:
    module, x = double(subject), features()
    same(subject.call(module, x, ops.plan(BATCH)), subject.call(module, x, BATCH), "the plan changes the output")


PROPORTIONS = "A softmax over the nodes knows proportions only."


@check(
    "What a memory can do",
    "everything there twice is noticed",
    gps=Fails("nobody counts", PROPORTIONS),
    sets=Fails("nobody counts", PROPORTIONS),
    transform=WORKS,
    note="With anchors, the default. For the transform it is the sum of the convolution that counts.",
)
def counts(subject: Subject) -> None:
    module, x, edges = double(subject), features(), EDGES[:, :0]
    out = subject.call(module, x, edges=edges)
    twice = subject.call(module, x.repeat(2, 1), edges=edges)[: len(out)]
    assert not torch.allclose(out, twice), "nobody counts"


@check(
    "What a memory can do",
    "only some nodes write, only some are changed",
    ours=("SlotVirtualNode", "SlotConv", "HeteroSlotVirtualNode"),
    gps=NO_ARGUMENT,
    sets=NO_ARGUMENT,
    note="`sources` and `targets`; `SlotConv` takes them in `memory_kwargs`.",
    proof=("tests/nn/test_invariance.py::test_only_sources_write_and_only_targets_change",),
)
def sources(subject: Subject) -> None:
    module, x, some = double(subject), features(), torch.tensor([True, False, True, True, True, True, False])
    given: dict[str, Any] = {"sources": some}
    given = {"memory_kwargs": given} if subject.name == "SlotConv" else given
    other = torch.where(some.unsqueeze(1), x, x + 1)
    edges = EDGES[:, :0]
    out, moved = (subject.call(module, one, BATCH, edges=edges, **given)[some] for one in (x, other))
    same(out, moved, "a node that is no source is heard")


@check(
    "What a memory can do",
    "multiplicities: `log_weight = log c` is c copies",
    ours=("SlotVirtualNode", "HeteroSlotVirtualNode"),
    gps=NO_ARGUMENT,
    sets=NO_ARGUMENT,
    proof=("tests/nn/test_invariance.py::test_log_weight_is_a_number_of_copies",),
)
def multiplicity(subject: Subject) -> None:
    module, x = double(subject), features()
    weight = torch.tensor([3.0, 1, 1, 1, 1, 1, 1]).double().log()
    out = subject.call(module, x, log_weight=weight)
    copies = subject.call(module, torch.cat([x, x[:1], x[:1]]))[:7]
    same(out, copies, "a weight is not a number of copies")


@check(
    "What a memory can do",
    "a bias of the score per node, slot and head",
    ours=("SlotVirtualNode",),
    gps=NO_ARGUMENT,
    sets=NO_ARGUMENT,
)
def bias(subject: Subject) -> None:
    module, x, slot = double(subject), features(), torch.arange(7) % 3
    chosen = torch.full((7, 3, HEADS), float("-inf")).double()
    chosen[torch.arange(7), slot] = 0.0
    _, inside = subject.call(module, x, BATCH, log_weight=chosen, return_state=True)  # type: ignore[misc]
    assert bool((inside.write_weights[torch.arange(7), slot] > 0).all()), "a node does not write to its slot"
    assert int((inside.write_weights > 0).sum()) == 7 * HEADS, "a node writes to another slot"


@check(
    "What a memory can do",
    "attention weights come out",
    gps=NO_ARGUMENT,
    sets=NO_ARGUMENT,
    proof=("tests/nn/test_attention.py::test_the_weights_of_an_aggregation_are_those_it_averages_with",),
)
def weights(subject: Subject) -> None:
    _, inside = subject.call(double(subject), features(), BATCH, return_state=True)  # type: ignore[misc]
    graphs = BATCH.repeat(len(inside.write_weights) // len(BATCH))  # one type after the other
    total = torch.zeros(2, 3, HEADS).double().index_add(0, graphs, inside.write_weights)
    same(total, torch.ones_like(total), "weights do not sum to one")


@check(
    "What a memory can do",
    "the state lives through the layers",
    ours=("SlotVirtualNode", "SlotConv", "HeteroSlotVirtualNode"),
    gps=NO_ARGUMENT,
    transform=WORKS,
    note="`memory=` and `return_state=True`; the transform's virtual node is a node, and its features are the state.",
    proof=(
        "tests/nn/test_carried.py::test_slots_of_the_layer_before_are_queries_and_residual",
        "tests/nn/test_carried.py::test_a_killed_and_resumed_run_equals_an_uninterrupted_run",
        "tests/nn/test_distributed.py::test_sharded_layers_and_a_carried_memory",
    ),
)
def carried(subject: Subject) -> None:
    module, x = double(subject), features()
    if subject.name == "VirtualNode transform":
        data = VirtualNode()(Data(x=x, edge_index=EDGES))
        assert bool(module(data.x, data.edge_index)[-1].any()), "the virtual node has no state"
        return
    out, inside = subject.call(module, x, BATCH, return_state=True)  # type: ignore[misc]
    assert not torch.allclose(subject.call(module, x, BATCH, memory=inside), out), "the memory is not carried"


@check(
    "What a memory can do",
    "a batch that PyG has made already",
    gps=WORKS,
    sets=WORKS,
    transform=Fails("other graphs are heard", "One virtual node is linked to all graphs: transform before batching."),
)
def made_already(subject: Subject) -> None:
    x = features().requires_grad_()
    batch = Batch.from_data_list([Data(x=x[:4], edge_index=EDGES[:, :3]), Data(x=x[4:], edge_index=EDGES[:, 3:] - 4)])
    module = double(subject)
    if subject.name == "VirtualNode transform":
        data = VirtualNode()(batch)
        out = module(data.x, data.edge_index)[:4]
    else:
        out = subject.call(module, batch.x, batch.batch, edges=batch.edge_index)
        out = out[:4] if subject.per_node else out[:1]
    (out * features(*out.shape)).sum().backward()
    assert x.grad is not None
    assert not bool(x.grad[4:].any()), "other graphs are heard"


proven(
    "What a memory can do",
    "one memory for several node types, exact",
    "tests/nn/test_hetero_slot_virtual_node.py::test_shared_projections_equal_one_type_with_all_nodes",
    modules=("HeteroSlotVirtualNode",),
    note="With shared projections it equals the module for one type on all nodes together, to 1e-10.",
)
proven(
    "What a memory can do",
    "dropout of attention and of messages",
    "tests/nn/test_projections.py::test_dropout_is_off_in_eval_and_keeps_masses_on_average",
    "tests/nn/test_hetero_slot_virtual_node.py::test_dropout_is_off_in_eval_and_drops_writes_in_training",
    modules=("SlotVirtualNode", "HeteroSlotVirtualNode"),
)
proven(
    "What a memory can do",
    "nodes left out may hold NaN",
    "tests/nn/test_left_out.py::test_of_a_virtual_node",
    "tests/nn/test_left_out.py::test_of_a_convolution",
    "tests/nn/test_hetero_slot_virtual_node.py::test_nodes_left_out_have_no_influence_whatever_they_hold",
    modules=("SlotVirtualNode", "SlotConv", "HeteroSlotVirtualNode"),
)


SETS = ("SlotAggregation",)
BY_TARGET = EDGES[:, EDGES[1].argsort(stable=True)]
NEEDS_SORTED = Fails("not sorted", "It asks for edges sorted by target.")


class Neighbours(MessagePassing):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)


@check("In PyG", "`aggr=` of a convolution", ours=SETS, sets=WORKS)
def as_aggr(subject: Subject) -> None:
    conv, x = Neighbours(aggr=double(subject)), features()
    out = conv(x, BY_TARGET)
    for node in range(7):
        heard = x[EDGES[0, EDGES[1] == node]]
        if len(heard):
            same(out[node], conv.aggr_module(heard)[0], "a neighbourhood is not aggregated on its own")


@check("In PyG", "the same with edges in any order", ours=SETS, sets=NEEDS_SORTED)
def as_aggr_unsorted(subject: Subject) -> None:
    conv, x = Neighbours(aggr=double(subject)), features()
    edges = torch.tensor([[0, 4, 1, 5, 2, 3], [1, 5, 2, 5, 1, 2]])
    same(conv(x, edges), conv(x, edges[:, edges[1].argsort(stable=True)]), "the order of the edges matters")


@check(
    "In PyG",
    "`aggr=` of an attention layer, whose messages have heads",
    ours=SETS,
    sets=Fails("two-dimensional inputs", "It takes one vector per message."),
)
def as_aggr_of_heads(subject: Subject) -> None:
    conv, x = GATConv(CHANNELS, CHANNELS, heads=3, add_self_loops=False, aggr=subject.build()).double(), features()
    assert conv(x, BY_TARGET).shape == (7, 3 * CHANNELS)
    heads = features(BY_TARGET.size(1), 3, CHANNELS)
    out = conv.aggr_module(heads, BY_TARGET[1], dim=0)
    same(out[:, 1], conv.aggr_module(heads[:, 1], BY_TARGET[1]), "heads are not aggregated each on its own")


@check("In PyG", "inside a `MultiAggregation`", ours=SETS, sets=WORKS)
def multi_aggregation(subject: Subject) -> None:
    multi, x = MultiAggregation([double(subject), "mean"]), features()
    alone = subject.call(multi.aggrs[0], x, BATCH)
    same(subject.call(multi, x, BATCH)[:, : alone.size(1)], alone, "another aggregation")


@check(
    "In PyG",
    "by name, each layer of a `BasicGNN` its own",
    ours=SETS,
    sets=WORKS,
    note='`aggr="slot"`, once `mooring` is imported.',
)
def by_name(subject: Subject) -> None:
    kwargs = {"channels": CHANNELS, "heads": HEADS}
    kwargs |= {"slots": 3} if subject.name in OURS else {"num_seed_points": 1}
    name = "slot" if subject.name in OURS else subject.name
    net = GraphSAGE(CHANNELS, CHANNELS, num_layers=3, aggr=name, aggr_kwargs=kwargs).double()
    assert net(features(), BY_TARGET).shape == (7, CHANNELS)
    assert len({id(conv.aggr_module) for conv in net.convs}) == 3


@check("In PyG", "inside a `HeteroConv`", ours=SETS, sets=WORKS)
def hetero_conv(subject: Subject) -> None:
    aggr = {"aggr": subject.build()} if subject.name in OURS else {"aggr": type(subject.build())(CHANNELS, heads=HEADS)}
    conv = HeteroConv({("a", "to", "b"): SAGEConv((CHANNELS, CHANNELS), 5, **aggr)}).double()
    out = conv({"a": features(), "b": features(7, CHANNELS)}, {("a", "to", "b"): BY_TARGET})
    assert out["b"].shape == (7, 5)


NOT_LAZY = Fails("got embed_dim=-1", "There are no lazy channels.")


@check(
    "In PyG",
    "channels of -1, known after the first call",
    gps=NOT_LAZY,
    sets=NOT_LAZY,
    proof=("tests/nn/test_lazy.py::test_after_the_first_call_it_is_the_module_of_that_width",),
)
def lazy(subject: Subject) -> None:
    known = subject.build()
    args = {"SlotConv": (None, 3, HEADS), "GPSConv": (None, HEADS), "SetTransformerAggregation": (3, 1, 1, HEADS)}
    module = type(known)(-1, *args.get(subject.name, (3, HEADS)))
    subject.call(module, features(dtype=torch.float32), BATCH)
    assert not any(isinstance(one, nn.parameter.UninitializedParameter) for one in module.parameters())


@check(
    "In PyG",
    "bipartite input: senders and receivers of their own widths",
    ours=("SlotConv",),
    gps=Fails("and 'tuple'", "It takes one tensor of features."),
)
def bipartite(subject: Subject) -> None:
    module = type(subject.build())(CHANNELS, SAGEConv((5, CHANNELS), CHANNELS), HEADS)
    assert module((features(7, 5).float(), features().float()), EDGES, BATCH).shape == (7, CHANNELS)


@check("In PyG", "norms that see one graph at a time (`graph_norm`)", ours=("SlotConv",), gps=WORKS)
def graph_norm(subject: Subject) -> None:
    built = type(subject.build())
    module = built(CHANNELS, None, HEADS, norm="graph_norm").double()
    x = features()
    same(module(x, EDGES, BATCH)[:4], module(x[:4], EDGES[:, :0]), "other graphs are in the norm")


class Wrapped(nn.Module):
    """A network as PyG's explainers call it."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.subject, self.module, self.conv = subject, double(subject), GATConv(CHANNELS, CHANNELS).double()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.subject.call(self.module, self.conv(x, edge_index), edges=edge_index)


@check("In PyG", "`GNNExplainer`", gps=WORKS, sets=WORKS)
def explainer(subject: Subject) -> None:
    settings = {"mode": "regression", "task_level": "graph", "return_type": "raw"}
    algorithm = GNNExplainer(epochs=2)
    explain = Explainer(
        Wrapped(subject), algorithm, explanation_type="model", node_mask_type="object", model_config=settings
    )
    assert explain(features(), EDGES, target=None).node_mask.shape == (7, 1)


proven(
    "In PyG",
    "`AttentionExplainer`",
    "tests/nn/test_attention.py::test_pygs_explainer_finds_the_attention_of_the_local_layer",
    "tests/nn/test_attention.py::test_pygs_explainer_cannot_find_the_attention_of_slots",
    modules=("SlotConv",),
    note="It finds the attention of the local layer. It looks for one number per edge, which slots do not have: use "
    "`return_state=True` for theirs.",
)
proven(
    "In PyG",
    "`to_hetero`",
    "tests/nn/test_lazy.py::test_to_hetero_gives_each_type_a_separate_width",
    modules=("SlotVirtualNode",),
    note="Each type gets a memory of its own; for one that all types share use `HeteroSlotVirtualNode`. A `SlotConv` "
    "in it raises.",
)
proven(
    "In PyG",
    "sampled neighbourhoods (`NeighborLoader`)",
    "tests/examples/test_scripts.py::test_neighbor_loader",
    modules=("SlotVirtualNode",),
    note="With `sources` and `log_weight`, the memory counts the whole graph; see `examples/neighbor_loader.py`.",
)


UNFUSED = "with `sdpa_kernel(SDPBackend.MATH)` it works."
NO_SECOND = Fails(
    "derivative for aten::_scaled_dot_product_flash_attention",
    "PyTorch's fused attention has no second derivative "
    f"([pytorch#116350](https://github.com/pytorch/pytorch/issues/116350)); {UNFUSED}",
)
NO_FORWARD = Fails(
    "Trying to use forward AD",
    "PyTorch's fused attention has no forward mode "
    f"([pytorch#128971](https://github.com/pytorch/pytorch/issues/128971)); {UNFUSED}",
)


@check("Derivatives", "gradients against differences (`gradcheck`)", gps=WORKS, sets=WORKS)
def first(subject: Subject) -> None:
    assert torch.autograd.gradcheck(function(subject), (features().requires_grad_(),), fast_mode=True)


@check(
    "Derivatives",
    "second derivatives (`gradgradcheck`), as forces need",
    gps=NO_SECOND,
    sets=NO_SECOND,
    proof=(
        "tests/nn/test_derivatives.py::test_second_derivatives",
        "tests/examples/test_scripts.py::test_force_field",
    ),
)
def second(subject: Subject) -> None:
    call = function(subject)
    assert torch.autograd.gradgradcheck(lambda x: call(x).tanh(), (features().requires_grad_(),), fast_mode=True)


@check(
    "Derivatives",
    "forward mode (`torch.func.jvp`)",
    gps=NO_FORWARD,
    sets=NO_FORWARD,
    proof=("tests/nn/test_derivatives.py::test_forward_mode_is_the_difference_quotient",),
)
def jvp(subject: Subject) -> None:
    call, x, tangent, step = function(subject), features(), features(7, CHANNELS).flip(0), 1e-6
    _, found = torch.func.jvp(call, (x,), (tangent,))
    same(found, (call(x + step * tangent) - call(x - step * tangent)) / (2 * step), "another slope")


class Called(nn.Module):
    """A module that takes features and ids alone."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.subject, self.module = subject, subject.build().eval()

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        return self.subject.call(self.module, x, batch)


def total(subject: Subject) -> Callable[[Tensor], Tensor]:
    call = function(subject)
    return lambda x: call(x).sin().sum()


@check("Derivatives", "`torch.func.grad` and `jacrev`", gps=WORKS, sets=WORKS)
def functional(subject: Subject) -> None:
    call, x = total(subject), features()
    (expected,) = torch.autograd.grad(call(x.requires_grad_()), x)
    same(torch.func.grad(call)(x.detach()), expected, "another gradient")
    same(torch.func.jacrev(call)(x.detach()), expected, "another gradient")


@check("Derivatives", "`torch.func.hessian`", gps=NO_FORWARD, sets=NO_FORWARD)
def hessian(subject: Subject) -> None:
    call, x = total(subject), features()
    same(torch.func.hessian(call)(x), torch.autograd.functional.hessian(call, x), "another curvature")


PADS = Fails("vmap: index_put_", "`vmap` cannot write into the padded tensor that both make of a batch.")


@check("Derivatives", "`vmap` over features, ids being the same", gps=PADS, sets=PADS)
def vmap(subject: Subject) -> None:
    call, many = function(subject), torch.stack([features(), features() + 1])
    same(torch.func.vmap(call)(many)[1], call(many[1]), "another output")


@check("Derivatives", "gradients per example (`vmap` of `grad` of `functional_call`)", gps=PADS, sets=PADS)
def per_example(subject: Subject) -> None:
    module, many = Called(subject).double(), torch.stack([features(), features() + 1])
    parameters = {name: one.detach() for name, one in module.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(module, parameters, (x, BATCH)).sin().sum()

    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, many)
    for name, grad in torch.func.grad(loss)(parameters, many[1]).items():
        same(found[name][1], grad, "another gradient")


proven(
    "Derivatives",
    "`functional_call` of a memory for several node types",
    "tests/nn/test_hetero_slot_virtual_node.py::test_functional_call_leaves_tensors_in_place_of_shared_parameters",
    modules=("HeteroSlotVirtualNode",),
    note="Values are right, but PyTorch leaves tensors in place of parameters that types share "
    "([pytorch#164759](https://github.com/pytorch/pytorch/issues/164759)): call a copy of the module.",
)

VALUES = "Sizes depend on values there ([functorch#257](https://github.com/pytorch/functorch/issues/257))."


@check(
    "Derivatives",
    "`vmap` over batches of different graphs",
    ours=Fails("make one batch of all examples", f"{VALUES} The error says so: make one batch of all examples."),
    gps=Fails("vmap", VALUES),
    sets=Fails("vmap", VALUES),
)
def vmap_batches(subject: Subject) -> None:
    module, many = double(subject), torch.stack([features(), features() + 1])
    torch.func.vmap(lambda x, batch: subject.call(module, x, batch))(many, torch.stack([BATCH, BATCH.flip(0)]))


def linears(module: nn.Module) -> dict[str, nn.Linear]:
    return {name: one for name, one in module.named_modules() if isinstance(one, nn.Linear)}


def train_once(subject: Subject, module: nn.Module, x: Tensor) -> Tensor:
    out = subject.call(module, x, BATCH)
    (out * features(*out.shape).to(out.dtype)).sum().backward()
    return out


READS_WEIGHTS = "`nn.MultiheadAttention` reads the weights of its output projection and does not call it."
BYPASSED = Fails("out_proj'", READS_WEIGHTS)
IDLE = Fails("out_proj.lora_B", f"{READS_WEIGHTS} That adapter gets no gradient.")


@check(
    "Wrapped projections",
    "forward hooks of every `nn.Linear` fire",
    gps=BYPASSED,
    sets=BYPASSED,
    transform=WORKS,
    proof=("tests/nn/test_projections.py::test_hooks_fire_whatever_the_batch",),
)
def hooks(subject: Subject) -> None:
    module, fired = double(subject), set()
    for name, one in linears(module).items():
        one.register_forward_hook(lambda *_, name=name: fired.add(name))
    subject.call(module, features(), BATCH)
    missed = [name for name in linears(module) if name not in fired]
    assert not missed, f"are bypassed: {missed}"


@check(
    "Wrapped projections",
    "hooks registered for all modules at once",
    ours=Fails("are bypassed", "A plain projection may be folded instead of called. Register hooks where they matter."),
    gps=BYPASSED,
    sets=BYPASSED,
    transform=WORKS,
)
def global_hooks(subject: Subject) -> None:
    module, fired = double(subject), set()
    handle = nn.modules.module.register_module_forward_hook(lambda one, *_: fired.add(id(one)))
    try:
        subject.call(module, features(40, CHANNELS), torch.arange(40) // 20)
    finally:
        handle.remove()
    missed = [name for name, one in linears(module).items() if id(one) not in fired]
    assert not missed, f"are bypassed: {missed}"


@check(
    "Wrapped projections",
    "LoRA adapters (peft) on every `nn.Linear` learn",
    gps=IDLE,
    sets=IDLE,
    transform=WORKS,
    proof=(
        "tests/nn/test_projections.py::test_peft_adapters_learn_and_merge",
        "tests/nn/test_projections.py::test_peft_adapts_slots_for_all_node_types",
    ),
)
def lora(subject: Subject) -> None:
    peft = pytest.importorskip("peft", reason="peft is for development: pip install 'mooring[dev]'")
    module = subject.build()
    adapted = peft.get_peft_model(module, peft.LoraConfig(r=2, target_modules=list(linears(module))))
    train_once(subject, adapted, features(dtype=torch.float32))
    grads = {name: one.grad for name, one in adapted.named_parameters() if "lora_B" in name}
    idle = [name for name, grad in grads.items() if grad is None or not bool(grad.any())]
    assert grads, "no adapters"
    assert not idle, f"adapters without a gradient: {idle}"


@check("Wrapped projections", "parametrised weights (`weight_norm`)", gps=WORKS, sets=WORKS, transform=WORKS)
def parametrised(subject: Subject) -> None:
    module, x = double(subject), features()
    expected = subject.call(module, x, BATCH).detach()
    for one in linears(module).values():
        parametrizations.weight_norm(one)
    same(train_once(subject, module, x), expected, "another output")
    assert all(one.grad is not None for name, one in module.named_parameters() if "original" in name), "no gradient"


@check("Wrapped projections", "dynamic quantisation (`quantize_dynamic`)", gps=WORKS, sets=WORKS, transform=WORKS)
def quantised(subject: Subject) -> None:
    module, x = subject.build().eval(), features(dtype=torch.float32)
    expected = subject.call(module, x, BATCH)
    found = subject.call(torch.ao.quantization.quantize_dynamic(module, {nn.Linear}), x, BATCH)
    same(found, expected, "another output", tolerance=0.1)
    assert not torch.equal(found, expected), "nothing is quantised"


LOOKS = "It looks at values while it is traced"


@check(
    "Compile and export",
    "`torch.compile(fullgraph=True)`, batches of changing sizes",
    ours=(),
    gps=Fails("data-dependent", f"{LOOKS}: the size of the largest graph."),
    sets=Fails("Data-dependent branching", f"{LOOKS}: whether ids are sorted."),
    note="Compiled twice, for fixed and for changing sizes, and once more each for one node and for none, which "
    "`torch.compile` never treats as changing sizes; `return_state=True` and a carried memory too.",
    proof=(
        "tests/nn/test_compile.py::test_compiles_to_one_graph_for_all_sizes",
        "tests/nn/test_compile.py::test_one_node_and_none_are_compiled_apart_as_by_torch_for_any_module",
    ),
)
def compiled(subject: Subject) -> None:
    torch._dynamo.reset()
    module = Called(subject)
    fast = torch.compile(module, fullgraph=True, backend="eager")
    for sizes in ((4, 3), (2, 5, 6), (9, 1)):
        batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
        x = features(len(batch), CHANNELS, dtype=torch.float32)
        same(fast(x, batch), module(x, batch), "another output")


@check(
    "Compile and export",
    "`torch.export`, any number of nodes and graphs",
    gps=Fails("data-dependent", f"{LOOKS}: the size of the largest graph."),
    sets=Fails("data-dependent", f"{LOOKS}: the size of the largest graph."),
    note="With and without the number of graphs; only PyTorch's own operators are in the program.",
    proof=("tests/nn/test_export.py::test_exported_for_any_number_of_nodes_and_graphs",),
)
def exported(subject: Subject) -> None:
    module, nodes = Called(subject), torch.export.Dim("nodes", min=2)
    given = (features(dtype=torch.float32), BATCH)
    program = torch.export.export(module, given, dynamic_shapes=({0: nodes}, {0: nodes}))
    more = (features(9, CHANNELS, dtype=torch.float32), torch.arange(9) // 3)
    same(program.module()(*more), module(*more), "another output")


proven(
    "Compile and export",
    "ONNX, run by onnxruntime",
    "tests/nn/test_export.py::test_onnx_runs_elsewhere",
    modules=("SlotVirtualNode",),
    note="Agrees to 1e-5, nodes and graphs being free.",
)
proven(
    "Compile and export",
    "AOTInductor, and `torch.export(strict=True)`",
    "tests/nn/test_export.py::test_exported_strictly_and_compiled_ahead_of_time",
    modules=("SlotVirtualNode",),
)


NO_VALUES = Fails("cannot be called on meta tensors", f"{LOOKS}: the size of the largest graph.")
NOT_COUNTED = Fails(
    "attention is not counted",
    "On a CPU PyTorch has no formula for its fused attention "
    f"([pytorch#195460](https://github.com/pytorch/pytorch/issues/195460)); {UNFUSED}",
)


@check(
    "Compile and export",
    "tensors without data (`meta`)",
    gps=NO_VALUES,
    sets=NO_VALUES,
    note="Pass `num_graphs` (`dim_size`): there are no ids to count by.",
    proof=("tests/nn/test_export.py::test_tensors_without_data",),
)
def meta(subject: Subject) -> None:
    count = {} if subject.name not in OURS else {"num_graphs": 2}
    count = {"dim_size": 2} if not subject.per_node else count
    with torch.device("meta"):
        module, x = subject.build().eval(), torch.empty(7, CHANNELS)
        out = subject.call(module, x, torch.zeros(7, dtype=torch.long), edges=EDGES.to("meta"), **count)
    assert out.is_meta


@check(
    "Compile and export",
    "`FlopCounterMode` counts the attention",
    gps=NOT_COUNTED,
    sets=NOT_COUNTED,
    note="Within 5 % of the arithmetic.",
    proof=("tests/ops/test_flops.py::test_forward_and_backward_of_a_module",),
)
def flops(subject: Subject) -> None:
    module, counts = subject.build().eval(), []
    for nodes in (100, 200):
        x, batch = torch.randn(nodes, CHANNELS), torch.zeros(nodes, dtype=torch.long)
        with FlopCounterMode(display=False) as counter:
            subject.call(module, x, batch)
        counts.append(counter.get_total_flops())
    # What is linear in the nodes doubles; attention between all pairs is in the second difference.
    if subject.name in OURS:
        per_node = (counts[1] - counts[0]) / 100
        assert per_node > 2 * 2 * 3 * CHANNELS, "scores and sums of three slots"
        return
    with FlopCounterMode(display=False) as counter:
        subject.call(module, torch.randn(300, CHANNELS), torch.zeros(300, dtype=torch.long))
    curved = counter.get_total_flops() - 2 * counts[1] + counts[0]
    assert curved >= 2 * 2 * 2 * 100 * 100 * CHANNELS, "attention is not counted"


@check(
    "Compile and export",
    "TorchScript",
    ours=Fails(
        "Unknown type annotation: 'Tensor'",
        "Not supported, and not planned: use `torch.export`.",
        {"SlotAggregation": "Compiled functions can't take variable number"},
    ),
    gps=Fails("Compiled functions can't take variable number", "Not supported either."),
    sets=WORKS,
)
def torchscript(subject: Subject) -> None:
    module = subject.build().eval()
    script = torch.jit.script(module)
    x = features(dtype=torch.float32)
    same(subject.call(script, x, BATCH), subject.call(module, x, BATCH), "another output")


@check("Training and files", "copies: deepcopy, pickle, `state_dict`", gps=WORKS, sets=WORKS, transform=WORKS)
def copies(subject: Subject) -> None:
    module, other, x = double(subject), double(subject), features()
    expected = subject.call(module, x, BATCH)
    assert not torch.equal(subject.call(other, x, BATCH), expected), "two builds are equal"
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), other):
        assert torch.equal(subject.call(twin, x, BATCH), expected), "a copy differs"


@check(
    "Training and files",
    "autocast to bfloat16",
    gps=WORKS,
    sets=WORKS,
    note="The statistics of the write stay float32.",
)
def autocast(subject: Subject) -> None:
    module, x = subject.build().eval(), features(dtype=torch.float32)
    expected = subject.call(module, x, BATCH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = train_once(subject, module, x)
    same(out.float(), expected, "far off", tolerance=0.1)
    assert all(one.grad is None or bool(one.grad.isfinite().all()) for one in module.parameters())


@check("Training and files", "a module in bfloat16", gps=WORKS, sets=WORKS)
def half(subject: Subject) -> None:
    module, x = subject.build().eval(), features(dtype=torch.float32)
    expected = subject.call(module, x, BATCH)
    out = subject.call(module.bfloat16(), x.bfloat16(), BATCH)
    assert out.dtype == torch.bfloat16
    same(out.float(), expected, "far off", tolerance=0.15)


@check("Training and files", "activation checkpointing", gps=WORKS, sets=WORKS)
def checkpointed(subject: Subject) -> None:
    call, x = function(subject), features().requires_grad_()
    (expected,) = torch.autograd.grad(call(x).sin().sum(), x)
    (found,) = torch.autograd.grad(checkpoint(call, x, use_reentrant=False).sin().sum(), x)
    same(found, expected, "another gradient")


@check("Training and files", "deterministic algorithms", gps=WORKS, sets=WORKS, transform=WORKS)
def deterministic(subject: Subject) -> None:
    torch.use_deterministic_algorithms(True)
    try:
        train_once(subject, double(subject), features())
    finally:
        torch.use_deterministic_algorithms(False)


@check("Training and files", "every parameter gets a gradient, so DDP needs no search", gps=WORKS, sets=WORKS)
def all_gradients(subject: Subject) -> None:
    module = double(subject).train()
    train_once(subject, module, features().requires_grad_())
    assert all(one.grad is not None for one in module.parameters()), "parameters without a gradient"


proven(
    "Training and files",
    "DDP",
    "tests/nn/test_distributed.py::test_ddp_gradients_are_the_mean_over_both_batches",
    modules=("SlotVirtualNode", "VirtualNode"),
)
proven(
    "Training and files",
    "FSDP2 of every `nn.Linear`",
    "tests/nn/test_distributed.py::test_sharded_layers_and_a_carried_memory",
    modules=("SlotVirtualNode",),
)
proven(
    "Training and files",
    "FSDP2 of `write`, `update`, `read` and `integrate`, each on its own",
    "tests/nn/test_distributed.py::test_sharded_parts_and_everything_that_return_state_gives",
    modules=("SlotVirtualNode", "SlotAggregation"),
    note="Shard the module around them last, and `write.addresses`, which write and read share, first.",
)
proven(
    "Training and files",
    "the nodes of one graph on several processes",
    "tests/nn/test_distributed.py::test_one_graph_over_two_processes_is_one_memory",
    modules=("SlotVirtualNode",),
)
proven(
    "Training and files",
    "a `LightningModule`",
    "tests/examples/test_scripts.py::test_lightning_module",
    modules=("SlotVirtualNode",),
)
proven(
    "Training and files",
    "`torch.load(weights_only=True)` of a `SlotMemory`",
    "tests/nn/test_memory.py::test_it_is_loaded_without_trust",
    modules=("SlotVirtualNode",),
    note="`mooring` must be imported first.",
)
