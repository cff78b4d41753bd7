from __future__ import annotations

import pytest

from mooring.named import did_you_mean, suggest

KNOWN = ["epochs", "memory_lr_scale", "two-radius", "SumAggregation"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("epoch", "epochs"),
        ("global_lr", "memory_lr_scale"),
        ("two-radios", "two-radius"),
        ("radius", "two-radius"),
        ("sumaggregation", "SumAggregation"),
        ("zzz", None),
        ("", None),
    ],
)
def test_letters_and_whole_words_count(typed: str, meant: str | None) -> None:
    assert did_you_mean(typed, KNOWN) == meant


def test_nothing_alike_gets_the_other_sentence() -> None:
    assert suggest("epoch", KNOWN, "there are four.") == "did you mean 'epochs'?"
    assert suggest("zzz", KNOWN, "there are four.") == "there are four."
    assert suggest("epoch", [], "there are none.") == "there are none."
