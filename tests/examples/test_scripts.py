"""The examples run, in seconds, and show what they say."""

import re

from support import ROOT, run_script


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


def test_count() -> None:
    attention, read, weight, mass = run_script(ROOT / "examples" / "count.py").splitlines()
    assert numbers(attention)[0] == 0.0
    assert numbers(read)[0] > 0.01
    assert numbers(weight)[1] < numbers(weight)[0]
    assert numbers(mass)[0] == numbers(mass)[1]


def test_drop_in() -> None:
    """The message passing alone cannot know; one state for all colours helps little; slots know."""
    _, none, single, slots = run_script(ROOT / "examples" / "drop_in.py").splitlines()
    assert numbers(slots)[0] < 0.5 * numbers(single)[0] < 0.5 * numbers(none)[0]
