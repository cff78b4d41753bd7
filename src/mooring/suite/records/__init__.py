"""Records: the results of trainings, checks and measurements, from which all tables and figures are made."""

from typing import TYPE_CHECKING

from mooring.named import late
from mooring.suite.records.identity import (
    DEFAULT_HARDWARE,
    DEFAULTS_FOR_OLD_RECORDS,
    Identity,
    changed_fields,
    hardware_of,
)
from mooring.suite.records.reader import Records, load, read
from mooring.suite.records.record import COMMANDS, KINDS, SCHEMA, Record, RecordError, printable
from mooring.suite.records.run import RunRecord, git_commit, record_path, unknown_commits, versions, write

if TYPE_CHECKING:
    from mooring.suite.records.publishing import commit_problem, publish, refusals, unpack

__all__ = [
    "COMMANDS",
    "DEFAULTS_FOR_OLD_RECORDS",
    "DEFAULT_HARDWARE",
    "KINDS",
    "SCHEMA",
    "Identity",
    "Record",
    "RecordError",
    "Records",
    "RunRecord",
    "changed_fields",
    "commit_problem",
    "git_commit",
    "hardware_of",
    "load",
    "printable",
    "publish",
    "read",
    "record_path",
    "refusals",
    "unknown_commits",
    "unpack",
    "versions",
    "write",
]

# Imported on first use: a run publishes nothing.
__getattr__ = late(__name__, dict.fromkeys(("commit_problem", "publish", "refusals", "unpack"), "publishing"))
