"""Folding the projections into the slots changes the order of the products and nothing else."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.func import functional_call

from mooring.nn import Addresses, SlotRead
from mooring.ops import reference
from support import Ragged, assert_close, assert_same, ragged, tile_sizes

from modules import ADDRESS, CHANNELS, HEADS, SLOTS  # isort: skip

OUT = 11


def read(addressed: bool, dtype: torch.dtype = torch.float64) -> SlotRead:
    torch.manual_seed(0)
    addresses = Addresses(ADDRESS, SLOTS, HEADS, CHANNELS // HEADS, 0.5) if addressed else None
    return SlotRead(CHANNELS, SLOTS, HEADS, out_channels=OUT, temperature=0.5, addresses=addresses).to(dtype)


@given(ragged(3), st.booleans(), st.booleans(), st.sampled_from([torch.float64, torch.float32]))
def test_folded_equals_plain_on_values_and_all_gradients(
    batch: Ragged, addressed: bool, masked: bool, dtype: torch.dtype
) -> None:
    module = read(addressed, dtype)
    names = [name for name, _ in module.named_parameters()]
    targets = batch.mask() if masked else None
    address = batch.randn(batch.num_nodes, ADDRESS, dtype=dtype) if addressed else None

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
    with pytest.raises(ValueError, match="SlotRead") as caught:
        read(addressed=True)(torch.zeros(5, CHANNELS).double(), torch.zeros(1, SLOTS, CHANNELS).double())
    assert "routes by address (address_channels=7) but got none" in str(caught.value)


@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("addressed", [True, False])
def test_a_gain_adds_the_scaled_reading_to_the_nodes(addressed: bool, folded: bool) -> None:
    torch.manual_seed(0)
    addresses = Addresses(ADDRESS, SLOTS, HEADS, CHANNELS // HEADS, 0.5) if addressed else None
    module = SlotRead(CHANNELS, SLOTS, HEADS, addresses=addresses).double()
    module.folded = folded
    batch = Ragged((5, 0, 7), False, seed=1)
    x, memory = batch.randn(batch.num_nodes, CHANNELS, salt=1), batch.randn(batch.num_graphs, SLOTS, CHANNELS, salt=2)
    gain = batch.randn(CHANNELS, salt=3)
    address = batch.randn(batch.num_nodes, ADDRESS, salt=4) if addressed else None
    plain = module(x, memory, batch.index(), address=address)
    assert_close(module(x, memory, batch.index(), address=address, gain=gain), x + gain * plain)
