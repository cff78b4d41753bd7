"""Every table and figure of the report, registered once under a name.

A function from records to rows becomes a table, one from records to panels a figure
(:func:`~mooring.suite.report.drawing.figure`). Page, terminal and documents ask for both by name:

    @table("two-radius", task="two-radius")
    def accuracy(records: Records, preset: str) -> Rows: ...

    <!-- mooring:table two-radius preset=paper -->

Each folder of `FOLDERS` has a `tables.py` and a `figures.py` of such functions, which are imported when one of them is
asked for, and a `captions.ini` with their titles and notes and with the chapters that show them; a caption may name
another module of its folder. A new task is a new folder and its line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from configparser import ConfigParser
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from inspect import Parameter, signature
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mooring.named import suggest
from mooring.suite.records import COMMANDS, Records
from mooring.suite.report.groups import Group, interval, listed
from mooring.table import Column, Table

if TYPE_CHECKING:  # figures need matplotlib, tables do not
    from mooring.suite.report.drawing import Picture

# In the order of their chapters.
FOLDERS = ("two_radius", "motifs", "linksets", "real", "report")
Kind = Literal["table", "figure"]
Options = Mapping[str, str]
Build = TypeVar("Build", bound=Callable[..., Any])
ENTRIES: dict[tuple[Kind, str], Entry] = {}


class Rows:
    """What a table's function returns: columns and rows, and what its caption in `captions.ini` is filled with.

    Args:
        columns: one per cell of a row.
        rows: cells as finished text.
        notes: further notes below those of the caption.
        alarms: places (row, column) of cells that report a failure.
        groups: the runs that the rows show, against which the claims of the caption are held.
        words: what stands for the names in braces of the caption, beside the options.
    """

    def __init__(
        self,
        columns: Iterable[Column],
        rows: Iterable[tuple[str, ...]],
        notes: Iterable[str] = (),
        alarms: Iterable[tuple[int, int]] = (),
        groups: Iterable[Group] = (),
        **words: object,
    ) -> None:
        self.columns, self.rows, self.notes = tuple(columns), tuple(rows), tuple(notes)
        self.alarms, self.groups = frozenset(alarms), tuple(groups)
        self.words = {"interval": interval(self.groups), "listed": listed(self.groups), **words}


@dataclass(frozen=True)
class Caption:
    """A section of a folder's `captions.ini`: its fields, in which names in braces are filled in."""

    folder: str
    fields: Mapping[str, str]

    def line(self, field: str, words: Mapping[str, object]) -> str:
        """A field on one line."""
        return " ".join(self.fields[field].split()).format_map(words)

    def paragraphs(self, field: str, words: Mapping[str, object]) -> tuple[str, ...]:
        """The parts of a field between empty lines, each on one line."""
        parts = self.fields.get(field, "").strip().split("\n\n")
        return tuple(" ".join(part.split()).format_map(words) for part in parts if part)


@dataclass(frozen=True)
class Entry:
    """A registered table or figure.

    Args:
        kind: table or figure.
        name: what documents and `captions.ini` call it.
        build: the registered function, of records and options.
        finish: makes a table or picture of what `build` returns; None if that is empty.
        task: the task whose runs it needs, if any.
        record: the kind of record it needs, if it is not made of runs.
        each: the options it is shown with on the page; every preset of the task if there is an option of this name.
    """

    kind: Kind
    name: str
    build: Callable[..., Any]
    finish: Callable[[Entry, Any, Options], Any] = field(repr=False)
    task: str = ""
    record: str = ""
    each: Callable[[Records], list[dict[str, str]]] | None = None

    @cached_property
    def options(self) -> dict[str, bool]:
        """The options by name, and whether each must be given."""
        parameters = list(signature(self.build).parameters.values())[1:]
        return {parameter.name: parameter.default is Parameter.empty for parameter in parameters}

    @property
    def caption(self) -> Caption:
        return captions()[f"{self.kind} {self.name}"]

    def make(self, records: Records, options: Options) -> Table | Picture | None:
        """The table or picture, None where the records hold nothing for it."""
        return self.finish(self, self.build(records, **options), options)

    def shown(self, records: Records) -> list[dict[str, str]]:
        """The options with which it is shown on the page, one set for each time."""
        if self.each is not None:
            return self.each(records)
        if self.options.get("preset"):
            return [{"preset": preset} for preset in records.presets(self.task)]
        return [{}] if (records.runs(self.task) if self.task else records.kind(self.record)) else []


@dataclass(frozen=True)
class Section:
    """A chapter of a page, made from records."""

    name: str
    title: str
    lead: str
    blocks: tuple[Table | Picture, ...]

    @property
    def tables(self) -> list[Table]:
        return [block for block in self.blocks if isinstance(block, Table)]


@dataclass(frozen=True)
class Chapter:
    """The tables and figures of one subject in their order, and the command that writes their records.

    Args:
        name: what links call it.
        title, lead: its heading and the sentence below it.
        command: the command that writes its records.
        needs: a task, or a kind of record; without such records nothing is made and its code is not imported.
        shows: its blocks.
    """

    name: str
    title: str
    lead: str
    command: str
    needs: str
    shows: tuple[tuple[Kind, str], ...]

    def section(self, records: Records, *, figures: bool = True) -> Section | None:
        """The section, or None where no record has anything for it.

        Args:
            records: what it is made of.
            figures: draw them too.
        """
        if not any(record.kind == self.needs or record.find("task") == self.needs for record in records):
            return None
        entries = [find(kind, name) for kind, name in self.shows if figures or kind == "table"]
        places = [
            (entry, options)
            # Neighbours that are shown for the same presets stand together under each of them.
            for every, together in _runs(entries, records)
            for options in every
            for entry in together
        ]
        # Tables first, so that a bad record is refused before anything is drawn.
        made = {
            place: places[place][0].make(records, places[place][1])
            for kind in ("table", "figure")
            for place in range(len(places))
            if places[place][0].kind == kind
        }
        blocks = tuple(block for _, block in sorted(made.items(), key=lambda item: item[0]) if block is not None)
        return Section(self.name, self.title, self.lead, blocks) if blocks else None


def table(
    name: str, *, task: str = "", record: str = "", each: Callable[[Records], list[dict[str, str]]] | None = None
) -> Callable[[Build], Build]:
    """Register a function of records and options that returns :class:`Rows`, or None; see :class:`Entry`."""
    return register("table", name, _table, task, record, each)


def register(
    kind: Kind,
    name: str,
    finish: Callable[[Entry, Any, Options], Any],
    task: str,
    record: str,
    each: Callable[[Records], list[dict[str, str]]] | None,
) -> Callable[[Build], Build]:
    """Register a function under a name that no other of its kind has."""

    def add(build: Build) -> Build:
        assert (kind, name) not in ENTRIES, f"{kind} '{name}' is registered twice"
        ENTRIES[kind, name] = Entry(kind, name, build, finish, task, record, each)
        return build

    return add


def names(kind: Kind) -> list[str]:
    """The names of all tables or of all figures."""
    return [section.split()[1] for section in captions() if section.startswith(f"{kind} ")]


def find(kind: Kind, name: str) -> Entry:
    """The table or figure of this name."""
    known = names(kind)
    if name not in known:
        hint = suggest(name, known, f"there are {', '.join(known)}.")
        raise ValueError(f"no {kind} '{name}'; {hint}")
    caption = captions()[f"{kind} {name}"]
    import_module(f"mooring.suite.{caption.folder}.{caption.fields.get('module', f'{kind}s')}")
    return ENTRIES[kind, name]


def build(name: str, records: Records, /, **options: str) -> Table:
    """The table of this name, e.g. build("two-radius", records, preset="paper"); ValueError says what is wrong."""
    found = asked("table", name, records, options)
    assert isinstance(found, Table)
    return found


def asked(kind: Kind, name: str, records: Records, options: Options) -> Table | Picture:
    """What a document asks for by name; ValueError for options that it does not take and where no record has it."""
    entry = find(kind, name)
    who = f"{kind} '{name}'"
    for option in options:
        if option not in entry.options:
            hint = suggest(option, entry.options, f"it takes {', '.join(entry.options) or 'none'}.")
            raise ValueError(f"{who}: unknown option '{option}'; {hint}")
    for option, needed in entry.options.items():
        if needed and option not in options:
            raise ValueError(f"{who}: option '{option}' is missing. Write {option}=... after the name.")
    task, preset = entry.task, options.get("preset")
    if task and not records.runs(task, preset):
        which = f" with preset '{preset}'" if preset else ""
        command = COMMANDS["run"].format(task=task, preset=preset) if preset else f"mooring run {task}"
        raise ValueError(f"{who}: no run of {task}{which}. Write one with `{command}`.")
    if entry.record and not records.kind(entry.record):
        raise ValueError(f"{who}: no {entry.record} record. Write one with `{COMMANDS[entry.record]}`.")
    found = entry.make(records, options)
    if found is None:
        raise ValueError(f"{who}: the {task or entry.record} records hold nothing for it. Write them again.")
    return found


@cache
def chapters() -> tuple[Chapter, ...]:
    """The chapters of the page in their order."""
    found = []
    for section, caption in captions().items():
        if section.startswith("chapter "):
            title, lead, command, needs = (
                caption.line(field, COMMANDS) for field in ("title", "lead", "command", "needs")
            )
            shows: Any = (tuple(line.split()) for line in caption.fields["shows"].strip().splitlines())
            found.append(Chapter(section.split()[1], title, lead, command, needs, tuple(shows)))
    return tuple(found)


@cache
def captions() -> Mapping[str, Caption]:
    """The sections of every `captions.ini`."""
    found: dict[str, Caption] = {}
    for folder in FOLDERS:
        parser = ConfigParser(delimiters=("=",), comment_prefixes=("#",), interpolation=None)
        parser.read_string((Path(__file__).parents[1] / folder / "captions.ini").read_text(encoding="utf-8"))
        found |= {section: Caption(folder, dict(parser[section])) for section in parser.sections()}
    return found


def _table(entry: Entry, rows: Rows | None, options: Options) -> Table | None:
    if rows is None:
        return None
    words = {**options, **rows.words}
    claims, contradicted = entry.caption.fields.get("claims", ""), []
    if claims or any(item.variant for item in rows.groups):
        from mooring.suite.report.claims import contradictions

        contradicted = contradictions(claims, rows.groups, rows.rows)
    notes = (*entry.caption.paragraphs("notes", words), *rows.notes, *contradicted)
    return Table(entry.name, entry.caption.line("title", words), rows.columns, rows.rows, notes, rows.alarms)


def _runs(entries: Sequence[Entry], records: Records) -> list[tuple[list[dict[str, str]], list[Entry]]]:
    shown = [(entry.shown(records), entry) for entry in entries]
    return [(every, [entry for _, entry in group]) for every, group in groupby(shown, key=lambda item: item[0])]
