"""The curves of a run as a CSV file, for looking at while it trains."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from mooring.suite.files import write_atomic


def write_csv(path: Path, history: Sequence[dict[str, float]]) -> None:
    """Write one row per epoch; the columns are those of all rows, in order of first appearance."""
    columns = list(dict.fromkeys(name for row in history for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(history)
    write_atomic(path, text.getvalue())
