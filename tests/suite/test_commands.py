"""Every command that the page, the documents and the messages of the report name is one that works."""

from __future__ import annotations

import argparse
import re
import runpy
import shlex
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from typer.testing import CliRunner

from mooring import audit
from mooring.audit import catalogue
from mooring.suite import cli
from mooring.suite.bench.run import Sweep
from mooring.suite.bench.shapes import get_shape
from mooring.suite.chapters import CHAPTERS, build_report
from mooring.suite.records import COMMANDS
from mooring.suite.report.exhibits import Chapter
from mooring.suite.terminal import parse_names
from mooring.suite.train import RunRequest, get_experiment, parse_overrides, parse_seeds
from mooring.suite.train import resolve as resolve_run
from mooring.theory import labels

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "experiments/README.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
SOURCES = sorted((ROOT / "src" / "mooring" / "suite" / "report").rglob("*.py"))
# What stands for something the reader puts in, and one thing it may stand for.
STAND_INS = {
    "TASK": "two-radius",
    "NAME": "table1",
    "NUMBER": "0",
    "my_vn:counted_mean": "mooring.nn:VirtualNode",
    "my_task:Ring": "two-radius",
    "solubility.csv": str(ROOT / "pyproject.toml"),
    "new.csv": str(ROOT / "pyproject.toml"),
    "predict trained": f"predict {ROOT / 'docs'}",
    "look trained": "look runs/two-radius/quick/anchored-seed0.json",
}
# The reader writes this file; tests/zoo/test_docs.py runs it.
OWN = "python my_vn.py"
# Not Python, as in `from mooring import nn`, nor a name of the library in a table.
MOORING = r"mooring (?!import)[a-z][^`\n]*"


def commands_of(text: str) -> list[str]:
    """Commands in code spans and on lines of their own in code blocks, comments taken off."""
    command = rf"(?:{MOORING}|(?:python|make) [^`\n]+)"
    spans = re.findall(f"`({command})`", text)
    lines = re.findall(f"^ *(?:\\$ )?({command})$", "\n".join(blocks_of(text)), flags=re.M)
    # Neither comments nor where the output goes are for the command itself.
    return [re.sub(r"\s+[#>].*", "", command).strip() for command in [*spans, *lines]]


def blocks_of(text: str) -> list[str]:
    indented = re.findall(r"(?:^ {4}.*\n)+", text, flags=re.M)
    return [*re.findall(r"^```.*?\n(.*?)^```", text, flags=re.M | re.S), *indented]


def collected() -> dict[str, str]:
    """Every command and where it stands."""
    found = {chapter.command: f"the page, {chapter.name}" for chapter in CHAPTERS}
    found |= {
        command.format(task="two-radius", preset="paper"): f"messages, {kind}" for kind, command in COMMANDS.items()
    }
    for path in SOURCES:
        # A span with braces is filled in by the code, from COMMANDS.
        literal = (command for command in re.findall(r"`(mooring [^`{]+)`", path.read_text(encoding="utf-8")))
        found |= dict.fromkeys(literal, path.name)
    for path in PAGES:
        found |= {command: str(path.relative_to(ROOT)) for command in commands_of(path.read_text(encoding="utf-8"))}
    examples = {one.name: one.epilog for one in cli.app.registered_commands}
    assert all(example.startswith(f"Example: mooring {name}") for name, example in examples.items() if name), examples
    found |= {str(example).removeprefix("Example: "): f"the help of {name}" for name, example in examples.items()}
    del found[OWN]
    return found


COLLECTED = collected()


def resolve(command: str) -> None:
    """Refuse a command that would not start: parsed as the shell and typer parse it, and its names looked up."""
    for word, meaning in STAND_INS.items():
        command = re.sub(rf"\b{word}\b", meaning, command)
    program, *words = shlex.split(command)
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
        assert set(words) <= set(targets), f"no such target: {words}"
    elif program == "python":
        script, *options = words
        if script == "-m":
            assert find_spec(f"{options[0]}.__main__"), f"no such module: {options[0]}"
        else:
            recipe(script)(options)
    else:
        resolve_mooring(*words)


class Started(BaseException):
    """Raised where a script has its parser and would read its options."""


@cache
def recipe(script: str) -> Callable[[list[str]], Any]:
    """What parses the options of a script, which is loaded up to the point where it would start."""
    path = ROOT / script
    assert path.is_file(), f"no such file: {script}"
    found: list[Callable[[list[str]], Any]] = []

    def start_typer(function: Callable[..., None]) -> None:
        app = typer.Typer()
        app.command()(function)
        found.append(lambda options: typer.main.get_command(app).make_context(script, options))
        raise Started

    def start_argparse(parser: argparse.ArgumentParser) -> None:
        found.append(lambda options: argparse.ArgumentParser.parse_args(parser, options))
        raise Started

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(path.parent)
        patch.setattr(typer, "run", start_typer)
        patch.setattr(argparse.ArgumentParser, "parse_args", start_argparse)
        with pytest.raises(Started):
            runpy.run_path(str(path), run_name="__main__")
    return found[0]


def resolve_mooring(name: str, *words: str) -> None:
    group: Any = typer.main.get_command(cli.app)
    assert name in group.commands, f"no such command: mooring {name}"
    with group.commands[name].make_context(name, list(words)) as context:
        given = context.params
    if name == "run":
        models = [model for model in given["models"].split(",") if model and model != "all"]
        changes = parse_overrides(given["change"] or [], name)
        for model in models or get_experiment(given["task"]).models[:1]:
            for seed in parse_seeds(given["seeds"])[:1]:
                preset = given["preset"] or get_experiment(given["task"]).usual_preset()
                resolve_run(RunRequest(given["task"], model, seed, preset, changes))
    if name == "verify":
        assert set(given["labels"] or ()) <= set(labels())
    if name == "audit" and given["target"] not in ("catalogue", "zoo"):
        audit.resolve(given["target"], given["channels"], audit.parse_arguments(given["arg"] or []))
    if name == "look":
        assert given["target"].endswith("-seed0.json") or ":" in given["target"]
    if name == "bench":
        assert given["sweep"] in get_args(Sweep)
        for shape in parse_names(given["shapes"]):
            get_shape(shape)


def test_there_are_many_commands() -> None:
    programs = [command.split()[0] for command in COLLECTED]
    assert programs.count("mooring") > 20
    assert programs.count("python") > 5
    assert programs.count("make") >= 3
    assert {shlex.split(command)[1] for command in COLLECTED if command.startswith("mooring ")} >= {
        "list", "run", "verify", "audit", "bench", "report",
    }  # fmt: skip


@pytest.mark.parametrize("command", COLLECTED)
def test_the_command_would_start(command: str) -> None:
    resolve(command)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("real_graphs.py molecules --preset ful", "molecules: unknown preset 'ful'; did you mean 'full'?"),
        ("table1.py --seeds 5-2", "5-2 counts down and is empty."),
        ("tuned.py --seeds 5-2", "5-2 counts down and is empty."),
        ("linksets.py --seeds 5-2", "5-2 counts down and is empty."),
        ("wide_vn.py --seeds 5-2", "5-2 counts down and is empty."),
        ("tuned.py --models moored,gtm", "unknown module 'gtm'; did you mean 'gmt'?"),
    ],
)
def test_a_recipe_explains_a_mistake(
    command: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, *options = shlex.split(command)
    monkeypatch.syspath_prepend(ROOT / "experiments")
    monkeypatch.setattr(sys, "argv", [script, *options])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "experiments" / script), run_name="__main__")
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert says in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("mooring audit", "target"),
        ("mooring adit zoo", "no such command"),
        ("mooring run two-radios", "unknown task"),
        ("mooring run two-radius --preset huge", "unknown preset"),
        ("mooring run two-radius --models nothing", "nothing"),
        ("mooring bench --shape large", "No such option"),
        ("mooring bench --shapes vast", "vast"),
        ("python experiments/table2.py", "no such file"),
        ("python experiments/table1.py --seed 0", "No such option"),
        ("make tests", "no such target"),
    ],
)
def test_one_that_would_not_start_is_found(command: str, why: str) -> None:
    with pytest.raises(Exception, match=why):
        resolve(command)


def test_commands_are_found_in_a_page() -> None:
    text = "Run `mooring list` or\n\n```bash\nmooring run TASK   # train\n```\n\n    make demo  # all\n\nmake it so\n"
    assert commands_of(text) == ["mooring list", "mooring run TASK", "make demo"]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_the_command_of_a_chapter_writes_records(chapter: Chapter) -> None:
    # verify has a place of its own for the record, run and the recipes a folder; the others print unless told where.
    program, name, *words = shlex.split(chapter.command)
    assert program == "python" or name in ("run", "verify") or "--json" in words


@pytest.mark.parametrize(
    "command", ["mooring list", "mooring audit torch_geometric.nn:SumAggregation", "mooring report --check"]
)
def test_cheap_ones_really_run(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command in COLLECTED or command.endswith("--check")
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(cli.app, shlex.split(command)[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def test_the_command_of_the_audit_chapter_makes_the_chapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (chapter,) = (chapter for chapter in CHAPTERS if chapter.name == "audit")
    few = catalogue.zoo_entries(["vn"])
    usual = catalogue.cards
    monkeypatch.setattr(catalogue, "cards", lambda seed, chosen=None, **_: usual(seed, chosen=few))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli.app, shlex.split(chapter.command)[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert build_report([tmp_path / "runs"], tmp_path / "report.html").sections == ("audit",)
