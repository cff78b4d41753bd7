"""Make what can be made: one record that breaks a chapter is left out of it and named, and the chapter is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mooring.suite.report.parse import RecordError, printable
from mooring.suite.report.records import Record, Records

T = TypeVar("T")


def salvage(make: Callable[[Records], T], records: Records, what: str) -> tuple[T, dict[Record, str]]:
    """What `make` makes of the records, without those it cannot be made of, and of each of those why.

    A RecordError names its file. For any other error the record is searched for: the first one with which it occurs.

    Args:
        make: a pure function of records that succeeds on none at all; an error on none is raised.
        records: what to make it of.
        what: the name of what is made, for the notes.
    """
    refused: dict[Record, str] = {}
    while True:
        try:
            return make(records), refused
        # A record can break a drawing in more ways than can be listed, and none may cost the reader the page.
        except Exception as error:
            culprit, reason = _culprit(make, records, error)
            said = str(reason) if isinstance(reason, RecordError) else f"{culprit.path}: {_described(reason)}."
        refused[culprit] = printable(f"Left out of '{what}': {said}")
        records = records.without(culprit)


def _culprit(make: Callable[[Records], T], records: Records, error: Exception) -> tuple[Record, Exception]:
    if isinstance(error, RecordError):
        for record in records:
            if record.path == error.path:
                return record, error
    fine, failing = 0, len(records)
    make(Records(()))
    while failing - fine > 1:
        middle = (fine + failing) // 2
        try:
            make(Records(records.every[:middle]))
            fine = middle
        except Exception as found:
            failing, error = middle, found
    if failing == 0:
        raise error
    return records.every[failing - 1], error


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()):.200}".rstrip(". ")
