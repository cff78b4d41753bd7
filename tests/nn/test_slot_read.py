"""SlotRead: folding projections into the slots changes only the order of products."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.func import functional_call

from mooring.nn import Addresses, SlotRead
from mooring.nn.addresses import Routes
from mooring.ops import reference
from support import Ragged, assert_close, assert_same, ragged, tile_sizes

from modules import ADDRESS, CHANNELS, HEADS, SLOTS  # isort: skip

OUT = 11


def read(addressed: bool, dtype: torch.dtype = torch.float64) -> SlotRead:
    torch.manual_seed(0)
    scores: dict[str, Any] = {"by_address": True} if addressed else {"temperature": 0.5}
    return SlotRead(CHANNELS, SLOTS, HEADS, out_channels=OUT, **scores).to(dtype)


def routes(batch: Ragged, dtype: torch.dtype = torch.float64) -> Routes:
    addresses = Addresses(ADDRESS, SLOTS, HEADS, CHANNELS // HEADS, 0.5).to(dtype)
    address = batch.randn(batch.num_nodes, ADDRESS, dtype=dtype, salt=4)
    return Routes(*(side.detach() for side in addresses.routes(address, address)[:2]))


@given(ragged(3), st.booleans(), st.booleans(), st.sampled_from([torch.float64, torch.float32]))
def test_folded_equals_plain_on_values_and_all_gradients(
    batch: Ragged, addressed: bool, masked: bool, dtype: torch.dtype
) -> None:
    module = read(addressed, dtype)
    names = [name for name, _ in module.named_parameters()]
    targets = batch.mask() if masked else None
    address = routes(batch, dtype) if addressed else None

    def run(folded: bool, x: Tensor, memory: Tensor, *parameters: Tensor) -> Tensor:
        module.folded = folded
        call = dict(zip(names, parameters, strict=True))
        return functional_call(module, call, (x, memory, batch.index()), {"address": address, "targets": targets})

    x = batch.randn(batch.num_nodes, CHANNELS, dtype=dtype, salt=1)
    memory = batch.randn(batch.num_graphs, SLOTS, CHANNELS, dtype=dtype, salt=2)
    with tile_sizes(11, 7):
        assert_same(lambda *t: run(True, *t), lambda *t: run(False, *t), x, memory, *module.parameters())


def test_equals_the_equations_by_the_oracle() -> None:
    """``eq:slotreadout`` with every projection written out."""
    module, batch = read(addressed=False), Ragged((5, 0, 7), False, seed=1)
    x, memory = batch.randn(batch.num_nodes, CHANNELS, salt=1), batch.randn(batch.num_graphs, SLOTS, CHANNELS, salt=2)
    dim = CHANNELS // HEADS
    query = (x @ module.lin_query.weight.T).unflatten(-1, (HEADS, dim)) / (0.5 * dim**0.5)
    key, value = ((memory @ lin.weight.T).unflatten(-1, (HEADS, dim)) for lin in (module.lin_key, module.lin_value))
    context = reference.read(query, key, value, batch.index()).flatten(1) @ module.lin_out.weight.T
    assert_close(module(x, memory, batch.index()), context)
    assert context.shape == (batch.num_nodes, OUT)


def test_a_missing_address_is_named() -> None:
    x, memory = torch.zeros(12, CHANNELS).double(), torch.zeros(1, SLOTS, CHANNELS).double()
    with pytest.raises(ValueError, match=r"^SlotRead: address is None but .* Pass address=write.routes\(x, address\)"):
        read(addressed=True)(x, memory)
    with pytest.raises(ValueError, match=r"^SlotRead: address is a .*Routes but content .* by_address=True"):
        read(addressed=False)(x, memory, address=routes(Ragged((12,), True, seed=1)))
    with pytest.raises(ValueError, match=r"^SlotRead: temperature=0.5 has no effect, since scores by address"):
        SlotRead(CHANNELS, SLOTS, HEADS, temperature=0.5, by_address=True)


@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("addressed", [True, False])
def test_a_gain_adds_the_scaled_reading_to_the_nodes(addressed: bool, folded: bool) -> None:
    torch.manual_seed(0)
    module = SlotRead(CHANNELS, SLOTS, HEADS, by_address=addressed).double()
    module.folded = folded
    batch = Ragged((5, 0, 7), False, seed=1)
    x, memory = batch.randn(batch.num_nodes, CHANNELS, salt=1), batch.randn(batch.num_graphs, SLOTS, CHANNELS, salt=2)
    gain = batch.randn(CHANNELS, salt=3)
    address = routes(batch) if addressed else None
    plain = module(x, memory, batch.index(), address=address)
    assert_close(module(x, memory, batch.index(), address=address, gain=gain), x + gain * plain)
