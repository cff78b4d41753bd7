import math

import pytest

from mooring.theory import Series


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
