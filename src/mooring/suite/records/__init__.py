"""Records: what every training, check and measurement writes, and what all tables and figures are made from."""

from typing import TYPE_CHECKING

from mooring.named import late
from mooring.suite.records.identity import Identity
from mooring.suite.records.reader import LATER, USUALLY, Records, changed_fields, load, read, trained_on
from mooring.suite.records.record import COMMANDS, KINDS, SCHEMA, Record, RecordError, printable
from mooring.suite.records.run import RunRecord, git_commit, record_path, unknown_commits, versions, write

if TYPE_CHECKING:
    from mooring.suite.records.publishing import problem, publish, unpack

__all__ = [
    "COMMANDS",
    "KINDS",
    "LATER",
    "SCHEMA",
    "USUALLY",
    "Identity",
    "Record",
    "RecordError",
    "Records",
    "RunRecord",
    "changed_fields",
    "git_commit",
    "load",
    "printable",
    "problem",
    "publish",
    "read",
    "record_path",
    "trained_on",
    "unknown_commits",
    "unpack",
    "versions",
    "write",
]

# Imported on first use: a run publishes nothing.
__getattr__ = late(__name__, dict.fromkeys(("problem", "publish", "unpack"), "publishing"))
