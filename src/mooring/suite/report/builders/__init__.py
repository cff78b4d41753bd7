"""Records in, tables out: one file per task, and the names under which README and docs ask for a table."""

from mooring.suite.report.builders.named import TABLES, build

__all__ = ["TABLES", "build"]
