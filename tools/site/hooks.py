"""What mkdocs does beyond Markdown: the reference of the command, long tables behind a fold, files of others."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import click
import typer
import vendor
from docstrings import documented, printed
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
TABLE = re.compile(r"<!--\s*mooring:table\s+(?P<what>[^>]*?)\s*-->\n(?P<body>.*?)<!-- mooring:end -->", flags=re.S)
# A reader sees this many rows at once.
ROWS = 12
# Names that a page puts before the others.
shown: set[str] = set()
COMMANDS = "<!-- mooring:commands -->"
NAMES = re.compile(r"<!-- mooring:names (\w+)((?: \w+)*) -->")
# The heading under which docs/theorems.md has the paper's labels themselves.
LABELS = "## The paper's labels"
# Pages of the repository that live outside of docs/.
OUTSIDE = {
    "benchmarks.md": "benchmarks/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}


def on_files(files: Files, config: Any) -> Files:
    """Add what is fetched, and the pages from outside of docs/."""
    folder = vendor.fetched()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = f"assets/vendor/{path.relative_to(folder).as_posix()}"
            files.append(File.generated(config, name, content=path.read_bytes()))
    files.append(File.generated(config, "assets/explorer.html", content=explorer()))
    for name, source in OUTSIDE.items():
        files.append(File.generated(config, name, content=inside((ROOT / source).read_text(encoding="utf-8"))))
    return files


def explorer() -> str:
    """The page that the code of the tutorial ends with."""
    text = (ROOT / "docs/tutorials/looking-inside.md").read_text(encoding="utf-8")
    first, second, *_ = re.findall(r"^```python\n(.*?)^```", text, flags=re.M | re.S)
    namespace: dict[str, Any] = {}
    exec(re.sub(r"^page\.save.*$", "", f"{first}\n{second}", flags=re.M), namespace)
    return namespace["page"].html


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in names, commands and the paper's numbers, fold long tables, keep links to pages outside of docs/ here."""
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, commands())
    markdown = NAMES.sub(lambda found: names(found[1], found[2].split()), markdown)
    up = "../" * page.file.src_uri.count("/")
    for name, source in OUTSIDE.items():
        markdown = re.sub(rf"\]\((?:\.\./)+{re.escape(source)}(#[\w-]+)?\)", rf"]({up}{name}\1)", markdown)
    before, heading, after = markdown.partition(LABELS)
    # The labels of the checks are the first cells of a generated table.
    before = re.sub(r"^\| ((?:thm|prop|cor|app|sec):[\w.-]+) +\|", r"| `\1` |", before, flags=re.M)
    markdown = printed(before, f"[{{}}]({up}theorems.md#the-papers-labels)") + heading + after
    return TABLE.sub(_folded, _unbroken(markdown))


def _unbroken(markdown: str) -> str:
    """Let no cell break inside 'a ± b'."""
    rows = re.compile(r"^\|.*\|$", flags=re.M)
    return rows.sub(lambda row: re.sub(r"(?<=\S) ± (?=\S)", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}", row[0]), markdown)


def inside(text: str) -> str:
    """Links of a page at the root of the repository, or in a folder beside docs/, as they are inside docs/."""
    return re.sub(r"\]\((?:\.\./)?docs/", "](", text)


def _folded(found: re.Match[str]) -> str:
    table = found["body"].strip()
    rows = sum(line.startswith("|") for line in table.splitlines()) - 2
    if rows <= ROWS:
        return found[0]
    title = re.split(r"\s+\w+=", found["what"])[0].replace("-", " ")
    return f'<details markdown="1">\n<summary>Table: {title}, {rows} rows</summary>\n\n{table}\n\n</details>'


def names(package: str, first: list[str]) -> str:
    """The public names of a package for mkdocstrings: ``first``, or if there are none, all that no page has yet.

    Constants have nothing to say.
    """
    home = importlib.import_module(f"mooring.{package}")
    public = [name for name in home.__all__ if documented()[name] == f"mooring.{package}.{name}"]
    shown.update(first)
    public = first or [name for name in public if name not in shown]
    return "\n\n".join(f"::: mooring.{package}.{name}" for name in public if callable(getattr(home, name)))


def commands() -> str:
    """Every command with its arguments and options, from the code that parses them."""
    from mooring.suite.cli import app

    group = typer.main.get_command(app)
    assert isinstance(group, click.Group) or hasattr(group, "commands")
    return "\n".join(_command(name, command) for name, command in group.commands.items())


def _command(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not getattr(one, "hidden", False)]
    wanted = [one.name.upper() if one.required else f"[{one.name.upper()}]" for one in arguments]
    rows = [(f"`{one.name.upper()}`", one.help, None) for one in arguments]
    for one in options:
        flags = ", ".join(f"`{flag}`" for flag in [*one.opts, *one.secondary_opts])
        rows.append((flags, one.help, one.default))
    lines = [f"## mooring {name}", "", "```text", " ".join(["mooring", name, *wanted, "[OPTIONS]"]), "```", ""]
    lines += [command.help or "", "", "```sh", command.epilog.removeprefix("Example: "), "```", ""]
    if rows:
        lines += ["| name | meaning | default |", "| --- | --- | --- |"]
    lines += [f"| {flags} | {_cell(about)} | {_default(default)} |" for flags, about, default in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


def _default(value: Any) -> str:
    return "" if value is None or value is False or value == "" or value is ... or callable(value) else f"`{value}`"
