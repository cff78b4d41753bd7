"""Records in; tables, figures and one self-contained HTML page out.

>>> from mooring.suite.report import estimate
>>> estimate([1.0, 1.0]).mean
1.0
"""

from typing import TYPE_CHECKING

from mooring.named import late
from mooring.suite.records import Record, RecordError, Records, load
from mooring.suite.report.groups import Estimate, estimate, paired_difference
from mooring.suite.report.page import Report, Summary
from mooring.table import Table

if TYPE_CHECKING:
    from mooring.suite.report.documents import StaleError, refresh

__all__ = [
    "Estimate",
    "Record",
    "RecordError",
    "Records",
    "Report",
    "StaleError",
    "Summary",
    "Table",
    "estimate",
    "load",
    "paired_difference",
    "refresh",
]

__getattr__ = late(__name__, {"StaleError": "documents", "refresh": "documents"})
