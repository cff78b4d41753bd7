"""Integer features and encodings as vectors."""

import pytest
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from mooring import checks
from mooring.models import ATOMS, BONDS, AtomEncoder, BondEncoder, CategoryEncoder, PositionEncoder
from support import assert_close

SIZES = (5, 3, 7)


def test_a_row_is_the_sum_of_one_vector_per_feature() -> None:
    encoder = CategoryEncoder(SIZES, 11).double()
    x = torch.stack([torch.randint(0, size, (13,)) for size in SIZES], dim=1)
    tables = encoder.weight.split(SIZES)
    assert_close(encoder(x), sum(table[column] for table, column in zip(tables, x.T, strict=True)))
    assert_close(encoder(x.to(torch.uint8)), encoder(x))


def test_vectors_start_at_unit_variance_and_are_drawn_anew() -> None:
    encoder = CategoryEncoder(SIZES, 1000)
    assert float(encoder(torch.zeros(1, 3, dtype=torch.long)).detach().std()) == pytest.approx(1.0, abs=0.1)
    before = encoder.weight.detach().clone()
    encoder.reset_parameters()
    assert not torch.equal(encoder.weight, before)


def test_the_vocabularies_are_those_of_ogb() -> None:
    assert (len(ATOMS), len(BONDS)) == (9, 3)
    assert AtomEncoder(4).weight.shape == (sum(ATOMS), 4)
    assert BondEncoder(4).weight.shape == (sum(BONDS), 4)
    features = pytest.importorskip("ogb.utils.features", reason="atom features are OGB's")
    assert tuple(features.get_atom_feature_dims()) == ATOMS
    assert tuple(features.get_bond_feature_dims()) == BONDS


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (torch.tensor([[0, 0, 0], [0, 3, 0]]), ValueError, "feature 1 is 3 in row 1 but a value from 0 to 2"),
        (torch.tensor([[0, -1, 0]]), ValueError, "feature 1 is -1"),
        (torch.tensor([0, 0, 0]), ValueError, r"x has shape \(3,\) but \[rows, 3\]"),
        (torch.zeros(2, 3), TypeError, "Use a Linear"),
    ],
)
def test_messages(x: torch.Tensor, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        CategoryEncoder(SIZES, 4)(x)


def test_an_encoder_needs_a_feature() -> None:
    with pytest.raises(ValueError, match="CategoryEncoder: sizes is empty"):
        CategoryEncoder((), 4)


def test_signs_of_eigenvectors_are_flipped_in_training_only() -> None:
    encoder, pe = PositionEncoder(6, 3, flip=True), torch.randn(17, 6)
    encoder.eval()
    assert_close(encoder(pe), encoder(pe))
    encoder.train()
    seen = {tuple(encoder(pe)[0].tolist()) for _ in range(20)}
    assert len(seen) > 5


def test_a_walk_is_normalised_over_the_batch() -> None:
    encoder = PositionEncoder(3, 5).double()
    pe = torch.rand(19, 3, dtype=torch.float64)
    # The norm's epsilon beside the variance of small numbers.
    assert torch.allclose(encoder(pe), encoder(100 * pe), atol=1e-2)
    assert not torch.allclose(PositionEncoder(3, 5, flip=True).double().eval()(pe), encoder(pe))


def test_averaged_and_deferred_encoders_keep_their_tables_apart() -> None:
    encoder, x = AtomEncoder(8), torch.tensor([[6, 0, 4, 5, 3, 0, 2, 0, 0]])
    average = AveragedModel(encoder, multi_avg_fn=get_ema_multi_avg_fn(0.9999), use_buffers=True)
    for _ in range(3):
        average.update_parameters(encoder)
    assert torch.equal(average.module(x), encoder(x))
    with torch.device("meta"):
        deferred = AtomEncoder(8)
    assert deferred(torch.zeros(2, 9, dtype=torch.long, device="meta")).shape == (2, 8)
    deferred.load_state_dict(encoder.state_dict(), assign=True)
    assert torch.equal(deferred(x), encoder(x))


def test_values_are_checked_unless_told_otherwise() -> None:
    encoder, beyond = CategoryEncoder((3, 2), 4), torch.tensor([[3, 0]])
    with pytest.raises(ValueError, match="feature 0 is 3"):
        encoder(beyond)
    with checks(False):
        encoder(beyond)


def test_flipped_encodings_have_no_norm_that_nothing_teaches() -> None:
    encoder = PositionEncoder(4, 8, flip=True)
    encoder(torch.randn(5, 4)).sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())
    encoder.reset_parameters()
