"""Records in; tables, figures and one self-contained HTML page out.

>>> from mooring.report import estimate
>>> estimate([1.0, 1.0]).mean
1.0
"""

from mooring.report.clean import refusals
from mooring.report.page import Summary, build_report, tables_text, write_figures
from mooring.report.records import Record, RecordError, Records, load
from mooring.report.refresh import StaleError, refresh
from mooring.report.stats import Estimate, estimate, paired_difference
from mooring.report.tables import Table

__all__ = [
    "Estimate",
    "Record",
    "RecordError",
    "Records",
    "StaleError",
    "Summary",
    "Table",
    "build_report",
    "estimate",
    "load",
    "paired_difference",
    "refresh",
    "refusals",
    "tables_text",
    "write_figures",
]
