"""The thirty lines that the module is timed against compute the same."""

import torch

from mooring.suite.bench.batches import LocalLayer, PaddedSlots, compare_batches
from mooring.suite.bench.shapes import Setting, get_shape


def test_the_padded_formulation_is_the_module() -> None:
    padded = PaddedSlots(Setting(dim=12, slots=5, heads=3)).double()
    with torch.no_grad():
        padded.memory.integrate.lin_film.weight.normal_(std=0.5)
    batch = get_shape("molecules-6").batch()
    x = torch.randn(len(batch), 12, dtype=torch.float64)
    torch.testing.assert_close(padded(x, batch, 6), padded.memory(x, batch))


def test_a_molecule_is_a_chain() -> None:
    layer = LocalLayer(Setting(dim=4, slots=2, heads=1))
    layer(torch.randn(5, 4), torch.tensor([0, 0, 0, 1, 1]), 2)
    assert layer.edges is not None
    assert layer.edges[0].tolist() == [[0, 1, 3, 1, 2, 4], [1, 2, 4, 0, 1, 3]]


def test_every_width_and_number_of_threads_is_a_row(monkeypatch) -> None:
    monkeypatch.setattr("mooring.suite.bench.batches.WIDTHS", (8, 16))
    rows = compare_batches(["molecules-3"], ["slots, FiLM", "plain padded"], Setting(dim=8, slots=2, heads=2), 1)
    found = [(row["graphs"], row["width"], row["threads"]) for row in rows]
    assert found == [(3, 8, 1), (3, 16, 1), (3, 8, 2), (3, 16, 2)]
    assert all(row["plain padded_over_slots"] > 0 for row in rows)
