"""The committed record of the claims agrees with the code."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mooring.theory import CLAIMS, labels, verify

RECORD = json.loads(Path(__file__).parents[2].joinpath("results/verify.json").read_text())
PUBLISHED = {claim["label"]: claim for claim in RECORD["claims"]}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?|inf")
ROUNDING = 1e-6


def near(measured: float | None, published: float | None) -> bool:
    """Return whether two figures agree to three digits; rounding errors need only agree to two orders of magnitude."""
    if measured is None or published is None or abs(published) > ROUNDING:
        return measured == pytest.approx(published, rel=1e-3)
    return abs(measured) <= max(100 * abs(published), 1e-12) and abs(published) <= max(100 * abs(measured), 1e-12)


def agree(measured: Any, published: Any) -> bool:
    """Return whether two values have the same words, and figures that are near."""
    if isinstance(published, str):
        same_words = NUMBER.sub("#", measured) == NUMBER.sub("#", published)
        figures = [
            tuple(map(float, pair)) for pair in zip(NUMBER.findall(measured), NUMBER.findall(published), strict=False)
        ]
        # Where the largest rounding error was met is rounding too.
        last = next((place for place, (_, other) in enumerate(figures, 1) if abs(other) <= ROUNDING), len(figures))
        return same_words and all(near(*pair) for pair in figures[:last])
    if isinstance(published, list):
        return len(measured) == len(published) and all(map(agree, measured, published))
    if isinstance(published, dict):
        return measured.keys() == published.keys() and all(agree(measured[name], published[name]) for name in published)
    if isinstance(published, float):
        return near(measured, published)
    return bool(measured == published)


def test_every_claim_is_published() -> None:
    assert tuple(PUBLISHED) == labels()


@pytest.mark.parametrize("label", dict.fromkeys(claim.label.split(".")[0] for claim in CLAIMS))
def test_the_record_is_what_is_found(label: str) -> None:
    for result in verify([label], seed=RECORD["seed"]).to_record()["claims"]:
        result = json.loads(json.dumps(result))
        for field, published in PUBLISHED[result["label"]].items():
            if field != "seconds":
                assert agree(result[field], published), (result["label"], field, result[field], published)
