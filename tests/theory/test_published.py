"""The committed record of the claims is what the code finds today."""

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


def near(found: float | None, published: float | None) -> bool:
    """Whether two figures agree to three digits; what is rounding error, to two orders of magnitude."""
    if found is None or published is None or abs(published) > ROUNDING:
        return found == pytest.approx(published, rel=1e-3)
    return abs(found) <= max(100 * abs(published), 1e-12) and abs(published) <= max(100 * abs(found), 1e-12)


def agree(found: Any, published: Any) -> bool:
    """The same words, with figures that are near."""
    if isinstance(published, str):
        same_words = NUMBER.sub("#", found) == NUMBER.sub("#", published)
        figures = [
            tuple(map(float, pair)) for pair in zip(NUMBER.findall(found), NUMBER.findall(published), strict=False)
        ]
        # Where the largest rounding error was met is rounding too.
        last = next((place for place, (_, other) in enumerate(figures, 1) if abs(other) <= ROUNDING), len(figures))
        return same_words and all(near(one, other) for one, other in figures[:last])
    if isinstance(published, list):
        return len(found) == len(published) and all(map(agree, found, published))
    if isinstance(published, dict):
        return found.keys() == published.keys() and all(agree(found[name], published[name]) for name in published)
    if isinstance(published, float):
        return near(found, published)
    return bool(found == published)


def test_every_claim_is_published() -> None:
    assert tuple(PUBLISHED) == labels()


@pytest.mark.parametrize("label", dict.fromkeys(claim.label.split(".")[0] for claim in CLAIMS))
def test_the_record_is_what_is_found(label: str) -> None:
    for result in verify([label], seed=RECORD["seed"]).to_record()["claims"]:
        result = json.loads(json.dumps(result))
        for field, published in PUBLISHED[result["label"]].items():
            if field != "seconds":
                assert agree(result[field], published), (result["label"], field, result[field], published)
