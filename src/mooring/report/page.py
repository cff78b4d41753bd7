"""One self-contained HTML page from record files: no network, no scripts, no outside fonts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from mooring.files import write_atomic
from mooring.report.figures.style import Picture
from mooring.report.records import RecordError, Records, load
from mooring.report.sections import CHAPTERS, Chapter, Section
from mooring.report.tables import Column, Table


@dataclass(frozen=True)
class Summary:
    """What a report was made of: where it lies, the chapters it has and lacks, and the tables for the terminal."""

    path: Path
    num_records: int
    sections: tuple[str, ...]
    missing: tuple[str, ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...]


def build_report(sources: Sequence[Path], out: Path) -> Summary:
    """Write the page of all records under `sources` to `out`.

    Args:
        sources: folders (or single files) of records; where two hold the same run, the earlier one counts.
        out: the HTML file to write; its folder is made.

    Returns:
        what the page shows, with its tables.
    """
    records = load(sources)
    if not records:
        raise RecordError(
            f"report: no record under {', '.join(map(str, sources))}. Write some first, e.g. with `mooring run "
            f"two-radius`."
        )
    built = [(chapter, chapter.section(records)) for chapter in CHAPTERS]
    sections = [section for _, section in built if section is not None]
    lacking = [chapter for chapter, section in built if section is None]
    html = _template().render(
        sections=[_view(section) for section in sections],
        lacking=lacking,
        origin=Markup(provenance(records).to_html()),
        num_records=len(records),
        notes=records.notes,
        style=Markup((_folder() / "page.css").read_text(encoding="utf-8")),
    )
    write_atomic(out, html)
    tables = tuple(block for section in sections for block in section.blocks if isinstance(block, Table))
    names = tuple(section.name for section in sections)
    return Summary(out, len(records), names, tuple(chapter.name for chapter in lacking), tables, records.notes)


def tables_text(sources: Sequence[Path], width: int = 110) -> str:
    """Every table of the records as plain text, as the terminal shows it."""
    records = load(sources)
    return "\n".join(table.to_text(width) for section in _sections(records) for table in _tables(section))


def write_figures(sources: Sequence[Path], folder: Path, suffix: str = "svg") -> list[Path]:
    """Every figure of the records as files of their own, e.g. for a README or for slides.

    Args:
        sources: folders or files of records.
        folder: where the files go; it is made.
        suffix: `svg` or `png`.
    """
    pictures = [block for section in _sections(load(sources)) for block in section.blocks if isinstance(block, Picture)]
    return [path for picture in pictures for path in picture.write(folder, suffix)]


def provenance(records: Records) -> Table:
    """Where the numbers come from: how many records of each kind, of which code and library versions."""
    kinds: dict[str, list[str]] = {}
    for record in records:
        name = f"{record.task}, {record.preset}" if record.kind == "run" else record.kind
        commit = str(record.find("git_commit") or "unknown")[:10]
        versions = record.find("versions") or {}
        text = ", ".join(f"{key} {versions[key]}" for key in ("python", "torch", "torch_geometric") if key in versions)
        kinds.setdefault(name, []).append(f"{commit}|{text}")
    rows = []
    for name, found in kinds.items():
        commits, versions_ = ({item.split("|")[part] for item in found} - {""} for part in (0, 1))
        rows.append((name, str(len(found)), ", ".join(sorted(commits)), "; ".join(sorted(versions_)) or "not recorded"))
    columns = (
        Column("Records", left=True),
        Column("Files"),
        Column("Commit", left=True),
        Column("Versions", left=True),
    )
    return Table("provenance", "Where the numbers come from", columns, tuple(rows))


def _sections(records: Records) -> list[Section]:
    found = [chapter.section(records) for chapter in CHAPTERS]
    return [section for section in found if section is not None]


def _tables(section: Section) -> list[Table]:
    return [block for block in section.blocks if isinstance(block, Table)]


def _view(section: Section) -> dict[str, object]:
    """A section as the template reads it."""
    blocks = [
        {"table": Markup(block.to_html())}
        if isinstance(block, Table)
        else {
            "name": block.name,
            "title": block.title,
            "caption": block.caption,
            "svgs": [Markup(s) for s in block.svgs()],
        }
        for block in section.blocks
    ]
    return {"name": section.name, "title": section.title, "lead": section.lead, "blocks": blocks}


def _folder() -> Path:
    return Path(__file__).parent / "templates"


@cache
def _template() -> Template:
    loader = FileSystemLoader(_folder())
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html.j2")


__all__ = ["Chapter", "Summary", "build_report", "provenance", "tables_text", "write_figures"]
