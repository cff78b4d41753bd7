"""Counts beyond the training range: the claim of docs/the-one-idea.md.

With read weights that do not depend on the mass (here by address), a linear map of the mass and an unbounded
integration, the output moves along one direction in proportion to the mass feature when every node is there r times:
by log r for log-odds, and towards it for log(1 + mass). A bounded modulation stays where it is.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mooring.nn import SlotVirtualNode

CHANNELS, SLOTS, HEADS, ADDRESS = 12, 3, 2, 5
NODES = 7
# Of the number of copies of every node.
LOGS = torch.tensor([0.0, 2.0, 5.0, 20.0, 200.0, 400.0], dtype=torch.float64)
X = torch.randn(NODES, CHANNELS, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def outputs(**options: object) -> Tensor:
    """Return the output for every node with multiplicity 1, e^2, e^5, ..."""
    torch.manual_seed(0)
    module = SlotVirtualNode(CHANNELS, SLOTS, HEADS, address_channels=ADDRESS, init_std=0.5, **options).double()
    address = torch.randn(NODES, ADDRESS).double()
    with torch.no_grad():
        return torch.stack([module(X, address=address, log_weight=log.expand(NODES)) for log in LOGS])


def slopes(out: Tensor) -> Tensor:
    """Return the change of the output per unit of log multiplicity."""
    return out.diff(dim=0) / LOGS.diff()[:, None, None]


@pytest.mark.parametrize("competition", [False, True])
def test_log_odds_with_a_linear_path_are_affine_in_the_log_of_the_copies(competition: bool) -> None:
    changes = slopes(outputs(mass="log_odds", mass_map="linear", integrate="residual", competition=competition))
    assert float(changes[0].norm()) > 0.1
    torch.testing.assert_close(changes, changes[:1].expand_as(changes), rtol=0.0, atol=1e-8)


def test_log_of_one_plus_the_mass_becomes_affine() -> None:
    changes = slopes(outputs(mass="softplus", mass_map="linear", integrate="residual"))
    assert float((changes[0] - changes[-1]).norm()) > 1e-3
    torch.testing.assert_close(changes[-2], changes[-1], rtol=0.0, atol=1e-5)


def test_beside_film_the_linear_path_goes_on() -> None:
    changes = slopes(outputs(mass="log_odds", mass_map="linear", integrate="linear_film"))
    assert float(changes[-1].norm()) > 0.5 * float(changes[0].norm()) > 0.05


def test_film_alone_is_bounded() -> None:
    """For any count, a channel is at most 1.5 times its input, plus one."""
    out = outputs(mass="log_odds", mass_map="linear", integrate="film")
    assert bool((out.abs() <= 1.5 * X.abs() + 1.0).all())
    assert float(slopes(out)[-1].norm()) < 0.01 * float(slopes(out)[0].norm())
