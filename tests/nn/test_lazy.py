"""Channels of -1: after its first input a lazy module equals one built with the width."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch_geometric.nn import GCNConv, GraphSAGE, SAGEConv, to_hetero

from mooring.nn import HeteroSlotVirtualNode, SlotAggregation, SlotConv, SlotVirtualNode, VirtualNode

CHANNELS, OTHER = 12, 20
X, BATCH = torch.randn(7, CHANNELS), torch.tensor([0, 0, 0, 2, 2, 2, 2])
EDGES = torch.tensor([[0, 1, 2, 4, 5], [1, 2, 0, 5, 6]])
DICT = {"user": X, "an.item": torch.randn(5, OTHER)}

Width = int | dict[str, int]
# How each is built for a width, called, and what width the first call shows.
MODULES: dict[str, tuple[Callable[[Any], nn.Module], Callable[[nn.Module], Any], Width]] = {
    "slots": (lambda c: SlotVirtualNode(c, 3, 2), lambda m: m(X, BATCH), CHANNELS),
    "by keyword": (lambda c: SlotVirtualNode(channels=c, slots=3), lambda m: m(x=X), CHANNELS),
    "addressed": (lambda c: SlotVirtualNode(c, 3, address_channels=5), lambda m: m(X, address=X[:, :5]), CHANNELS),
    "global film": (lambda c: SlotVirtualNode(c, 3, integrate="global_film"), lambda m: m(X, BATCH), CHANNELS),
    "aggregation": (lambda c: SlotAggregation(c, 3), lambda m: m(X, BATCH), CHANNELS),
    "mean": (lambda c: VirtualNode(c), lambda m: m(X, BATCH), CHANNELS),
    "conv": (lambda c: SlotConv(c, None, 3, norm="batch_norm"), lambda m: m(X, EDGES, BATCH), CHANNELS),
    "two widths": (
        lambda c: HeteroSlotVirtualNode(c, 3, memory_channels=OTHER),
        lambda m: m(DICT)["user"],
        {"user": CHANNELS, "an.item": OTHER},
    ),
    "one width": (lambda c: HeteroSlotVirtualNode(c, 3), lambda m: m({"a": X, "b": X[:3]})["b"], CHANNELS),
}
EVERY = pytest.mark.parametrize("name", MODULES)


def unknown(width: Width) -> Width:
    return dict.fromkeys(width, -1) if isinstance(width, dict) else -1


def waiting(name: str) -> nn.Module:
    build, _, width = MODULES[name]
    return build(unknown(width))


def eager(name: str) -> nn.Module:
    build, _, width = MODULES[name]
    torch.manual_seed(3)
    return build(width)


def called(name: str, module: nn.Module) -> Tensor:
    torch.manual_seed(3)
    return MODULES[name][1](module)


def assert_ready(name: str, module: nn.Module) -> None:
    """Check that names, shapes and values equal those of a module built with the width."""
    expected = eager(name).state_dict()
    assert list(module.state_dict()) == list(expected)
    for key, value in module.state_dict().items():
        assert torch.equal(value, expected[key]) or "running" in key or "num_batches" in key, key
    assert all(type(parameter) is nn.Parameter for parameter in module.parameters())
    assert not module._forward_pre_hooks
    # One may stay behind that has nothing left to do: torch lets none be removed while it goes through them.
    assert len(module._load_state_dict_pre_hooks) <= len(eager(name)._load_state_dict_pre_hooks) + 1


@EVERY
def test_after_the_first_call_it_is_the_module_of_that_width(name: str) -> None:
    module = waiting(name)
    assert all(map(is_lazy, module.parameters()))
    assert "-1" in repr(module)
    assert torch.equal(called(name, module), called(name, eager(name)))
    assert_ready(name, module)
    assert repr(module) == repr(eager(name))


@EVERY
def test_an_optimiser_may_be_built_before_the_first_call(name: str) -> None:
    module = waiting(name)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.1)
    called(name, module).square().sum().backward()
    held = {id(parameter) for group in optimiser.param_groups for parameter in group["params"]}
    assert {id(parameter) for parameter in module.parameters()} <= held
    before = [parameter.detach().clone() for parameter in module.parameters()]
    optimiser.step()
    assert not all(torch.equal(one, other) for one, other in zip(before, module.parameters(), strict=True))


@EVERY
@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_copies_materialise_separately(name: str, how: str) -> None:
    module = waiting(name)
    twin = copy.deepcopy(module) if how == "deepcopy" else pickle.loads(pickle.dumps(module))
    called(name, twin)
    assert_ready(name, twin)
    assert all(map(is_lazy, module.parameters()))
    called(name, module)
    assert_ready(name, module)


@EVERY
def test_states_go_from_any_to_any(name: str) -> None:
    ready, module = eager(name), waiting(name)
    nn.ModuleDict({"inside": module}).load_state_dict(nn.ModuleDict({"inside": ready}).state_dict())
    assert_ready(name, module)
    called(name, module)
    unready = waiting(name)
    unready.load_state_dict(waiting(name).state_dict())
    assert all(map(is_lazy, unready.parameters()))
    with pytest.raises(RuntimeError, match="uninitialized parameter into an initialized one"):
        ready.load_state_dict(unready.state_dict())


@EVERY
def test_dtype_mode_and_reset_before_the_first_call(name: str) -> None:
    module: Any = waiting(name).double().eval()
    module.reset_parameters()
    doubled = {"X": X.double(), "DICT": {key: value.double() for key, value in DICT.items()}}
    with pytest.MonkeyPatch.context() as patch:
        for key, value in doubled.items():
            patch.setitem(globals(), key, value)
        assert called(name, module).dtype == torch.float64
    assert {tensor.dtype for tensor in module.state_dict().values()} <= {torch.float64, torch.long}
    assert not any(child.training for child in module.modules())


def test_a_first_call_for_inference_can_be_followed_by_training() -> None:
    module = SlotVirtualNode(-1, 3)
    with torch.inference_mode():
        module(X)
    module(X).sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_a_subclass_and_hooks_are_kept() -> None:
    class Larger(SlotVirtualNode):
        def __init__(self) -> None:
            super().__init__(-1, 3)
            self.extra = nn.Linear(2, 2)

    module, fired = Larger(), []
    module.write.register_forward_hook(lambda *_: fired.append(1))
    extra, write = module.extra, module.write
    module(X)
    assert module.extra is extra
    assert module.write is write
    assert fired
    assert module.channels == CHANNELS


def test_what_is_passed_in_is_left_alone() -> None:
    conv, memory = GCNConv(CHANNELS, CHANNELS), VirtualNode(CHANNELS)
    before = conv.lin.weight.detach().clone()
    module = SlotConv(-1, conv, memory=memory)
    assert torch.equal(conv.lin.weight, before)
    module(X, EDGES, BATCH)
    assert torch.equal(conv.lin.weight, before)
    assert module.memory is memory
    again = SlotConv(-1, GCNConv(CHANNELS, CHANNELS), memory=VirtualNode(-1))
    again.reset_parameters()
    again(X, EDGES, BATCH)
    both = SlotConv(-1, GCNConv(-1, CHANNELS), 3)
    both(X, EDGES, BATCH)
    assert both.memory.channels == again.memory.channels == CHANNELS
    assert SlotConv(-1, SAGEConv((-1, -1), CHANNELS), 3)((torch.randn(9, 5), X), EDGES).shape == X.shape


def test_layers_of_different_width_by_one_name() -> None:
    net = GraphSAGE(CHANNELS, OTHER, num_layers=3, aggr="slot", aggr_kwargs={"channels": -1, "slots": 3})
    net(X, EDGES).square().sum().backward()
    assert [conv.aggr_module.channels for conv in net.convs] == [CHANNELS, OTHER, OTHER]
    assert all(parameter.grad is not None for parameter in net.parameters())


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = SAGEConv((-1, -1), CHANNELS)
        self.memory = SlotVirtualNode(-1, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.memory(self.conv(x, edge_index))


def test_to_hetero_gives_each_type_a_separate_width() -> None:
    edge_types = [("user", "buys", "item"), ("item", "bought_by", "user")]
    net = to_hetero(Net(), (["user", "item"], edge_types))
    edges = {edge_types[0]: EDGES[:, :3], edge_types[1]: EDGES[:, :3].flip(0)}
    with torch.no_grad():
        out = net({"user": X, "item": torch.randn(4, OTHER)}, edges)
    assert {name: tuple(tensor.shape) for name, tensor in out.items()} == {"user": (7, CHANNELS), "item": (4, CHANNELS)}
    assert not torch.equal(net.memory["user"].write.lin_value.weight, net.memory["item"].write.lin_value.weight)


MESSAGES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: SlotVirtualNode(-1, 3)(X[:, :10]),
        ValueError,
        "channels=10 cannot be split over heads=4",
    ),
    (lambda: SlotVirtualNode(-1, 3)(X[0]), ValueError, "SlotVirtualNode: x has shape (12,)"),
    (lambda: SlotVirtualNode(-1, 3)([1]), TypeError, "SlotVirtualNode: x is a list but a tensor was expected"),
    (lambda: SlotVirtualNode(-2, 3), ValueError, "SlotVirtualNode: channels is -2"),
    (lambda: SlotVirtualNode(-1, 3, heads=0), ValueError, "SlotVirtualNode: heads is 0"),
    (lambda: HeteroSlotVirtualNode({"a": -1}, 3), ValueError, "memory_channels is None. Pass memory_channels"),
    (
        lambda: HeteroSlotVirtualNode({"a": -1, "b": -1}, 3, memory_channels=8)({"b": X}),
        ValueError,
        "HeteroSlotVirtualNode: channels of 'a' are -1 but x_dict has no 'a'",
    ),
]


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(("call", "error", "words"), MESSAGES, ids=[words for *_, words in MESSAGES])
def test_messages(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.usefixtures("as_users_run_it")
def test_compiling_before_the_first_call_raises_a_clear_error() -> None:
    module = SlotVirtualNode(-1, 3)
    with pytest.raises(Exception, match="Call it once before it is compiled"):
        torch.compile(module, fullgraph=True, backend="eager")(X)
    with pytest.raises(ValueError, match="Call `forward` with a dummy batch to initialize"):
        torch.export.export(module, (X,))


def test_what_is_set_before_the_first_call_stays() -> None:
    memory, plain = SlotVirtualNode(-1, 4), VirtualNode(-1)
    memory.dropout, memory.write.folded, plain.scale = 0.5, False, 1.0
    for module in (memory, copy.deepcopy(memory), pickle.loads(pickle.dumps(memory))):
        module(torch.randn(4, 16))
        assert (module.dropout, module.write.folded, module.channels, module.write.channels) == (0.5, False, 16, 16)
    plain(torch.randn(4, 16))
    assert (plain.scale, plain.channels) == (1.0, 16)


def test_large_widths_are_known_after_pickling() -> None:
    """Unpickled integers above 256 are new objects."""
    memory = HeteroSlotVirtualNode({"user": -1, "item": 8}, 4, memory_channels=512)
    for module in (memory, pickle.loads(pickle.dumps(memory))):
        module({"user": torch.randn(3, 300), "item": torch.randn(2, 8)})
        part = module.parts["user"]
        assert (part.project.in_features, part.integrate.lin_node.in_features, module.channels["user"]) == (
            300,
            300,
            300,
        )


@pytest.mark.parametrize("kind", [SlotVirtualNode, VirtualNode, SlotAggregation])
def test_a_state_is_loaded_beside_other_hooks(kind: Any) -> None:
    options = {} if kind is VirtualNode else {"slots": 4}
    module, known = kind(-1, **options), kind(16, **options)
    seen: list[str] = []
    module.register_load_state_dict_pre_hook(lambda *_: seen.append("hook"))
    for _ in range(2):
        module.load_state_dict(known.state_dict())
    assert seen == ["hook", "hook"]
    assert all(torch.equal(tensor, known.state_dict()[name]) for name, tensor in module.state_dict().items())
