"""SlotWrite: folding projections into the slots changes only the order of products."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.func import functional_call

from mooring.nn import Addresses, SlotWrite
from mooring.nn.slot_write import folds_keys
from mooring.ops import SlotState, reference
from support import Ragged, assert_close, assert_same, ragged, tile_sizes

from modules import ADDRESS, CHANNELS, HEADS, SLOTS  # isort: skip

DTYPES = [torch.float64, torch.float32]


def write(addressed: bool, dtype: torch.dtype = torch.float64) -> SlotWrite:
    torch.manual_seed(0)
    addresses = Addresses(ADDRESS, SLOTS, HEADS, CHANNELS // HEADS, 0.5) if addressed else None
    return SlotWrite(CHANNELS, SLOTS, HEADS, temperature=0.5, addresses=addresses).to(dtype)


@given(ragged(3), st.booleans(), st.booleans(), st.sampled_from(DTYPES))
def test_folded_equals_plain_on_values_and_all_gradients(
    batch: Ragged, addressed: bool, masked: bool, dtype: torch.dtype
) -> None:
    module = write(addressed, dtype)
    names = [name for name, _ in module.named_parameters()]
    sources = batch.mask() if masked else None
    address = batch.randn(batch.num_nodes, ADDRESS, dtype=dtype) if addressed else None

    def run(folded: bool, x: Tensor, *parameters: Tensor) -> SlotState:
        module.folded = folded
        kwargs = {"address": address, "sources": sources, "num_graphs": batch.num_graphs}
        return functional_call(module, dict(zip(names, parameters, strict=True)), (x, batch.index()), kwargs)

    x = batch.randn(batch.num_nodes, CHANNELS, dtype=dtype, salt=1)
    with tile_sizes(11, 7):
        assert_same(lambda *t: run(True, *t), lambda *t: run(False, *t), x, *module.parameters())


def test_equals_the_equations_by_the_oracle() -> None:
    """``eq:slotread`` with every projection written out."""
    module, batch = write(addressed=False), Ragged((5, 0, 7), False, seed=1)
    x, dim = batch.randn(batch.num_nodes, CHANNELS), CHANNELS // HEADS
    split = (HEADS, dim)
    query = (module.slot @ module.lin_query.weight.T).unflatten(-1, split) / (0.5 * dim**0.5)
    key, value = ((x @ lin.weight.T).unflatten(-1, split) for lin in (module.lin_key, module.lin_value))
    expected = reference.write(query, key, value, batch.index())
    state = module(x, batch.index())
    assert_close(state.content, expected.content)
    assert_close(state.log_mass, expected.log_mass)


@pytest.mark.parametrize(
    ("slots", "heads", "channels", "folded"), [(16, 4, 128, True), (64, 4, 128, False), (1000, 1, 8, True)]
)
def test_the_cheaper_order_is_chosen(slots: int, heads: int, channels: int, folded: bool) -> None:
    """Multiplications per node: ``2 M h c`` folded, ``2 c c + 2 M c`` projected."""
    assert folds_keys(slots, heads, channels) is folded
    assert (2 * slots * heads * channels <= 2 * channels**2 + 2 * slots * channels) is folded
    module = SlotWrite(channels, slots, heads)
    _, key = module.score_parts(torch.zeros(3, channels), None)
    assert key.size(1) == (1 if folded else heads)
    # Folded values save each of n nodes c c + M c - M h c, and cost each graph M h c c / h.
    enough = math.ceil(slots * channels / (channels - slots * (heads - 1))) if folded else slots * channels
    assert module._folds_values(enough, 1) is folded
    assert not module._folds_values(enough - 1, 1)


def test_a_missing_address_is_named() -> None:
    with pytest.raises(ValueError, match="SlotWrite") as caught:
        write(addressed=True)(torch.zeros(5, CHANNELS).double())
    assert "routes by address (address_channels=7) but got none" in str(caught.value)
