"""What sets single rivals apart, one claim each."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from mooring import ops, zoo
from mooring.zoo.base import Rows, SlotRival
from mooring.zoo.counting import MagnitudeUpdate, TokenWrite
from mooring.zoo.latents import RelayRead
from support import assert_close, assert_finite
from zoo.rivals import ADDRESSED, SLOTTED, SPEC, build, call

RIVALS = [name for name in SLOTTED if isinstance(build(name), SlotRival)]


OPTIONS: dict[str, Any] = {
    "slots": 7,
    "heads": 2,
    "temperature": 0.5,
    "init_std": 0.25,
    "hidden_channels": 11,
    "integrate": "residual",
    "mass": "log_odds",
    "split": False,
    "anchor_init": 1.5,
    "mass_map": "linear",
    "update_channels": 7,
    "update_norm": "batch",
    "competition": True,
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", RIVALS)
def test_an_option_is_obeyed_or_listed_as_ignored(name: str, option: str) -> None:
    usual, changed = build(name), build(name, replace(SPEC, **{option: OPTIONS[option]}))
    given = call()
    weights, others = usual.state_dict(), changed.state_dict()
    same = weights.keys() == others.keys() and all(torch.equal(weights[key], others[key]) for key in weights)
    assert (same and torch.equal(given.to(usual), given.to(changed))) == (option in usual.ignores)  # type: ignore[operator]


@pytest.mark.parametrize("name", RIVALS)
def test_options_reach_the_parts_as_in_the_reference(name: str) -> None:
    spec = replace(SPEC, update_channels=7, mass_map="linear", update_norm="batch", competition=True)
    module, reference, given = build(name, spec), build("anchored", spec), call(spec, sizes=(7, 2, 4))
    for key in ("norm_in", "feed_forward", *(["mass_mlp"] if hasattr(module.update, "mass_mlp") else [])):
        assert repr(getattr(module.update, key)) == repr(getattr(reference.update, key))
    given.to(module).square().sum().backward()
    module.reset_parameters()  # type: ignore[operator]
    assert_finite(*(parameter.grad for parameter in module.parameters()), given.to(module.eval()))


@pytest.mark.parametrize("name", ["lse", "shared-anchor"])
def test_content_can_be_hidden_where_a_mass_stands_beside_it(name: str) -> None:
    module = build(name, replace(SPEC, content_dropout=0.999)).train()
    given = call(sizes=(7, 2, 4))
    _, memory = given.to(module, return_state=True)
    _, usual = given.to(module.eval(), return_state=True)
    assert float((memory.slots - usual.slots).detach().abs().max()) > 0.1  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"content_dropout is 1.0 but a share in \[0, 1\) was expected"):
        build(name, replace(SPEC, content_dropout=1.0))


def test_lse_is_the_anchored_module_with_its_anchor_at_zero() -> None:
    spec = replace(SPEC, mass="log_odds")
    anchored, lse = build("anchored", spec), build("lse", spec, seed=1)
    shared = {key: value for key, value in anchored.state_dict().items() if "anchor" not in key}
    assert lse.load_state_dict(shared).missing_keys == []
    given = call(sizes=(7, 2, 4))
    assert_close(given.to(lse), given.to(anchored))
    with torch.no_grad():
        anchored.update.anchor_logit.add_(1.0)  # type: ignore[operator,union-attr]
    assert not torch.allclose(given.to(lse), given.to(anchored))


def test_a_shared_anchor_is_a_private_one_that_is_equal_everywhere() -> None:
    shared, private = build("shared-anchor"), build("anchored", seed=1)
    weights = {key: value for key, value in shared.state_dict().items() if key not in ("update.logit", "update.value")}
    with torch.no_grad():
        shared.update.logit.fill_(0.7)  # type: ignore[operator,union-attr]
        private.load_state_dict(weights, strict=False)
        private.update.anchor_logit.fill_(0.7)  # type: ignore[operator,union-attr]
        private.update.anchor_value.copy_(shared.update.anchor_value)  # type: ignore[operator,union-attr]
    given = call()
    assert_close(given.to(shared), given.to(private))
    memories = [given.to(module, return_state=True)[1] for module in (shared, private)]
    assert_close(memories[0].anchor_weight, memories[1].anchor_weight)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["anchored", "anchored-raw", "anchored-global-film", "shared-anchor"])
@pytest.mark.parametrize("start", [2.5, 2])
def test_anchors_start_where_the_task_asks(name: str, start: float, as_users_run_it: None) -> None:
    update = build(name, replace(SPEC, anchor_init=start)).update
    assert torch.equal(update.anchor_logit, torch.full_like(update.anchor_logit, start))  # type: ignore[arg-type,union-attr]
    with torch.no_grad():
        for parameter in update.parameters():  # type: ignore[union-attr]
            parameter.zero_()
    update.reset_parameters()  # type: ignore[operator,union-attr]
    assert torch.equal(update.anchor_logit, torch.full_like(update.anchor_logit, start))  # type: ignore[arg-type,union-attr]


def test_the_anchors_of_competing_slots_start_at_one_node_whatever_the_task_asks() -> None:
    update = build("moored", replace(SPEC, anchor_init=2.5)).update
    assert not bool(update.anchor_logit.any())  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "spec", [SPEC, ADDRESSED, replace(SPEC, competition=True)], ids=["content", "address", "competition"]
)
@pytest.mark.parametrize("silent", [False, True])
def test_tokens_are_nodes_that_every_graph_has(spec: zoo.MemorySpec, silent: bool) -> None:
    addresses = build("cross-attn", spec).write.addresses  # type: ignore[union-attr]
    write = TokenWrite(spec, addresses, tokens=2, silent=silent).double()  # type: ignore[arg-type]
    given = call(spec, sizes=(7,))
    state = write(given.x, address=given.address)
    x = torch.cat([given.x, write.token])
    address = None if given.address is None else torch.cat([given.address, write.token_address])
    everyone = super(TokenWrite, write).forward(x, address=address)
    assert_close(state.log_mass, everyone.log_mass)
    if silent:
        nodes = super(TokenWrite, write).forward(given.x, address=given.address)
        assert_close(state.content, nodes.content * (nodes.log_mass - state.log_mass).exp().unsqueeze(-1))
    else:
        assert_close(state.content, everyone.content)


@pytest.mark.parametrize("name", ["registers", "sink"])
def test_tokens_are_scored_by_a_carried_memory_as_nodes_are(name: str) -> None:
    write, given = build(name).write, call(sizes=(7, 2, 4))
    slots = torch.randn(3, 5, 12, dtype=torch.float64)
    state = write(given.x, given.batch, slots=slots)  # type: ignore[operator]
    x = torch.cat([given.x, write.token.repeat(3, 1)])  # type: ignore[operator,union-attr]
    graphs = torch.cat([given.batch, torch.arange(3).repeat_interleave(write.token.size(0))])  # type: ignore[operator,union-attr]
    everyone = super(TokenWrite, write).forward(x, graphs, slots=slots)  # type: ignore[misc]
    assert_close(state.log_mass, everyone.log_mass)
    if name == "registers":
        assert_close(state.content, everyone.content)


@pytest.mark.parametrize("spec", [SPEC, ADDRESSED], ids=["content", "address"])
@pytest.mark.parametrize("name", ["registers", "sink"])
def test_attention_to_nodes_leaves_room_for_the_tokens(name: str, spec: zoo.MemorySpec) -> None:
    module, given = build(name, spec), call(spec)
    sources = torch.arange(11) != 4
    _, carried = given.to(module, return_state="slots")  # type: ignore[arg-type]
    for memory in (None, carried):
        found = given.to(module, sources=sources, memory=memory, return_state=True)[1]
        options = {"sources": sources, "num_graphs": 3} | ({} if memory is None else {"slots": memory.slots})  # type: ignore[attr-defined]
        nodes = super(TokenWrite, module.write).forward(given.x, given.batch, address=given.address, **options)  # type: ignore[misc]
        share = (nodes.log_mass - found.state.log_mass).exp()  # type: ignore[attr-defined]
        assert 0.01 < float(share[0].detach().min()) < 0.99
        total = torch.zeros_like(share).index_add(0, given.batch, found.write_weights)  # type: ignore[attr-defined]
        assert_close(total, share)
        assert not bool(found.write_weights[4].any())  # type: ignore[attr-defined]


def test_a_sink_can_be_turned_off_and_then_nothing_counts() -> None:
    """The control of the claim that tokens act as anchors: far below every score, they leave a blind module."""
    module, given = build("sink", ADDRESSED), call(ADDRESSED, sizes=(7,))
    twice = given.pick(torch.arange(7).repeat(2))
    assert float((twice.to(module)[:7] - given.to(module)).detach().abs().max()) > 1e-3
    with torch.no_grad():
        table = module.write.addresses.table()[:, 0]  # type: ignore[operator,union-attr]
        module.write.addresses.slot[:, 1:] = module.write.addresses.slot[:, :1]  # type: ignore[index,union-attr]
        module.write.addresses.weight[1:] = module.write.addresses.weight[:1]  # type: ignore[index,union-attr]
        away = torch.linalg.lstsq(table, torch.full((5, 1), -1e3, dtype=torch.float64)).solution.T
        module.write.token_address.copy_(away)  # type: ignore[operator,union-attr]
    assert_close(twice.to(module)[:7], given.to(module))


def test_the_self_loop_is_one_more_slot() -> None:
    read, given = RelayRead(SPEC, 11, by_address=False).double(), call(sizes=(7,))
    memory = torch.randn(1, 5, 12, dtype=torch.float64)
    query, key = read.score_parts(given.x, memory, None)
    weights = ops.read_weights(query, key)
    assert weights.shape == (7, 6, 3)
    scores = torch.einsum("nhd,mhd->nmh", query[..., :-1], key[0, :5, :, :-1])
    assert_close(weights, torch.cat([scores, read.lin_self(given.x).unsqueeze(1)], dim=1).softmax(dim=1))
    slots, own = (read.lin_value(rows).unflatten(-1, (3, -1)) for rows in (memory[0], given.x))
    context = torch.einsum("nmh,mhd->nhd", weights[:, :5], slots) + weights[:, 5].unsqueeze(-1) * own
    assert_close(read(given.x, memory), read.lin_out(context.flatten(1)))


def test_a_gain_leaves_the_dtype_of_the_nodes() -> None:
    module = zoo.build("range", replace(SPEC, integrate="residual"))
    assert module is not None
    with torch.autocast("cpu", torch.bfloat16):
        assert module(torch.randn(7, 12).bfloat16()).dtype == torch.bfloat16


def test_a_self_loop_needs_a_read() -> None:
    with pytest.raises(ValueError, match=r"^RelayVirtualNode: with integrate='global_film' nodes read nothing"):
        build("range", replace(SPEC, integrate="global_film"))


def test_sums_of_any_size_stay_finite() -> None:
    update = MagnitudeUpdate(SPEC, total=True)
    content = torch.randn(1, 5, 3, 4)
    for log_mass in (1e4, float("-inf")):
        assert_finite(update(ops.SlotState(content, torch.full((1, 5, 3), log_mass))))


def test_cpa_tells_every_slot_the_size_of_the_whole_set() -> None:
    """Moving nodes from one slot's share to another's changes nothing in what CPA is told of cardinality."""
    module = build("cpa-scale", ADDRESSED)
    x = torch.ones(6, 12, dtype=torch.float64)
    # With equal values the content of every slot is the same, whatever it attends to; only sizes could differ.
    states = [module.write(x, address=torch.randn(6, 7, dtype=torch.float64)) for _ in range(2)]  # type: ignore[operator]
    assert_close(states[0].content, states[1].content)
    fewer = module.write(x[:5], address=torch.randn(5, 7, dtype=torch.float64))  # type: ignore[operator]
    assert not torch.allclose(fewer.content, states[0].content)


@pytest.mark.parametrize("name", ["cpa-add", "cpa-scale"])
def test_dropout_leaves_the_size_of_the_set_as_it_is(name: str) -> None:
    module = build(name, replace(SPEC, dropout=0.5))
    # Equal nodes, so many that every slot keeps one: the attention is the same whichever are dropped.
    x = torch.ones(80, 12, dtype=torch.float64)
    log_weight = torch.randn(80, dtype=torch.float64)
    for weights in ({}, {"log_weight": log_weight}):
        dropped, whole = (module.train(mode)(x, return_state=True, **weights)[1] for mode in (True, False))
        assert not torch.allclose(dropped.state.log_mass, whole.state.log_mass)
        assert_close(dropped.state.content, whole.state.content)


def test_more_rounds_of_slot_attention_change_the_slots() -> None:
    module, given = build("slot-attention"), call()
    three = given.to(module)
    module.rounds = 1  # type: ignore[assignment]
    assert not torch.allclose(given.to(module), three)


@pytest.mark.parametrize("name", ["physics-attention", "physics-slices"])
def test_physics_attention_is_its_formula_one_graph_at_a_time(name: str) -> None:
    """Written out as in the paper, with weights of every node for every slice, and one graph after the other."""
    module: Any = build(name)
    given = call(sizes=(7, 0, 4))
    expected = torch.empty_like(given.x)
    for graph in (0, 2):
        rows = (given.batch == graph).nonzero().squeeze(1)
        x = given.x[rows]
        normed = module.norm(x)
        place, value = (
            lin(normed).view(len(rows), 3, 4).transpose(0, 1) for lin in (module.lin_place, module.lin_value)
        )
        weights = (module.lin_slice(place) / module.temperature.view(3, 1, 1)).softmax(dim=-1)
        slices = weights.transpose(1, 2) @ value / weights.sum(dim=1).unsqueeze(-1)
        if name == "physics-attention":
            query, key, kept = (slices @ part.T for part in module.lin_between.weight.chunk(3))
            slices = (query @ key.transpose(1, 2) / 2.0).softmax(dim=-1) @ kept
        x = x + module.lin_out((weights @ slices).transpose(0, 1).flatten(1))
        expected[rows] = x + module.mlp(module.norm_mlp(x))
    out, memory = given.to(module, return_state=True)
    assert_close(out, expected)
    assert memory.slots.shape == (3, 5, 12)  # type: ignore[attr-defined]
    assert module.temperature.tolist() == [0.5] * 3


def test_wide_state_is_as_wide_as_all_slots() -> None:
    memory = call().to(build("wide-vn-film"), return_state=True)[1]
    assert memory.slots.shape == (3, 1, SPEC.slots * SPEC.channels)  # type: ignore[attr-defined]


def test_the_added_broadcast_is_separable_and_the_others_are_not() -> None:
    """What a change of the sources does to two targets: the same with ``wide-vn-add``, by ``prop:separable``."""
    given = call(sizes=(7,))
    sources, targets = torch.arange(7) < 5, torch.arange(7) >= 5
    moved = replace(given, x=given.x + sources.unsqueeze(-1))
    for name, separable in (("wide-vn-add", True), ("wide-vn-film", False), ("wide-vn-mlp", False)):
        module = build(name)
        first, second = (made.to(module, sources=sources)[targets] for made in (given, moved))
        change = (second - first).detach()
        assert torch.allclose(change[0], change[1]) == separable, name


def test_clones_stay_equal_and_independent_ones_do_not() -> None:
    given = call()
    clones, independent = (
        given.to(build(name), return_state=True)[1].slots.detach()  # type: ignore[attr-defined]
        for name in ("vn-clones", "vn-independent")
    )
    assert_close(clones, clones[:, :1].expand_as(clones))
    assert float(independent.std(dim=1).min()) > 1e-3


def test_expander_edges_stay_inside_a_graph_and_reach_every_source() -> None:
    from mooring.zoo.attention import expander

    index = torch.tensor([0, 2, 2, 0, 0, 2, 2, 2])
    x = torch.zeros(8, 1)
    writers = Rows(x, index, 3, torch.tensor([0.0, math.log(3.0)] + 6 * [0.0]))
    edges = expander(writers, Rows(x, index, 3, torch.zeros(8)), degree=2)
    assert torch.equal(index[edges[0]], index[edges[1]])
    # Permutations: every source is met twice, and one of multiplicity three six times.
    assert torch.bincount(edges[0]).tolist() == [2, 6, 2, 2, 2, 2, 2, 2]


def test_the_address_of_a_node_that_does_not_write_is_not_scored() -> None:
    module, given = build("gmt", ADDRESSED), call(ADDRESSED)
    assert given.address is not None
    given.address[3] = float("nan")
    everyone_else = torch.arange(len(given.x)) != 3
    given.to(module, sources=everyone_else)[everyone_else].sum().backward()
    assert_finite(*(parameter.grad for parameter in module.parameters()))


@pytest.mark.parametrize(("name", "who"), [("isab", "InducedSetAttention"), ("exphormer", "Expander")])
@pytest.mark.parametrize(("weight", "got"), [(math.log(2.5), "2.5"), (50.0, r"5.18\d*e\+21")])
def test_literal_copies_must_be_whole_and_fit(name: str, who: str, weight: float, got: str) -> None:
    with pytest.raises(ValueError, match=rf"{who}: log_weight means {got} copies"):
        call().to(build(name), log_weight=torch.full((11,), weight, dtype=torch.float64))


@pytest.mark.parametrize("weight", [-95.0, -50.0, 95.0])
def test_linear_attention_sees_shares_and_not_the_size_of_weights(weight: float) -> None:
    module, x = build("performer").float(), torch.randn(7, SPEC.channels)
    out = module(x, log_weight=torch.full((7,), weight))
    out.sum().backward()
    assert_close(out, module(x))
    assert_finite(*(parameter.grad for parameter in module.parameters()))


def test_linear_attention_refuses_heads_without_random_features() -> None:
    with pytest.raises(ValueError, match=r"heads of width 1.* Pass fewer heads"):
        zoo.build("performer", zoo.MemorySpec(channels=3, heads=3))


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_linear_attention_has_gradients_in_half_precision(half: torch.dtype) -> None:
    module = build("performer").float()
    x = torch.randn(12, SPEC.channels, requires_grad=True)
    with torch.autocast("cpu", dtype=half):
        out = module(x, torch.tensor([0] * 2 + [1] * 10))
    out.float().sum().backward()
    assert_finite(out, x.grad, *(parameter.grad for parameter in module.parameters()))


@pytest.mark.parametrize("name", ["cpa-add", "cpa-scale"])
def test_a_node_without_weight_in_any_slot_has_a_gradient(name: str) -> None:
    weight = torch.zeros(5, SPEC.slots, SPEC.heads, dtype=torch.float64)
    weight[2] = -math.inf
    weight.requires_grad_()
    build(name)(torch.randn(5, SPEC.channels, dtype=torch.float64), log_weight=weight).sum().backward()
    assert_finite(weight.grad)
