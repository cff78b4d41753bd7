"""The published numbers are those of the paper's tables, and chance is what counting says."""

from __future__ import annotations

from itertools import product

import pytest

from mooring.suite.report import paper


def test_tables_of_the_paper() -> None:
    assert paper.COUNTED["cross-attn"] == (100.0, 28.3, 28.3)
    assert paper.COUNTED["mpnn"] == (7.8, 17.1, 1.3)
    assert paper.MOTIFS["mean"]["jittered/log_r2"] == -0.211
    assert paper.LINKS == {"cross-attn": 0.751, "anchored": 0.816}
    assert paper.ORIGINAL["gcn+vn"][1024][-1] == 37
    assert all(len(row) == len(paper.ORIGINAL_SIZES) for rows in paper.ORIGINAL.values() for row in rows.values())


@pytest.mark.parametrize(("bases", "scales"), [(4, (1, 2, 3)), (3, (1, 5)), (5, (2,))])
def test_chance_by_enumeration(bases: int, scales: tuple[int, ...]) -> None:
    cases = list(product(range(1, bases + 1), scales))
    constant = max(sum(base * scale == guess for base, scale in cases) for guess in range(1, 100)) / len(cases)
    # A blind model sees the base number and must give one answer for all scales.
    blind = sum(
        max(sum(base * scale == guess for scale in scales) for guess in range(1, 100)) for base in range(1, bases + 1)
    ) / len(cases)
    found = paper.references(7, bases, scales)
    assert (found.label, found.count, found.blind) == pytest.approx((1 / 7, constant, blind))
    assert found.both == pytest.approx(constant / 7)


def test_order_is_the_papers() -> None:
    models = ["anchored", "my-own", "gcn+anchored", "vn", "gcn", "mpnn", "gcn+vn-sum", "cross-attn"]
    assert sorted(models, key=paper.rank) == [
        "mpnn", "gcn", "vn", "gcn+vn-sum", "cross-attn", "anchored", "gcn+anchored", "my-own",
    ]  # fmt: skip
