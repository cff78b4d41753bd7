"""Records: what every training, check and measurement writes, and what all tables and figures are made from."""

from mooring.suite.records.reader import LATER, Records, load, read
from mooring.suite.records.record import COMMANDS, KINDS, SCHEMA, Record, RecordError, printable
from mooring.suite.records.run import RunRecord, git_commit, record_path, versions, write

__all__ = [
    "COMMANDS",
    "KINDS",
    "LATER",
    "SCHEMA",
    "Record",
    "RecordError",
    "Records",
    "RunRecord",
    "git_commit",
    "load",
    "printable",
    "read",
    "record_path",
    "versions",
    "write",
]
