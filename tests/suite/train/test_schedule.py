"""A rate that rises from above zero, is whole at the end of the warm-up, and falls to a hundredth."""

from __future__ import annotations

import pytest

from mooring.suite.train.schedule import LOWEST_RATE, warmup_then_cosine

EPOCHS, STEPS = 5, 7


def factors(warmup: float) -> list[float]:
    return [
        warmup_then_cosine(epoch, step, epochs=EPOCHS, steps_per_epoch=STEPS, warmup_epochs=warmup)
        for epoch in range(EPOCHS + 1)
        for step in range(STEPS)
    ]


@pytest.mark.parametrize("warmup", [1.0, 2.5])
def test_rises_then_falls(warmup: float) -> None:
    found = factors(warmup)
    top = round(warmup * STEPS + 0.49)
    rise, fall = found[: top + 1], found[top : EPOCHS * STEPS + 1]
    assert rise[0] > 0
    assert rise == sorted(rise)
    assert fall == sorted(fall, reverse=True)
    assert max(found) == pytest.approx(1.0, abs=0.05)
    assert found[EPOCHS * STEPS] == pytest.approx(LOWEST_RATE)


def test_without_warmup_it_starts_at_the_top_and_stays_at_the_bottom() -> None:
    found = factors(0.0)
    assert found[0] == 1.0
    assert all(factor == pytest.approx(LOWEST_RATE) for factor in found[EPOCHS * STEPS :])


def test_a_run_that_is_all_warmup_never_divides_by_nothing() -> None:
    assert factors(float(EPOCHS))[-1] == pytest.approx(LOWEST_RATE)
