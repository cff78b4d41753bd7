"""Tables, figures and the chapters that show them: each is one function with its words beside it.

A function from records to a :class:`Body` becomes a table, one from records to panels a figure:

    @table("sizes", task="two-radius", title="Sizes, preset {preset}", notes="Means over seeds{interval}.")
    def sizes(records: Records, preset: str) -> Body: ...

Names in braces are options of the function, or words that it returns. Page and terminal show the chapters of
:mod:`mooring.suite.chapters`; documents name a table, as in `<!-- mooring:table sizes preset=paper -->`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, signature
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from mooring.suite.records import COMMANDS, Records
from mooring.suite.report.groups import Group, group, interval, listed, show
from mooring.table import ABSENT, Column, Table

if TYPE_CHECKING:  # figures need matplotlib, tables do not
    from matplotlib.figure import Figure

    from mooring.suite.report.drawing import Picture

Kind = Literal["table", "figure"]
Options = Mapping[str, str]
# The options of an exhibit on the page, one set for each time it is shown.
Each = Callable[[Records], list[dict[str, str]]]
# Returns a sentence on what the runs of a table contradict in its notes; an empty text if nothing.
Claim = Callable[[Sequence[Group]], str]
CONTRADICTED = "Contradicted by the records: "
# The objects of a run's metrics and the titles of their columns; curves of training are not shown.
METRICS = {"best": "selected epoch", "final": "at the end"}
LEARNING = ("learning_rate", "train/")


class Body:
    """Columns and rows of a table, and words for its title and notes.

    Args:
        columns: one per cell of a row.
        rows: cells as finished text.
        notes: further notes below those of the table.
        alarms: places (row, column) of cells that report a failure.
        groups: the runs that the rows show, on which the claims of the table are checked.
        words: replacements of the names in braces, beside the options.
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


class Panels:
    """Panels of a figure, and words for its title and caption.

    Args:
        panels: the drawings; without any there is no figure.
        words: replacements of the names in braces, beside the options.
    """

    def __init__(self, panels: Iterable[Figure], **words: object) -> None:
        self.panels, self.words = tuple(panels), words


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure.

    Args:
        kind: table or figure.
        name: its name in documents, links and files.
        build: the decorated function, of records and options.
        title: its heading.
        text: notes of a table, separated by empty lines, or the caption of a figure.
        claims: checks of the notes on the runs.
        task: the task whose runs it needs, if any.
        record: the kind of record it needs, if it is not made of runs.
        each: the options it is shown with on the page; every preset of the task if there is an option of this name.
    """

    kind: Kind
    name: str
    build: Callable[..., Any]
    title: str
    text: str = ""
    claims: tuple[Claim, ...] = ()
    task: str = ""
    record: str = ""
    each: Each | None = None

    @cached_property
    def options(self) -> dict[str, bool]:
        """The options by name, and whether each is required."""
        parameters = list(signature(self.build).parameters.values())[1:]
        return {parameter.name: parameter.default is Parameter.empty for parameter in parameters}

    def make(self, records: Records, options: Options) -> Table | Picture | None:
        """Return the table or picture, None if the records hold no data for it."""
        return self._table(records, options) if self.kind == "table" else self._picture(records, options)

    def shown(self, records: Records) -> list[dict[str, str]]:
        """Return the options with which it is shown on the page, one set for each time."""
        if self.each is not None:
            return self.each(records)
        if self.options.get("preset"):
            return [{"preset": preset} for preset in records.presets(self.task)]
        return [{}] if (records.runs(self.task) if self.task else records.kind(self.record)) else []

    def _table(self, records: Records, options: Options) -> Table | None:
        body: Body | None = self.build(records, **options)
        if body is None:
            return None
        words = {**options, **body.words}
        paragraphs = [" ".join(text.split()).format_map(words) for text in self.text.strip().split("\n\n") if text]
        notes = (*paragraphs, *body.notes, *contradictions(self.claims, body.groups, body.rows))
        headline = str(body.words.get("headline", ""))
        return Table(self.name, self.title.format_map(words), body.columns, body.rows, notes, body.alarms, headline)

    def _picture(self, records: Records, options: Options) -> Picture | None:
        from mooring.suite.report.drawing import Picture, in_style

        drawn = in_style(self.build)(records, **options)
        content = drawn if isinstance(drawn, Panels) else Panels(drawn)
        if not content.panels:
            return None
        words = {**options, **content.words}
        title, caption = (" ".join(text.split()).format_map(words) for text in (self.title, self.text))
        return Picture("-".join([self.name, *options.values()]), title, caption, content.panels)


def table(
    name: str,
    *,
    title: str,
    notes: str = "",
    claims: tuple[Claim, ...] = (),
    task: str = "",
    record: str = "",
    each: Each | None = None,
) -> Callable[[Callable[..., Body | None]], Exhibit]:
    """Make a table of a function of records and options that returns a :class:`Body`; see :class:`Exhibit`."""
    return lambda build: Exhibit("table", name, build, title, notes, claims, task, record, each)


def figure(
    name: str, *, title: str, caption: str, task: str = "", record: str = "", each: Each | None = None
) -> Callable[[Callable[..., Panels | Sequence[Figure]]], Exhibit]:
    """Make a figure of a function of records and options that returns panels, or :class:`Panels`."""
    return lambda build: Exhibit("figure", name, build, title, caption, (), task, record, each)


def contradictions(claims: Iterable[Claim], groups: Sequence[Group], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return a sentence for each claim that the runs contradict and for each row that hides a changed setting.

    Args:
        claims: e.g. those of :mod:`mooring.suite.report.claims`.
        groups: the runs that the table shows.
        rows: its cells.
    """
    cells = {cell for row in rows for cell in row}
    problems = [
        f"{item.title} differs from the preset, but no row says so."
        for item in groups
        if item.variant and not any(item.variant in cell for cell in cells)
    ]
    problems += [problem for claim in claims if (problem := claim(groups))]
    return [f"{CONTRADICTED}{problem}" for problem in problems]


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
        name: its name in links.
        title, lead: its heading and the sentence below it.
        command: the command that writes its records.
        needs: a task, or a kind of record; without such records its exhibits are not imported.
        exhibits: imports and returns its tables and figures.
    """

    name: str
    title: str
    lead: str
    command: str
    needs: str
    exhibits: Callable[[], tuple[Exhibit, ...]]

    def section(self, records: Records, *, figures: bool = True) -> Section | None:
        """Return the section, or None if no record has data for it.

        Args:
            records: all records.
            figures: draw the figures too.
        """
        if not any(record.kind == self.needs or record.find("task") == self.needs for record in records):
            return None
        exhibits = [exhibit for exhibit in self.exhibits() if figures or exhibit.kind == "table"]
        shown = [(exhibit.shown(records), exhibit) for exhibit in exhibits]
        places = [
            (exhibit, options)
            # Group consecutive exhibits that share the same option sets.
            for every, neighbours in ((every, list(pairs)) for every, pairs in groupby(shown, key=lambda pair: pair[0]))
            for options in every
            for _, exhibit in neighbours
        ]
        # Tables first, so that a bad record is refused before anything is drawn.
        order = sorted(range(len(places)), key=lambda place: places[place][0].kind == "figure")
        made = {place: places[place][0].make(records, places[place][1]) for place in order}
        blocks = tuple(block for _, block in sorted(made.items(), key=lambda item: item[0]) if block is not None)
        return Section(self.name, self.title, self.lead, blocks) if blocks else None


def chapter(
    name: str, title: str, *, lead: str, command: str, needs: str
) -> Callable[[Callable[[], tuple[Exhibit, ...]]], Chapter]:
    """Make a chapter of a function that imports and returns its exhibits; see :class:`Chapter`."""
    return lambda exhibits: Chapter(name, title, " ".join(lead.split()), command.format_map(COMMANDS), needs, exhibits)


def other_tasks(known: Collection[str]) -> Chapter:
    """Return the last chapter: one table per task and preset for runs of tasks without a chapter, such as a user's.

    Args:
        known: the tasks that have a chapter.
    """

    def places(records: Records) -> list[dict[str, str]]:
        runs = dict.fromkeys((run.task, run.preset) for run in records.kind("run") if run.task not in known)
        return [{"task": task, "preset": preset} for task, preset in runs]

    exhibit = Exhibit("table", "metrics", _metrics, "{task}, preset {preset}", "As recorded{interval}.", each=places)
    lead = "What runs of tasks without a chapter of their own measured."
    return Chapter("own", "Other tasks", lead, "", "run", lambda: (exhibit,))


def _metrics(records: Records, task: str, preset: str) -> Body:
    groups = group(records.runs(task, preset))
    fields = dict.fromkeys(
        (part, name)
        for part in METRICS
        for item in groups
        for run in item.runs
        for name in run.mapping("metrics", part)
        if not name.startswith(LEARNING)
    )
    rows = [(item.title, *(_cell(item, *field) for field in fields), str(len(item.runs))) for item in groups]
    columns = [Column(name, group=METRICS[part]) for part, name in fields]
    return Body([Column("Model", left=True), *columns, Column("Seeds")], rows, groups=groups)


def _cell(item: Group, part: str, name: str) -> str:
    """Return the mean over the seeds, or a dash if some run lacks the score or it is NaN or infinite."""
    values = [run.find("metrics", part, name) for run in item.runs]
    defined = all(isinstance(value, int | float) and math.isfinite(value) for value in values)
    return show(item.estimate("metrics", part, name), digits=4) if defined else ABSENT
