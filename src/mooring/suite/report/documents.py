"""Documents whose tables and figures are generated from records.

In a document a block between two comments is generated; everything else in the file is left alone:

    <!-- mooring:table two-radius preset=paper -->
    ...
    <!-- mooring:end -->

and so is the picture after a comment that names a figure, one of its panels if it has several, by number or title:

    <!-- mooring:figure molecules-curves preset=full panel=esol -->
    ![What it shows](img/esol-curves.svg)

A table with `seeds=5` raises an error if one of its rows has fewer seeds, and any table if the records contradict its
notes or a row hides that it differs from the preset (:mod:`mooring.suite.report.claims`). `columns=Model,Both` shows
only these columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mooring.named import suggest
from mooring.suite.files import write_atomic
from mooring.suite.records import COMMANDS, RecordError, Records, load
from mooring.suite.report.drawing import Picture
from mooring.suite.report.exhibits import CONTRADICTED, Exhibit, Kind, Options
from mooring.suite.report.page import Report
from mooring.table import Table

PICTURE = re.compile(
    r"<!--\s*mooring:figure\s+(?P<name>[\w-]+)(?P<options>[^>]*?)\s*-->\s*!\[[^\]]*\]\((?P<file>[^)\s]+\.svg)\)"
)
START = re.compile(r"<!--\s*mooring:table\s+(?P<name>[\w-]+)(?P<options>[^>]*?)\s*-->")
END = "<!-- mooring:end -->"
# The options of a block that are not passed to the table: the least number of seeds of its rows, the columns to show.
CLAIM, COLUMNS = "seeds", "columns"


class StaleError(ValueError):
    """A generated block that differs from the records."""


def refresh(report: Report, files: Sequence[Path], sources: Sequence[Path], check: bool = False) -> list[Path]:
    """Rewrite the generated blocks of the files; files without a block are left alone.

    Args:
        report: makes the tables and figures.
        files: markdown files.
        sources: folders of records, read only if some file has a block.
        check: write nothing and raise StaleError if anything would change.

    Returns:
        the files that were written.
    """
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    if not any(START.search(text) or PICTURE.search(text) for text in texts.values()):
        return []
    records = load(sources)
    fresh: dict[Path, bytes] = {}
    for path, text in texts.items():
        fresh[path] = refreshed(report, text, records, str(path)).encode()
        fresh |= pictures(report, text, records, path)
    stale = [path for path, content in fresh.items() if not path.exists() or path.read_bytes() != content]
    if check and stale:
        raise StaleError(
            f"{', '.join(map(str, stale))}: tables or figures differ from the records. Run `mooring report --refresh`."
        )
    for path in stale:
        write_atomic(path, fresh[path])
    return stale


def pictures(report: Report, text: str, records: Records, document: Path) -> dict[Path, bytes]:
    """Return the drawings that a document names, by file."""
    drawings = {}
    for match in PICTURE.finditer(text):
        try:
            options = _options(match["options"])
            panel = options.pop("panel", "1")
            picture = _make(report, "figure", match["name"], records, options)
            assert isinstance(picture, Picture)
            titles = [drawn.axes[0].get_title(loc="left") for drawn in picture.panels]
            number = titles.index(panel) if panel in titles else int(panel) - 1 if panel.isdecimal() else -1
            if not 0 <= number < len(titles):
                raise ValueError(f"figure '{match['name']}': panel={panel}, but it has {len(titles)}: {titles}.")
        except ValueError as error:
            raise RecordError(f"{document}: {error}") from error
        drawings[document.parent / match["file"]] = picture.drawn(number)
    return drawings


def refreshed(report: Report, text: str, records: Records, where: str) -> str:
    """Return markdown with every generated block replaced by its table; `where` is the name of the file, for errors."""
    pieces = []
    at = 0
    for start in START.finditer(text):
        if start.start() < at:
            raise RecordError(f"{where}: block '{start[0]}' begins inside another. Close the first with '{END}'.")
        end = text.find(END, start.end())
        if end < 0:
            raise RecordError(f"{where}: block '{start[0]}' is never closed. Add '{END}' after it.")
        try:
            options = _options(start["options"])
            claimed, columns = options.pop(CLAIM, None), options.pop(COLUMNS, None)
            table = make_table(report, start["name"], records, **options)
            if claimed is not None:
                _check_seeds(table, start["name"], claimed)
            for note in table.notes:
                if note.startswith(CONTRADICTED):
                    reason = note.removeprefix(CONTRADICTED)
                    raise ValueError(f"table '{table.name}': {reason} Change the caption or the records.")
            table = table if columns is None else narrowed(table, columns.split(","))
        except ValueError as error:
            raise RecordError(f"{where}: {error}") from error
        pieces += [text[at : start.end()], "\n", table.to_markdown()]
        at = end
    return "".join([*pieces, text[at:]])


def narrowed(table: Table, titles: Sequence[str]) -> Table:
    """Return the table with the columns of these full titles only, in this order."""
    places = {column.full: place for place, column in enumerate(table.columns)}
    for name in titles:
        if name not in places:
            hint = suggest(name, places, f"it has {', '.join(places)}.")
            raise ValueError(f"table '{table.name}': no column '{name}'; {hint}")
    chosen = [places[name] for name in titles]
    return replace(
        table,
        columns=tuple(table.columns[place] for place in chosen),
        rows=tuple(tuple(row[place] for place in chosen) for row in table.rows),
        alarms=frozenset((row, chosen.index(place)) for row, place in table.alarms if place in chosen),
    )


def _check_seeds(table: Table, name: str, claimed: str) -> None:
    """Raise ValueError if a row has fewer seeds than the document claims for all rows."""
    if not claimed.isdecimal() or claimed == "0":
        raise ValueError(f"table '{name}': {CLAIM}={claimed} is not a number of seeds. Write e.g. {CLAIM}=5.")
    places = [place for place, column in enumerate(table.columns) if column.title in ("Seeds", "Splits")]
    if not places:
        raise ValueError(f"table '{name}': it has no column of seeds. Leave {CLAIM}={claimed} out.")
    names = [place for place, column in enumerate(table.columns) if column.left]
    for row in table.rows:
        if row[places[0]].isdecimal() and int(row[places[0]]) < int(claimed):
            which = ", ".join(row[place] for place in names[:2])
            raise ValueError(
                f"table '{name}': the row '{which}' has {row[places[0]]} seeds where {CLAIM}={claimed} is claimed. "
                "Run it at more, or claim less."
            )


def find(report: Report, kind: Kind, name: str) -> Exhibit:
    """Return the table or figure of this name."""
    exhibits = report.exhibits(kind)
    if name not in exhibits:
        hint = suggest(name, exhibits, f"there are {', '.join(exhibits)}.")
        raise ValueError(f"no {kind} '{name}'; {hint}")
    return exhibits[name]


def make_table(report: Report, name: str, records: Records, /, **options: str) -> Table:
    """Return a table, e.g. of `make_table(REPORT, "verify", records)`; ValueError if it cannot be made."""
    table = _make(report, "table", name, records, options)
    assert isinstance(table, Table)
    return table


def _make(report: Report, kind: Kind, name: str, records: Records, options: Options) -> Table | Picture:
    """Return the table or figure that a document names; ValueError for a wrong option or without data for it."""
    exhibit = find(report, kind, name)
    who = f"{kind} '{name}'"
    for option in options:
        if option not in exhibit.options:
            hint = suggest(option, exhibit.options, f"it takes {', '.join(exhibit.options) or 'none'}.")
            raise ValueError(f"{who}: unknown option '{option}'; {hint}")
    for option, needed in exhibit.options.items():
        if needed and option not in options:
            raise ValueError(f"{who}: option '{option}' is missing. Write {option}=... after the name.")
    task, preset = exhibit.task, options.get("preset")
    if task and not records.runs(task, preset):
        which = f" with preset '{preset}'" if preset else ""
        command = COMMANDS["run"].format(task=task, preset=preset) if preset else f"mooring run {task}"
        raise ValueError(f"{who}: no run of {task}{which}. Write one with `{command}`.")
    if exhibit.record and not records.kind(exhibit.record):
        raise ValueError(f"{who}: no {exhibit.record} record. Write one with `{COMMANDS[exhibit.record]}`.")
    block = exhibit.make(records, options)
    if block is None:
        raise ValueError(f"{who}: the {task or exhibit.record} records hold nothing for it. Write them again.")
    return block


def _options(text: str) -> dict[str, str]:
    options = {}
    for word in text.split():
        key, sign, value = word.partition("=")
        if not sign or not value:
            raise ValueError(f"'{word}' is not an option. Write it as name=value.")
        options[key] = value
    return options
