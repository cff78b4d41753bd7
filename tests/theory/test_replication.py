import torch

from mooring.ops import write
from mooring.theory.replication import Stack, normalised, with_anchor


def test_anchor_of_logit_zero_sees_the_number_of_copies() -> None:
    value = torch.ones(1, 1, 1, dtype=torch.float64)
    for copies in (1, 2, 5):
        state = write(torch.zeros_like(value), value.repeat(copies, 1, 1), value.repeat(copies, 1, 1))
        assert normalised(state).item() == 1.0
        torch.testing.assert_close(with_anchor(state).item(), copies / (1 + copies))


def test_stack_passes_source_information_to_the_targets() -> None:
    """Equal targets on X and rX would prove nothing of a stack that never hears its sources."""
    generator = torch.Generator().manual_seed(0)
    source, other, target = torch.randn(3, 5, 11, generator=generator, dtype=torch.float64)
    stack = Stack(3, normalised)
    for first, second in zip(stack.targets(source, target, 1), stack.targets(other, target, 1), strict=True):
        assert (first - second).abs().max() > 1e-3
