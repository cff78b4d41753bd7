import torch

from mooring.nn import VirtualNode
from mooring.theory.symmetry import cloned, one_differs, spread


def test_starts_differ_only_where_they_should() -> None:
    generator = torch.Generator().manual_seed(0)
    assert torch.unique(cloned(5, 3, generator), dim=0).shape == (1, 3)
    assert torch.unique(one_differs(5, 3, generator), dim=0).shape == (2, 3)


def test_spread_grows_from_a_difference_and_from_nothing_else() -> None:
    assert max(spread(cloned, 3, 5, torch.Generator().manual_seed(0))) < 1e-12
    assert min(spread(one_differs, 3, 5, torch.Generator().manual_seed(0))) > 1e-9


def test_copies_of_the_librarys_virtual_node_are_clones() -> None:
    module = VirtualNode(8, copies=3).double()
    with torch.no_grad():
        module.state.copy_(torch.randn(8))
    x = torch.randn(7, 8, dtype=torch.float64)
    _, memory = module(x, return_state=True)
    torch.testing.assert_close(memory.slots, memory.slots[:, :1].expand_as(memory.slots))
    with torch.no_grad():
        module.state[0, 0] += 1.0
    _, memory = module(x, return_state=True)
    assert (memory.slots - memory.slots[:, :1]).abs().max() > 1e-3
