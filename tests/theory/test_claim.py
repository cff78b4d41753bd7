import dataclasses
import json
import math

import pytest
import torch

from mooring.theory import Claim, Evidence, Series


def test_record_has_gaps_where_values_are_missing_or_not_finite() -> None:
    series = Series("t", [1, 2, 3], [("a", [0.5, None, math.inf])], "x", "y", "xy")
    assert series.to_record() == {
        "title": "t",
        "x": [1.0, 2.0, 3.0],
        "lines": [{"label": "a", "y": [0.5, None, None]}],
        "xlabel": "x",
        "ylabel": "y",
        "log": "xy",
    }


def test_a_line_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="Series 't': line 'a' has 1 values but x has 2"):
        Series("t", [1, 2], [("a", [1.0])], "x", "y")


def at_most_five(number: int, instances: int, generator: torch.Generator) -> Evidence:
    drawn = float(torch.rand((), generator=generator))
    return Evidence(number <= 5, drawn, instances, f"got {number}", (Series("t", [1], [("a", [drawn])], "x", "y"),))


CLAIM = Claim(
    label="prop:example",
    statement="The subject is at most five.",
    check=at_most_five,
    subject=3,
    controls={"a number above five": 7},
    margin_means="a random number",
    instances=11,
)


def test_result_reports_subject_and_control() -> None:
    result = CLAIM.run()
    assert result.ok
    assert (result.note, result.control_note, result.instances) == ("got 3", "got 7", 11)
    assert CLAIM.run(instances=2).instances == 2


def test_a_claim_that_is_false_and_a_control_that_passes_are_both_not_ok() -> None:
    false = dataclasses.replace(CLAIM, subject=7).run()
    toothless = dataclasses.replace(CLAIM, controls={"three": 3}).run()
    assert (false.passed, false.control_failed, false.ok) == (False, True, False)
    assert (toothless.passed, toothless.control_failed, toothless.ok) == (True, False, False)


def test_randomness_is_a_function_of_seed_and_label() -> None:
    assert CLAIM.run(seed=1).margin == CLAIM.run(seed=1).margin
    assert CLAIM.run(seed=1).margin != CLAIM.run(seed=2).margin
    assert CLAIM.run(seed=1).margin != dataclasses.replace(CLAIM, label="prop:other").run(seed=1).margin
    assert CLAIM.run().margin == CLAIM.run().control_margin


def test_record_is_strict_json() -> None:
    def infinite(number: int, instances: int, generator: torch.Generator) -> Evidence:
        return Evidence(True, float("inf"), instances)

    record = dataclasses.replace(CLAIM, check=infinite).run().to_record()
    assert record["margin"] is None
    assert json.loads(json.dumps(CLAIM.run().to_record(), allow_nan=False))["series"][0]["title"] == "t"


def test_no_instances_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"prop:example: instances must be at least 1, got 0\. Pass"):
        CLAIM.run(instances=0)


def test_every_further_control_has_to_be_rejected_too() -> None:
    caught = dataclasses.replace(CLAIM, controls={**CLAIM.controls, "eight": 8, "nine": 9}).run()
    assert caught.ok
    assert caught.control == "a number above five; eight; nine"
    assert caught.control_note == "got 7; got 8; got 9"
    missed = dataclasses.replace(CLAIM, controls={**CLAIM.controls, "eight": 8, "two": 2}).run()
    assert (missed.passed, missed.control_failed, missed.ok) == (True, False, False)
