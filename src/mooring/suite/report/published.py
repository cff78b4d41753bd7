"""What may be published: documents whose tables say what the records say, and records that can be made again.

In a document a block between two comments is generated; everything else in the file is left alone:

    <!-- mooring:table two-radius preset=paper -->
    ...
    <!-- mooring:end -->

and so is the picture after a comment that names a figure, one of its panels if it has several, by number or title:

    <!-- mooring:figure molecules-curves preset=full panel=esol -->
    ![What it shows](img/esol-curves.svg)

A table that is published with `seeds=5` is refused as soon as one of its rows has fewer, and any table is as soon as
the records contradict its caption or a row hides that it differs from the preset (:mod:`mooring.suite.report.claims`).

A record names the commit it was made at. One made with changes that were never committed, or that names no commit or
one that the clone does not have, cannot be made again, so it is refused. So is a run that differs from its preset in a
field that it does not name as changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mooring.suite.files import write_atomic
from mooring.suite.records import RecordError, Records, changed_fields, load, printable, problem, unknown_commits
from mooring.suite.report.claims import CONTRADICTED
from mooring.suite.report.registry import asked, build
from mooring.table import Table

PICTURE = re.compile(
    r"<!--\s*mooring:figure\s+(?P<name>[\w-]+)(?P<options>[^>]*?)\s*-->\s*!\[[^\]]*\]\((?P<file>[^)\s]+\.svg)\)"
)
START = re.compile(r"<!--\s*mooring:table\s+(?P<name>[\w-]+)(?P<options>[^>]*?)\s*-->")
END = "<!-- mooring:end -->"
# The option of a block that no table sees: how many seeds each of its rows has at least.
CLAIM = "seeds"


class StaleError(ValueError):
    """A generated block that no longer says what the records say."""


def refresh(files: Sequence[Path], sources: Sequence[Path], check: bool = False) -> list[Path]:
    """Rewrite the generated blocks of the files; files without a block are left alone.

    Args:
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
        fresh[path] = refreshed(text, records, str(path)).encode()
        fresh |= pictures(text, records, path)
    stale = [path for path, content in fresh.items() if not path.exists() or path.read_bytes() != content]
    if check and stale:
        raise StaleError(
            f"{', '.join(map(str, stale))}: tables or figures differ from the records. Run `mooring report --refresh`."
        )
    for path in stale:
        write_atomic(path, fresh[path])
    return stale


def pictures(text: str, records: Records, document: Path) -> dict[Path, bytes]:
    """The drawings that a document names, by the file that each belongs in."""
    found = {}
    for match in PICTURE.finditer(text):
        try:
            options = _options(match["options"])
            panel = options.pop("panel", "1")
            picture = asked("figure", match["name"], records, options)
            assert not isinstance(picture, Table)
            titles = [drawn.axes[0].get_title(loc="left") for drawn in picture.panels]
            number = titles.index(panel) if panel in titles else int(panel) - 1 if panel.isdecimal() else -1
            if not 0 <= number < len(titles):
                raise ValueError(f"figure '{match['name']}': panel={panel}, but it has {len(titles)}: {titles}.")
        except ValueError as error:
            raise RecordError(f"{document}: {error}") from error
        found[document.parent / match["file"]] = picture.drawn(number)
    return found


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
            options = _options(start["options"])
            claimed = options.pop(CLAIM, None)
            table = build(start["name"], records, **options)
            if claimed is not None:
                _check_seeds(table, start["name"], claimed)
            _check_claims(table, start["name"])
        except ValueError as error:
            raise RecordError(f"{where}: {error}") from error
        pieces += [text[at : start.end()], "\n", table.to_markdown()]
        at = end
    return "".join([*pieces, text[at:]])


def _check_seeds(table: Table, name: str, claimed: str) -> None:
    """ValueError if a row has fewer seeds than the document claims for all of them."""
    if not claimed.isdecimal() or claimed == "0":
        raise ValueError(f"table '{name}': {CLAIM}={claimed} is no number of seeds. Write e.g. {CLAIM}=5.")
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


def _check_claims(table: Table, name: str) -> None:
    """ValueError if the records contradict the caption, or a row hides that it differs from the preset."""
    for note in table.notes:
        if note.startswith(CONTRADICTED):
            raise ValueError(f"table '{name}': {note.removeprefix(CONTRADICTED)} Change the caption or the records.")


def refusals(results: Path, presets: Mapping[tuple[str, str], Mapping[str, Any]] | None = None) -> list[str]:
    """One line for each record under the folder that must not be published.

    Args:
        results: folder of the records.
        presets: configuration of each task and preset; a run that differs from it without saying so is refused.
    """
    records = load([results], skip=True)
    problems = {record.path: problem(record) for record in records}
    clean = {record.path: record.name("git_commit") for record in records if not problems[record.path]}
    gone = unknown_commits(results, set(clean.values()))
    problems |= {path: f"this clone has no commit {commit[:10]}." for path, commit in clean.items() if commit in gone}
    refused = [f"{path}: {why} Make it again from a clean commit." for path, why in problems.items() if why]
    for run in records.kind("run"):
        usual, config = (presets or {}).get((run.task, run.preset), {}), run.mapping("config")
        hidden = [name for name in usual.keys() & config.keys() - changed_fields(run) if config[name] != usual[name]]
        refused += [
            f"{run.path}: {name} is {config[name]!r} where preset '{run.preset}' has {usual[name]!r}, and the record "
            "does not name it as changed. Run it again."
            for name in sorted(hidden)[:1]
        ]
    return [*records.notes, *map(printable, refused)]


def _options(text: str) -> dict[str, str]:
    options = {}
    for word in text.split():
        key, sign, value = word.partition("=")
        if not sign or not value:
            raise ValueError(f"'{word}' is not an option. Write it as name=value.")
        options[key] = value
    return options
