"""One self-contained HTML page from record files: no network, no outside fonts, and whole without its script."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from mooring.markup import digest, inert, policy
from mooring.suite.files import write_atomic
from mooring.suite.records import Record, RecordError, Records, load, printable
from mooring.suite.report.exhibits import Chapter, Exhibit, Kind, Section, other_tasks
from mooring.table import Column, Table

T = TypeVar("T")
TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Summary:
    """The outcome of a report: its file, the chapters it has and lacks, and the tables for the terminal."""

    path: Path
    num_records: int
    sections: tuple[str, ...]
    missing: tuple[str, ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Inside:
    """The explorer's page of a trained memory, made where the weights are: a report itself reads records only.

    Args:
        title: its heading.
        command: the command that makes this page alone.
        html: a self-contained page, whose policy allows its own script and style by their hashes.
    """

    title: str
    command: str
    html: str

    def allowed(self, kind: str) -> list[str]:
        """Return the hashes of its policy for `script` or `style`; both policies apply to a page inside another."""
        sources = re.search(rf"{kind}-src ([^;\"]+)", self.html)
        return re.findall(r"'sha256-[\w+/=]+'", sources[1]) if sources else []


class Report:
    """Some chapters as a page, as text for a terminal and as files of figures.

    Args:
        chapters: in the order of the page.
        unshown: imports and returns the tables and figures that documents may name though no chapter shows them.
    """

    def __init__(self, chapters: Sequence[Chapter], unshown: Callable[[], tuple[Exhibit, ...]] = tuple) -> None:
        self.chapters, self.unshown = tuple(chapters), unshown

    def exhibits(self, kind: Kind) -> dict[str, Exhibit]:
        """Import all tables or all figures; by name."""
        every = [exhibit for chapter in self.chapters for exhibit in chapter.exhibits()]
        return {exhibit.name: exhibit for exhibit in (*every, *self.unshown()) if exhibit.kind == kind}

    def build(
        self,
        sources: Sequence[Path],
        out: Path,
        insides: Sequence[Inside] = (),
        progress: Callable[[str], None] = lambda text: None,
    ) -> Summary:
        """Write the page of all records under `sources` to `out`; files that are not usable records are left out.

        Args:
            sources: folders (or single files) of records; if two hold the same run, the earlier one is used.
            out: the HTML file to write; its folder is made.
            insides: pages that show trained memories.
            progress: called with each chapter before it is drawn, which takes seconds.

        Returns:
            the chapters and tables of the page, and notes on what was left out and why.

        Raises:
            RecordError: if no record can be used.
        """
        drawn, records = self._made(load(sources, skip=True), _drawn, progress)
        if not records:
            raise RecordError(_nothing(sources, records.notes))
        sections = [section for section, _ in drawn]
        names = tuple(section.name for section in sections)
        lacking = [chapter for chapter in self.chapters if chapter.name not in names]
        style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
        script = f'"use strict";\n(() => {{\n{script}}})();'
        # The page's own script and style, and those of the pages inside it.
        allowed = {
            kind: list(
                dict.fromkeys([digest(text), *(source for inside in insides for source in inside.allowed(kind))])
            )
            for kind, text in (("script", script), ("style", style))
        }
        html = _template().render(
            sections=[view for _, view in drawn],
            lacking=lacking,
            origin=Markup(provenance(records).to_html()),
            num_records=len(records),
            headline=next((table.headline for section in sections for table in section.tables if table.headline), ""),
            notes=records.notes,
            insides=insides,
            policy=Markup(policy(allowed["script"], allowed["style"])),
            style=Markup(style),
            script=Markup(script),
        )
        write_atomic(out, html)
        tables = tuple(table for section in sections for table in section.tables)
        return Summary(out, len(records), names, tuple(chapter.name for chapter in lacking), tables, records.notes)

    def tables_text(self, sources: Sequence[Path], width: int = 110) -> str:
        """Return every table of the records as plain text for a terminal, and notes on what was left out."""
        sections, records = self._made(
            load(sources, skip=True), lambda chapter, records: chapter.section(records, figures=False)
        )
        tables = [table.to_text(width) for section in sections for table in section.tables]
        return "\n".join([*tables, *records.notes])

    def write_figures(self, sources: Sequence[Path], folder: Path, suffix: str = "svg") -> list[Path]:
        """Write every figure of the records to a file, e.g. for a README or for slides.

        Args:
            sources: folders or files of records.
            folder: where the files go; it is made.
            suffix: `svg` or `png`.
        """
        drawn, _ = self._made(load(sources, skip=True), _drawn)
        blocks = [block for section, _ in drawn for block in section.blocks]
        return [path for block in blocks if not isinstance(block, Table) for path in block.write(folder, suffix)]

    def _made(
        self,
        records: Records,
        make: Callable[[Chapter, Records], T | None],
        progress: Callable[[str], None] = lambda text: None,
    ) -> tuple[list[T], Records]:
        """Return the chapters that have records, and the records without those that some chapter left out."""
        sections: list[T] = []
        refused: dict[Record, str] = {}
        chapters = [*self.chapters]
        known = frozenset(chapter.needs for chapter in self.chapters)
        if any(run.task not in known for run in records.kind("run")):
            chapters.append(other_tasks(known))
        for place, chapter in enumerate(chapters, 1):
            progress(f"report: {chapter.title}, chapter {place} of {len(chapters)} ...")
            section, without = salvage(partial(make, chapter), records, chapter.title)
            refused |= without
            sections += [section] if section is not None else []
        used = tuple(record for record in records if record not in refused)
        return sections, Records(used, (*records.notes, *refused.values()))


def provenance(records: Records) -> Table:
    """Return the table of the records of each kind, with their commits and library versions."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for record in records:
        name = f"{record.task}, {record.preset}" if record.kind == "run" else record.kind
        commit = record.find("git_commit") or "unknown"
        commit = commit[:10] + ("-dirty" if commit.endswith("-dirty") else "")
        versions = record.find("versions") or {}
        text = ", ".join(f"{key} {versions[key]}" for key in ("python", "torch", "torch_geometric") if key in versions)
        kinds.setdefault(name, []).append((commit, text))
    rows = []
    for name, origins in kinds.items():
        commits, versions_ = ({item[part] for item in origins} - {""} for part in (0, 1))
        rows.append(
            (name, str(len(origins)), ", ".join(sorted(commits)), "; ".join(sorted(versions_)) or "not recorded")
        )
    columns = tuple(Column(title, left=title != "Files") for title in ("Records", "Files", "Commit", "Versions"))
    return Table("provenance", "Where the numbers come from", columns, tuple(rows))


def salvage(make: Callable[[Records], T], records: Records, title: str) -> tuple[T, dict[Record, str]]:
    """Return a chapter made without the records that it cannot use, and for each of those the reason.

    Args:
        make: a function of records; the records that its RecordErrors name are left out.
        records: the records to make the chapter of.
        title: the title of the chapter, for the reasons.
    """
    refused: dict[Record, str] = {}
    while True:
        try:
            return make(records), refused
        except RecordError as error:
            reason = error
        unusable = next((record for record in records if record.path == reason.path), None)
        if unusable is None:
            raise reason
        refused[unusable] = printable(f"Left out of '{title}': {reason}")
        records = records.without(unusable)


def _drawn(chapter: Chapter, records: Records) -> tuple[Section, dict[str, object]] | None:
    """Return a section and its blocks for the template; some records break a figure only when it is written."""
    section = chapter.section(records)
    if section is None:
        return None
    blocks: list[dict[str, object]] = []
    for block in section.blocks:
        if isinstance(block, Table):
            blocks.append({"table": Markup(block.to_html())})
            continue
        drawings = block.drawings()
        curves = [charts for _, charts in drawings]
        has_curves = any(chart["curves"] for charts in curves for chart in charts)
        words = {"name": block.slug, "title": block.title, "caption": block.caption}
        svgs = [Markup(svg) for svg, _ in drawings]
        blocks.append({**words, "svgs": svgs, "curves": Markup(inert(curves)) if has_curves else None})
    return section, {"name": section.name, "title": section.title, "lead": section.lead, "blocks": blocks}


def _nothing(sources: Sequence[Path], notes: Sequence[str]) -> str:
    where = ", ".join(map(str, sources)) or "runs or results, which are not in this folder"
    if not notes:
        return f"report: no record under {where}. Write some first, e.g. with `mooring run two-radius`."
    more = f" And {len(notes) - 3} more." if len(notes) > 3 else ""
    return f"report: no usable record under {where}. {' '.join(notes[:3])}{more}"


@cache
def _template() -> Template:
    options: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    return Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, **options).get_template("page.html.j2")
