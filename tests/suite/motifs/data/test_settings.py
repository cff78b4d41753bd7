"""Impossible settings are refused, and the message says what to do."""

import pytest

from mooring.suite.motifs.data import MotifSettings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"background": (5, 40)}, "Use at least 6 nodes"),
        ({"background": (40, 23)}, "Give the smaller end first"),
        ({"extra_edges": 5.0}, "above half of all pairs"),
        ({"extra_edges": -0.5}, "Use 0 for a tree"),
        ({"max_count": 1}, "Use at least 2"),
        ({"max_distractors": -1}, "Use 0 for no distractors"),
        ({"num_types": 0}, "Use 1 to 256"),
        ({"ood_counts": (6, 18)}, "Start it at 7 or above"),
        ({"ood_background": (64, 128)}, "Start it at 65 or above"),
        ({"copies": (1, 3)}, "replicates nothing"),
        ({"rewired": 1.5}, "rewired=1.5 is not a share"),
        ({"retyped": -0.1}, "retyped=-0.1 is not a share"),
    ],
)
def test_refused(change, message):
    with pytest.raises(ValueError, match=message):
        MotifSettings(**change)


def test_the_smallest_that_works_is_accepted():
    assert MotifSettings(background=(6, 6), extra_edges=0.0, num_types=1, max_distractors=0)
