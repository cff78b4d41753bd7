"""Records: what every training, check and measurement leaves behind, and all that tables and figures are made of."""

from mooring.suite.records.file import KINDS, SCHEMA, RecordError, git_commit, printable, versions, write
from mooring.suite.records.reader import COMMANDS, Record, Records, load, read
from mooring.suite.records.run import RunRecord, record_path

__all__ = [
    "COMMANDS",
    "KINDS",
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
