"""The ``mooring`` command: parse, call the library, print. Everything of substance lives elsewhere."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mooring.files import write_atomic

app = typer.Typer(
    name="mooring",
    help="Global memory for graph neural networks: virtual nodes that can be addressed and that can count.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# A pipe or a log has no width of its own, and tables cut to 80 columns cannot be read.
console = Console() if sys.stdout.isatty() else Console(width=140)

RUNS = Path("runs")
RESULTS = Path("results")


@app.command("list")
def list_() -> None:
    """Tasks with their presets, and every global module with its paper."""
    from mooring import zoo
    from mooring.train import list_experiments

    tasks = Table(title="tasks: mooring run TASK", title_justify="left")
    for column in ("task", "presets", "models by default"):
        tasks.add_column(column, overflow="fold")
    for name, experiment in list_experiments().items():
        tasks.add_row(name, ", ".join(experiment.presets), ", ".join(experiment.models))
    modules = Table(title="global modules: --models NAME,...", title_justify="left")
    for column in ("name", "what it is", "paper"):
        modules.add_column(column, overflow="fold")
    for name in zoo.names():
        entry = zoo.entry(name)
        modules.add_row(name, entry.title, entry.paper)
    console.print(tasks, modules)


@app.command()
def run(
    task: Annotated[str, typer.Argument(help="A task of `mooring list`, or module.path:ClassName.")],
    preset: Annotated[str, typer.Option(help="Named configuration.")] = "quick",
    models: Annotated[str, typer.Option(help="Comma-separated names, or 'all' for the whole zoo.")] = "",
    seeds: Annotated[str, typer.Option(help="As in 0, 0,3 or 0-4.")] = "0",
    change: Annotated[list[str] | None, typer.Option("--set", help="field=value, changes the preset.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the records.")] = RUNS,
    workers: Annotated[int | None, typer.Option(help="Runs at a time; the number of cores by default.")] = None,
    engine: Annotated[str, typer.Option(help="local, or ray for a cluster.")] = "local",
    devices: Annotated[int, typer.Option(help="Processes that train one run together.")] = 1,
) -> None:
    """Train; a killed run goes on where it stopped, a finished one is not run again."""
    from mooring import zoo
    from mooring.report import tables_text
    from mooring.train import RunRequest, RunsFailed, get_experiment, parse_overrides, parse_seeds, run_many

    experiment = get_experiment(task)
    chosen = zoo.names() if models == "all" else [name for name in models.split(",") if name] or experiment.models
    overrides = parse_overrides(change or [], f"{task} {preset!r}")
    requests = [
        RunRequest(task, model, seed, preset, overrides, out, devices)
        for seed in parse_seeds(seeds)
        for model in chosen
    ]
    try:
        run_many(requests, workers, engine)  # type: ignore[arg-type]
    except RunsFailed as failed:
        fail(str(failed))
    console.print(tables_text([request.record_path for request in requests]), highlight=False)


@app.command()
def verify(
    labels: Annotated[list[str] | None, typer.Argument(help="Labels of the paper; all by default.")] = None,
    seed: Annotated[int, typer.Option(help="Everything random is a function of it.")] = 0,
    out: Annotated[Path, typer.Option(help="Where the record goes.")] = RUNS / "verify.json",
    plot: Annotated[Path | None, typer.Option(help="Folder for the figures.")] = None,
) -> None:
    """Run every claim of the paper as a check, each beside a control that must fail."""
    from mooring import theory
    from mooring.report import write_figures

    def say(result: theory.ClaimResult) -> None:
        mark = "[green]holds[/]" if result.ok else "[red]FAILS[/]"
        console.print(f"{mark}  [bold]{result.label}[/]  {result.statement}", highlight=False)
        margin = f"margin {result.margin:.3g} ({result.margin_means}) over {result.instances} instances"
        outcome = "rejected" if result.control_failed else "NOT rejected"
        for line in (margin, f"control: {result.control}: {outcome}"):
            console.print(f"       {line}", highlight=False, style="dim")

    outcome = theory.verify(labels, seed, progress=say)
    write_json(out, outcome.to_record())
    console.print(f"{len(outcome.results)} claims in {outcome.seconds:.0f} s; record: {out}", highlight=False)
    if plot is not None:
        for path in write_figures([out], plot):
            console.print(f"figure: {path}", highlight=False)
    if not outcome.passed:
        fail("verify: a claim failed or a control did not.")


@app.command()
def audit(
    target: Annotated[str, typer.Argument(help="package.module:Name, zoo.NAME, or all of 'catalogue' or 'zoo'.")],
    channels: Annotated[int, typer.Option(help="Width of the node features.")] = 16,
    arg: Annotated[list[str] | None, typer.Option(help="name=value for the constructor.")] = None,
    kind: Annotated[str | None, typer.Option(help="aggregation, virtual_node, layer or dense.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random inputs.")] = 0,
    out: Annotated[Path | None, typer.Option("--json", help="Write the record, or the folder of them.")] = None,
) -> None:
    """Measure a module: does it count, can it be addressed, is it invariant. Exits with 1 on a broken invariant."""
    from mooring import audit as auditing
    from mooring.audit import catalogue

    sys.path.insert(0, str(Path.cwd()))
    if target in ("catalogue", "zoo"):
        for card in catalogue.cards(seed, chosen=catalogue.zoo_entries() if target == "zoo" else None):
            console.print(card.render())
            if out is not None:
                write_json(out / f"{slug(card.module)}.json", card.to_record())
        return
    if target.startswith(catalogue.ZOO):
        (card,) = catalogue.cards(seed, chosen=catalogue.zoo_entries([target.removeprefix(catalogue.ZOO)]))
    else:
        module = auditing.resolve(target, channels, auditing.parse_arguments(arg or []))
        card = auditing.audit(module, kind, channels=channels, seed=seed, name=target)
    console.print(card.render())
    if out is not None:
        write_json(out, card.to_record())
    if card.broken:
        fail(f"audit: {target} breaks {', '.join(finding.name for finding in card.broken)}.")


@app.command()
def bench(
    shapes: Annotated[
        str, typer.Option(help="Comma-separated shapes, 8x2000 is 8 graphs of 2,000; all by default.")
    ] = "",
    sweep: Annotated[str, typer.Option(help="none: peers; nodes, slots: vary the size; zoo: every module.")] = "none",
    peers: Annotated[str, typer.Option(help="Comma-separated contestants beside the slots; all that suit.")] = "",
    threads: Annotated[int, typer.Option(help="Threads of each measurement.")] = 2,
    repeats: Annotated[int, typer.Option(help="Rounds of two timings; the smallest counts.")] = 7,
    memory: Annotated[bool, typer.Option(help="Measure peak memory too.")] = True,
    out: Annotated[Path | None, typer.Option("--json", help="Write the record.")] = None,
) -> None:
    """Time slots against peers and against the bare matrix products, after the oracle has been met."""
    from mooring import bench as benching

    benching.bench(
        parse_names(shapes),
        threads,
        repeats,
        console,
        sweep=sweep,  # type: ignore[arg-type]
        peers=parse_names(peers),
        memory=memory,
        save=None if out is None else partial(write_json, out),
    )


@app.command()
def report(
    sources: Annotated[list[Path] | None, typer.Argument(help="Folders of records; runs/ or results/.")] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    refresh: Annotated[bool, typer.Option(help="Also renew the tables in README.md and docs/.")] = False,
    check: Annotated[
        bool, typer.Option(help="Only fail if those tables are stale or a record in results/ has no clean commit.")
    ] = False,
) -> None:
    """Records in; the tables beside the paper's and one self-contained page out."""
    from mooring.report import build_report, refusals
    from mooring.report import refresh as renew

    documents = [Path("README.md"), *sorted(Path("docs").glob("*.md")), Path("benchmarks/README.md")]
    documents = [path for path in documents if path.exists()]
    if check:
        refused = refusals(RESULTS)
        for line in refused:
            console.print(line, style="red", highlight=False, markup=False, soft_wrap=True)
        renew(documents, [RESULTS], check=True)
        if refused:
            fail(f"report: {len(refused)} of the records in {RESULTS}/ must not be published.", code=2)
        return
    found = sources or [path for path in (RUNS, RESULTS) if path.exists()]
    summary = build_report(found, out)
    for table in summary.tables:
        console.print(table.to_rich())
    for note in summary.notes:
        console.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)
    console.print(f"{summary.num_records} records; page: {out}", highlight=False)
    if refresh:
        for path in renew(documents, [RESULTS]):
            console.print(f"renewed {path}", highlight=False)


def parse_names(text: str) -> list[str]:
    """Names between semicolons, or between commas where there are none: the name of a contestant may have a comma.

    >>> parse_names("slots, bf16;ISAB"), parse_names("large,skewed")
    (['slots, bf16', 'ISAB'], ['large', 'skewed'])
    """
    parts = text.split(";" if ";" in text else ",")
    return [part.strip() for part in parts if part.strip()]


def slug(name: str) -> str:
    """A file name for a module's name."""
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower()).strip("-")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a record with where it comes from, so that it may be published."""
    from mooring.train.provenance import git_commit, versions

    origin = {"versions": versions() | content.get("versions", {}), "git_commit": git_commit()}
    write_atomic(path, json.dumps(content | origin, indent=1) + "\n")


def fail(message: str, code: int = 1) -> None:
    Console(stderr=True).print(message, style="red", highlight=False, markup=False)
    raise typer.Exit(code)


def main() -> None:
    """Run the command; a message meant for the user is printed without a traceback."""
    try:
        app()
    except (ValueError, ImportError, OSError) as error:
        Console(stderr=True).print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
