"""Input and output of the commands: tables, errors, options with lists, names to complete, files to write."""

from __future__ import annotations

import codecs
import contextlib
import functools
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from mooring.table import Column, FittedText, Table

# A pipe or a log has no width; long lines are easier to read there than tables in bands.
console = Console() if (sys.stdout and sys.stdout.isatty()) or "COLUMNS" in os.environ else Console(width=140)
# Replacements of letters of our tables on a terminal that is not UTF-8; other letters are escaped.
SPELLED = {"─": "-", "–": "-", "±": "+-", "…": "...", "×": "x"}

# The default folder of records, and the file of tasks and modules.
RUNS, LISTING = Path("runs"), "listing.json"
# Options of several commands.
DataDir = Annotated[Path | None, typer.Option(help="Folder of real data; by default MOORING_DATA, or data.")]
Arguments = Annotated[list[str] | None, typer.Option(help="name=value for the constructor.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Import the model of a run if it is package.module:Name, which runs its code.")
]
STYLES = {"title": "table.title", "heading": "table.header", "alarm": "bold red", "note": "table.caption"}


class FittedTable:
    """A table that fits the console it is printed on; brackets in its cells and headings are not markup."""

    def __init__(self, table: Table) -> None:
        self.text = FittedText(table)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.text.lines(options.max_width):
            spans = [(text, STYLES.get(role, "")) for text, role in line]
            yield Text.assemble(*spans, no_wrap=True, overflow="ignore", end="\n")


def say(text: str, style: str | None = None) -> None:
    """Print a text as it is, without markup and without line breaks of the console."""
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def complain(message: str) -> None:
    """Print an error or a warning on stderr."""
    Console(stderr=True).print(message, style="red", highlight=False, markup=False, soft_wrap=True)


def fail(message: str, code: int = 1) -> NoReturn:
    """Print an error and exit."""
    complain(message)
    raise typer.Exit(code)


def parse_names(text: str) -> list[str]:
    """Split on ';' if present, else on ',' (the name of a contestant may contain commas).

    >>> parse_names("slots, bf16;ISAB"), parse_names("large,skewed")
    (['slots, bf16', 'ISAB'], ['large', 'skewed'])
    """
    parts = text.split(";" if ";" in text else ",")
    return [part.strip() for part in parts if part.strip()]


def parse_numbers(text: str, who: str) -> list[int] | None:
    """Return numbers between commas; None for an empty text."""
    try:
        return [int(number) for number in text.split(",")] if text else None
    except ValueError:
        fail(f"{who} is {text!r}; expected numbers as in 0,3,8.", 2)


def use_data(folder: Path | None) -> None:
    """Set the data folder of this process and its workers in the environment, so that no record holds a path."""
    if folder is not None:
        os.environ["MOORING_DATA"] = str(folder.absolute())


def words(*headings: str) -> tuple[Column, ...]:
    """Return columns of text."""
    return tuple(Column(heading, left=True) for heading in headings)


@functools.cache
def listed() -> dict[str, Any]:
    """Return the tasks and modules by name, from a file that tools/listing.py writes: to import them takes seconds."""
    return json.loads((files("mooring.suite") / LISTING).read_text(encoding="utf-8"))


def complete_task(incomplete: str) -> list[str]:
    """Complete the name of a task."""
    return [name for name in listed()["tasks"] if name.startswith(incomplete)]


def complete_preset(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a preset of the task on the command line."""
    task = listed()["tasks"].get(ctx.params.get("task"), {"presets": []})
    return [name for name in task["presets"] if name.startswith(incomplete)]


def complete_models(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the last of the names between commas: models of the task, then those of the zoo."""
    before, comma, last = incomplete.rpartition(",")
    task = listed()["tasks"].get(ctx.params.get("task"), {"models": []})
    known = dict.fromkeys([*task["models"], *listed()["zoo"]])
    return [f"{before}{comma}{name}" for name in known if name.startswith(last)]


def complete_record(incomplete: str) -> list[str]:
    """Complete the record of a run in this folder."""
    return [name for path in sorted(RUNS.rglob("*-seed*.json")) if (name := str(path)).startswith(incomplete)]


def import_from_here(*targets: str, trust: bool = False) -> None:
    """Add the current folder to the import path if a target is ``package.module:Name``, or files are trusted.

    Workers get the import path of this process.
    """
    if trust or any(":" in target for target in targets):
        sys.path.insert(0, str(Path.cwd()))


def require_file(path: Path | None) -> None:
    """Fail before the work starts if the file for its result cannot be written."""
    if path is None:
        return
    if path.is_dir():
        fail(f"{path} is a folder, expected the name of a file to write.", 2)
    above = _existing(path.absolute().parent)
    if not above.is_dir():
        fail(f"{path} cannot be written: {above} is a file.", 2)
    if not os.access(path if path.exists() else above, os.W_OK):
        fail(f"{path} cannot be written: no permission.", 2)


def require_folder(path: Path, who: str) -> None:
    """Fail before the work starts if files cannot be written below the folder."""
    above = _existing(path.absolute())
    if not above.is_dir():
        fail(f"{who} {path} cannot be written to: {above} is a file, expected a folder.", 2)


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def explained(start: Callable[[], object]) -> None:
    """Run a command and print errors for the user without a traceback.

    The exit code is 2 for a wrong request, 1 for work that failed, and 130 after Ctrl-C.
    """
    _open_streams()
    try:
        start()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "mooring"):
            raise
        complain(f"mooring: {missing} is not installed. Install what the commands need: pip install 'mooring[suite]'")
        sys.exit(2)
    except (ValueError, ImportError) as error:
        complain(str(error))
        sys.exit(2)
    except (OSError, RuntimeError, MemoryError) as error:
        complain(str(error) or type(error).__name__)
        sys.exit(1)


def _open_streams() -> None:
    """Make the standard streams usable: a closed one becomes the null device, and any letter can be printed."""
    codecs.register_error("spelled", _spelled)
    # In this order, so that each gets its number again and no other file takes it.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="spelled")


def _spelled(error: UnicodeError) -> tuple[str | bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    error.end = error.start + 1
    letter = error.object[error.start]
    return (SPELLED[letter], error.end) if letter in SPELLED else codecs.backslashreplace_errors(error)


@contextlib.contextmanager
def working(first: str) -> Iterator[Callable[[str], None]]:
    """Print at once on stderr what takes time: a line that changes on a terminal, elsewhere only `first`."""
    errors = Console(stderr=True)
    if errors.is_terminal:
        with errors.status(first) as status:
            yield status.update
    else:
        errors.print(first, highlight=False, markup=False, soft_wrap=True)
        yield lambda text: None
