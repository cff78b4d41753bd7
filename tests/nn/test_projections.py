"""Projections with adapters, hooks or parametrisations are called for every batch."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from mooring.nn import HeteroSlotVirtualNode, SlotAggregation, SlotConv, SlotVirtualNode, VirtualNode
from support import Ragged, assert_close

CHANNELS, SLOTS = 12, 3
# With few nodes per graph values are projected, with many the projection is folded into the slots.
BATCHES = {"small graphs": Ragged((3, 0, 4), False, seed=5), "large graph": Ragged((80,), True, seed=5)}
EACH = pytest.mark.parametrize("batch", list(BATCHES.values()), ids=list(BATCHES))


class Adapter(nn.Module):
    """LoRA layer as in peft: a linear map plus a product of two thin matrices."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, 2, bias=False).to(base.weight)
        self.up = nn.Linear(2, base.out_features, bias=False).to(base.weight)

    @property
    def weight(self) -> Tensor:
        return self.base.weight  # as peft's layers have it: without the adapter

    @property
    def bias(self) -> Tensor | None:
        return self.base.bias

    @property
    def out_features(self) -> int:
        return self.base.out_features

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


def linears(module: nn.Module) -> list[tuple[nn.Module, str]]:
    return [
        (parent, name)
        for parent in module.modules()
        for name, child in parent.named_children()
        if type(child) is nn.Linear
    ]


def module(integrate: str = "film") -> SlotVirtualNode:
    return SlotVirtualNode(CHANNELS, SLOTS, heads=2, routing="free", integrate=integrate, init_std=0.5).double()  # type: ignore[arg-type]


@EACH
@pytest.mark.parametrize("integrate", ["film", "residual", "global_film"])
def test_every_adapter_learns(integrate: str, batch: Ragged) -> None:
    memory = module(integrate)
    for parent, name in linears(memory):
        setattr(parent, name, Adapter(getattr(parent, name)))
    adapters = [adapter for adapter in memory.modules() if isinstance(adapter, Adapter)]
    memory(batch.randn(batch.num_nodes, CHANNELS), batch.index()).square().sum().backward()
    assert adapters
    for adapter in adapters:
        assert adapter.up.weight.grad is not None
        assert bool(adapter.up.weight.grad.any())


@EACH
def test_an_adapter_equals_the_merged_weight(batch: Ragged) -> None:
    merged, adapted = module(), module()
    adapted.load_state_dict(merged.state_dict())
    for (parent, name), (other, _) in zip(linears(adapted), linears(merged), strict=True):
        adapter = Adapter(getattr(parent, name))
        setattr(parent, name, adapter)
        with torch.no_grad():
            getattr(other, name).weight += adapter.up.weight @ adapter.down.weight
    x, index = batch.randn(batch.num_nodes, CHANNELS), batch.index()
    out, inside = adapted(x, index, return_state=True)
    expected, plain = merged(x, index, return_state=True)
    assert_close(out, expected)
    assert_close(inside.write_weights, plain.write_weights)
    assert_close(inside.read_weights, plain.read_weights)


@EACH
def test_peft_adapters_learn_and_merge(batch: Ragged) -> None:
    peft = pytest.importorskip("peft", reason="peft is for development: pip install 'mooring[dev]'")
    memory, x, index = module(), batch.randn(batch.num_nodes, CHANNELS), batch.index()
    names = [name for name, child in memory.named_modules() if type(child) is nn.Linear]
    expected = memory(x, index)
    adapted = peft.get_peft_model(memory, peft.LoraConfig(r=2, target_modules=names)).double()
    assert_close(adapted(x, index), expected)
    optimiser = torch.optim.SGD([parameter for parameter in adapted.parameters() if parameter.requires_grad], lr=0.1)
    adapted(x, index).square().sum().backward()
    learned = {name: one.grad for name, one in adapted.named_parameters() if "lora_B" in name}
    assert len(learned) == len(names)
    assert all(grad is not None and bool(grad.any()) for grad in learned.values())
    optimiser.step()
    out = adapted(x, index)
    assert not torch.allclose(out, expected)
    assert_close(adapted.merge_and_unload()(x, index), out)


def test_peft_adapts_slots_for_all_node_types() -> None:
    """The slot projections are shared by all types, and so are their adapters."""
    peft = pytest.importorskip("peft", reason="peft is for development: pip install 'mooring[dev]'")
    memory = HeteroSlotVirtualNode({"user": CHANNELS, "item": 8}, SLOTS, heads=2, routing="free", init_std=0.5).double()
    batch = BATCHES["small graphs"]
    x = {"user": batch.randn(batch.num_nodes, CHANNELS), "item": batch.randn(batch.num_nodes, 8)}
    index = {"user": batch.index(), "item": batch.index()}
    shared = ["parts.user.write.lin_query", "parts.user.read.lin_key", "parts.user.read.lin_value"]
    adapted = peft.get_peft_model(memory, peft.LoraConfig(r=2, target_modules=shared)).double()
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter)
    out = adapted(x, index)
    parts = adapted.base_model.model.parts
    assert isinstance(parts.item.write.lin_query, peft.tuners.lora.LoraLayer)
    merged = adapted.merge_and_unload()
    assert type(merged.parts.user.write.lin_query) is nn.Linear
    again = merged(x, index)
    for name in x:
        assert_close(again[name], out[name])


@EACH
def test_hooks_fire_whatever_the_batch(batch: Ragged) -> None:
    memory, fired = module(), []
    for parent, name in linears(memory):
        getattr(parent, name).register_forward_hook(lambda *_: fired.append(1))
    memory(batch.randn(batch.num_nodes, CHANNELS), batch.index())
    assert len(fired) >= len(linears(memory))


@EACH
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("where", ["write.lin_key", "write.lin_value", "read.lin_query"])
def test_a_hook_on_one_projection_changes_nothing(where: str, heads: int, batch: Ragged) -> None:
    """With one head a projected key has the width of a node, and must not be confused with it."""
    memory = SlotVirtualNode(CHANNELS, SLOTS, heads=heads, routing="free", init_std=0.5).double()
    x, index = batch.randn(batch.num_nodes, CHANNELS), batch.index()
    expected, state = memory(x, index), memory.write(x, index)
    memory.get_submodule(where).register_forward_hook(lambda *_: None)
    assert_close(memory(x, index), expected)
    assert_close(memory.write(x, index).content, state.content)


class Doubled(Tensor):
    """Weight with custom arithmetic, as quantisers use it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = super().__torch_function__(func, types, args, kwargs)
        return 2 * out.as_subclass(Tensor) if func is nn.functional.linear else out


@EACH
@pytest.mark.parametrize("where", ["write.lin_key", "write.lin_value", "read.lin_query", "read.lin_value"])
def test_a_weight_with_custom_arithmetic_is_called(where: str, batch: Ragged) -> None:
    doubled, wrapped = module(), module()
    wrapped.load_state_dict(doubled.state_dict())
    weight = wrapped.get_submodule(where).weight
    wrapped.get_submodule(where).weight = nn.Parameter(weight.detach().as_subclass(Doubled), requires_grad=False)
    with torch.no_grad():
        doubled.get_submodule(where).weight.mul_(2)
    x, index = batch.randn(batch.num_nodes, CHANNELS), batch.index()
    assert_close(wrapped(x, index).as_subclass(Tensor), doubled(x, index))


@EACH
def test_parametrised_weights(batch: Ragged) -> None:
    memory = module()
    x, index = batch.randn(batch.num_nodes, CHANNELS), batch.index()
    expected = memory(x, index)
    for parent, name in linears(memory):
        parametrizations.weight_norm(getattr(parent, name))
    assert_close(memory(x, index), expected)
    memory(x, index).sum().backward()
    assert all(parameter.grad is not None for name, parameter in memory.named_parameters() if "original" in name)


# It is deprecated, and still what runs on a CPU without another package.
@pytest.mark.filterwarnings("ignore:.*quantiz.*:DeprecationWarning", "ignore:.*quantize.*:UserWarning")
@EACH
@pytest.mark.parametrize("name", ["aggregation", "film", "residual", "mean", "conv"])
def test_quantised_layers(name: str, batch: Ragged) -> None:
    modules: dict[str, Callable[[], nn.Module]] = {
        "aggregation": lambda: SlotAggregation(CHANNELS, SLOTS, heads=2),
        "film": lambda: SlotVirtualNode(CHANNELS, SLOTS, heads=2, init_std=0.05),
        "residual": lambda: SlotVirtualNode(CHANNELS, SLOTS, heads=2, integrate="residual"),
        "mean": lambda: VirtualNode(CHANNELS),
        "conv": lambda: SlotConv(CHANNELS, None, SLOTS, heads=2),
    }
    plain, x, index = modules[name](), batch.randn(batch.num_nodes, CHANNELS).float(), batch.index()
    arguments = (x, torch.zeros(2, 0, dtype=torch.long), index) if name == "conv" else (x, index)
    expected = plain(*arguments)
    quantised = torch.ao.quantization.quantize_dynamic(plain, {nn.Linear})
    assert not linears(quantised)
    out = quantised(*arguments)
    torch.testing.assert_close(out, expected, rtol=0.1, atol=0.1)
    assert not torch.equal(out, expected), "eight bits leave a trace"


def test_dropout_is_off_in_eval_and_keeps_masses_on_average() -> None:
    batch = BATCHES["large graph"]
    memory = SlotVirtualNode(CHANNELS, SLOTS, heads=2, routing="free", dropout=0.5, init_std=0.5).double()
    plain = module()
    plain.load_state_dict(memory.state_dict())
    x = batch.randn(batch.num_nodes, CHANNELS)
    expected, still = plain(x, return_state=True)
    memory.eval()
    assert_close(memory(x), expected)
    memory.train()
    masses, dropped = [], []
    for _ in range(300):
        out, inside = memory(x, return_state=True)
        masses.append(inside.state.log_mass.exp())
        dropped.append(float((inside.write_weights == 0).double().mean()))
    assert not torch.allclose(out, expected)
    assert sum(dropped) / len(dropped) == pytest.approx(0.5, abs=0.02)
    torch.testing.assert_close(torch.stack(masses).mean(0), still.state.log_mass.exp(), rtol=0.05, atol=0.0)


@EACH
@pytest.mark.parametrize("where", ["write.lin_key", "write.lin_value", "read.lin_query", "read.lin_out"])
def test_a_bias_counts_whatever_the_batch(where: str, batch: Ragged) -> None:
    memory = module()
    parent, name = memory.get_submodule(where.split(".")[0]), where.split(".")[1]
    old = getattr(parent, name)
    biased = nn.Linear(old.in_features, old.out_features).double()
    setattr(parent, name, biased)
    x, index = batch.randn(batch.num_nodes, CHANNELS), batch.index()
    called = memory(x, index, num_graphs=batch.num_graphs)
    biased.register_forward_hook(lambda *_: None)
    assert_close(called, memory(x, index, num_graphs=batch.num_graphs))


@EACH
def test_a_forward_of_an_instance_is_called(batch: Ragged) -> None:
    """accelerate replaces ``forward`` of instances to move weights."""
    memory, called = module(), set()
    for parent, name in linears(memory):
        layer = getattr(parent, name)
        layer.forward = lambda x, name=name, forward=layer.forward: (called.add(name), forward(x))[1]
    memory(batch.randn(batch.num_nodes, CHANNELS), batch.index(), num_graphs=batch.num_graphs)
    assert called == {name for _, name in linears(memory)}
