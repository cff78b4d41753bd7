"""Keep the tables in README and docs equal to the records.

A block between two comments is generated; everything else in the file is left alone:

    <!-- mooring:table two-radius preset=paper -->
    ...
    <!-- mooring:end -->
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mooring.suite.files import write_atomic
from mooring.suite.report.builders.named import build
from mooring.suite.report.records import RecordError, Records, load

START = re.compile(r"<!--\s*mooring:table\s+(?P<name>[\w-]+)(?P<options>[^>]*?)\s*-->")
END = "<!-- mooring:end -->"


class StaleError(ValueError):
    """A generated block that no longer says what the records say."""


def refresh(files: Sequence[Path], sources: Sequence[Path], check: bool = False) -> list[Path]:
    """Write the generated blocks of the files anew; files without a block are left alone.

    Args:
        files: markdown files.
        sources: folders of records, read only if some file has a block.
        check: write nothing and raise StaleError if anything would change.

    Returns:
        the files that were written.
    """
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    if not any(START.search(text) for text in texts.values()):
        return []
    records = load(sources)
    fresh = {path: refreshed(text, records, str(path)) for path, text in texts.items()}
    stale = [path for path in texts if fresh[path] != texts[path]]
    if check and stale:
        raise StaleError(
            f"{', '.join(map(str, stale))}: tables differ from the records. Run `mooring report --refresh`."
        )
    for path in stale:
        write_atomic(path, fresh[path])
    return stale


def refreshed(text: str, records: Records, where: str) -> str:
    """The text with every generated block replaced by its table.

    Args:
        text: markdown.
        records: what the tables are made of.
        where: name of the file, for errors.
    """
    pieces = []
    at = 0
    for start in START.finditer(text):
        if start.start() < at:
            raise RecordError(f"{where}: block '{start[0]}' begins inside another. Close the first with '{END}'.")
        end = text.find(END, start.end())
        if end < 0:
            raise RecordError(f"{where}: block '{start[0]}' is never closed. Add '{END}' after it.")
        try:
            table = build(start["name"], records, **_options(start["options"]))
        except ValueError as error:
            raise RecordError(f"{where}: {error}") from error
        pieces += [text[at : start.end()], "\n", table.to_markdown()]
        at = end
    return "".join([*pieces, text[at:]])


def _options(text: str) -> dict[str, str]:
    options = {}
    for word in text.split():
        key, sign, value = word.partition("=")
        if not sign or not value:
            raise ValueError(f"'{word}' is no option. Write it as name=value.")
        options[key] = value
    return options
