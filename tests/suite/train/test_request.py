from __future__ import annotations

from pathlib import Path

import pytest

from mooring.suite.train import RunRequest, parse_seeds


@pytest.mark.parametrize(
    ("text", "seeds"), [("0", [0]), ("0,3", [0, 3]), ("2-4", [2, 3, 4]), ("0-1, 7", [0, 1, 7]), ("5-5", [5])]
)
def test_seeds_are_read(text: str, seeds: list[int]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5-2", r"5-2 counts down and is empty\. Write 2-5"),
        ("0,9-8", "9-8 counts down"),
        ("", "expected numbers as in"),
        ("-1", "expected numbers as in"),
        ("1.5", "expected numbers as in"),
        ("0-", "expected numbers as in"),
        ("0:4", "expected numbers as in"),
        ("99999999999", "expected seeds up to"),
        ("0-999999999", "10,000 of them at most"),
    ],
)
def test_seeds_that_would_run_nothing_or_everything_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_seeds(text)


def test_a_request_travels_as_text() -> None:
    request = RunRequest("motifs", "vn", 3, "tiny", {"epochs": "2"}, Path("out"), 2)
    assert RunRequest.from_json(request.to_json()) == request


def test_a_request_names_what_it_changes_in_the_preset() -> None:
    request = RunRequest("two-radius", "vn", 3, "paper", {"epochs": "3", "slots": 5})
    assert str(request) == "two-radius paper, epochs=3, slots=5 vn seed 3"
    assert str(RunRequest("two-radius", "vn", 3, "paper")) == "two-radius paper vn seed 3"
