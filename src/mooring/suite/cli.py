"""The ``mooring`` command: parse, call the library, print. Everything of substance lives elsewhere."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from mooring import __version__
from mooring.suite.records import write as write_record
from mooring.suite.terminal import FittedTable
from mooring.table import Column, Table

app = typer.Typer(
    name="mooring",
    help="Global memory for graph neural networks: virtual nodes that can be addressed and that can count.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
# A pipe or a log has no width of its own, and long lines are easier to read there than tables in pieces.
console = Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=140)

RUNS = Path("runs")
RESULTS = Path("results")
LARGEST_SEED = 2**32 - 1
# Spelled out because the help must not wait for torch to be imported.
PEERS = (
    "slots, slots-film, slots-compiled, slots-bf16, write-read, ogb-style-vn, isab, projected-sdpa, flex-attention, "
    "settransformer, gpsconv-multihead, gpsconv-performer"
)

Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Everything random is a function of it.")]


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"mooring {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command("list")
def list_() -> None:
    """Tasks with their presets, and every global module with its paper."""
    from mooring import zoo
    from mooring.suite.train import list_experiments

    tasks = tuple(
        (name, cls.usual_preset(), ", ".join(cls.presets), ", ".join(cls.models))
        for name, cls in list_experiments().items()
    )
    modules = tuple((name, zoo.entry(name).title, zoo.entry(name).paper) for name in zoo.names())
    for table in (
        Table(
            "tasks", "tasks: mooring run TASK", words("task", "default preset", "presets", "models by default"), tasks
        ),
        Table("zoo", "global modules: --models NAME,...", words("name", "what it is", "paper"), modules),
    ):
        console.print(FittedTable(table))


@app.command()
def run(
    task: Annotated[str, typer.Argument(help="A task of `mooring list`, or package.module:ClassName.")],
    preset: Annotated[str | None, typer.Option(help="Named configuration; the task's own default.")] = None,
    models: Annotated[
        str, typer.Option(help="Comma-separated names, package.module:Name among them, or 'all' for the whole zoo.")
    ] = "",
    seeds: Annotated[str, typer.Option(help="As in 0, 0,3 or 0-4.")] = "0",
    change: Annotated[list[str] | None, typer.Option("--set", help="field=value, changes the preset.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the records.")] = RUNS,
    workers: Annotated[int | None, typer.Option(help="Runs at a time; the number of cores by default.")] = None,
    engine: Annotated[str, typer.Option(help="local, or ray for a cluster.")] = "local",
    devices: Annotated[int, typer.Option(help="Processes that train one run together.")] = 1,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of real data; MOORING_DATA or data.")] = None,
) -> None:
    """Train; a killed run goes on where it stopped, a finished one is not run again.

    package.module:Name is imported, from the folder this is called in too: that runs the code of the module.
    """
    use_data(data_dir)
    try:
        from mooring import zoo
        from mooring.suite.report import tables_text
        from mooring.suite.train import (
            RunRequest,
            RunsFailed,
            get_experiment,
            parse_overrides,
            parse_seeds,
            resolve,
            run_many,
        )

        import_from_here(task, models)
        experiment = get_experiment(task)
        preset = experiment.usual_preset() if preset is None else preset
        named = [name.strip() for name in models.split(",") if name.strip()]
        chosen = zoo.names() if models == "all" else named or experiment.models
        overrides = parse_overrides(change or [], f"{experiment.name} {preset!r}")
        requests = [
            RunRequest(task, model, seed, preset, overrides, out, devices)
            for seed in parse_seeds(seeds)
            for model in chosen
        ]
        run_many(requests, workers, engine)  # type: ignore[arg-type]
    except KeyboardInterrupt:
        fail("run: interrupted. Checkpoints are kept: the same command goes on from the last of them.", 130)
    except RunsFailed as failed:
        fail(str(failed))
    # Fitted to the console already.
    text = tables_text([resolve(request).record_path for request in requests], console.width)
    console.print(text, highlight=False, markup=False, soft_wrap=True)


@app.command()
def data(
    names: Annotated[list[str] | None, typer.Argument(help="Sets to download; lists all of them if none.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the files; MOORING_DATA or data.")] = None,
) -> None:
    """Real data sets: which there are, which are here; downloads those that are named by OGB's or PyG's loader."""
    from mooring.suite.real.data import GRAPH_SETS, NODE_SETS, data_folder, source
    from mooring.suite.real.data.files import path_of
    from mooring.suite.real.data.online import fetch

    folder = data_dir or data_folder()
    for name in [source(name).name for name in names or []]:
        console.print(f"{name}: {fetch(name, folder)}", highlight=False, markup=False)
    if not names:
        rows = tuple(
            (one.name, one.title, one.loader, one.licence, "yes" if path_of(one, folder).is_file() else "no")
            for one in (*GRAPH_SETS.values(), *NODE_SETS.values())
        )
        title = f"data sets, and whether they are in {folder}"
        console.print(FittedTable(Table("data", title, words("name", "what it is", "from", "licence", "here"), rows)))


@app.command()
def verify(
    labels: Annotated[list[str] | None, typer.Argument(help="Labels of the paper; all by default.")] = None,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Where the record goes.")] = RUNS / "verify.json",
    plot: Annotated[Path | None, typer.Option(help="Folder for the figures.")] = None,
) -> None:
    """Run every claim of the paper as a check, each beside a control that must fail."""
    from mooring import theory
    from mooring.suite.report import write_figures

    require_file(out)
    theory.select(labels)

    def say(result: theory.ClaimResult) -> None:
        mark = "[green]holds[/]" if result.ok else "[red]FAILS[/]"
        console.print(f"{mark}  [bold]{result.label}[/]  {result.statement}", highlight=False)
        margin = f"margin {result.margin:.3g} ({result.margin_means}) over {result.instances} instances"
        outcome = "rejected" if result.control_failed else "NOT rejected"
        for line in (margin, f"control: {result.control}: {outcome}"):
            console.print(f"       {line}", highlight=False, style="dim")

    outcome = theory.verify(labels, seed, progress=say)
    write_record(out, outcome.to_record())
    console.print(f"{len(outcome.results)} claims in {outcome.seconds:.0f} s; record: {out}", highlight=False)
    if plot is not None:
        for path in write_figures([out], plot):
            console.print(f"figure: {path}", highlight=False)
    if not outcome.passed:
        fail("verify: a claim failed or a control did not.")


@app.command()
def audit(
    target: Annotated[str, typer.Argument(help="package.module:Name, zoo.NAME, or all of 'catalogue' or 'zoo'.")],
    channels: Annotated[int, typer.Option(min=1, help="Width of the node features.")] = 16,
    arg: Annotated[list[str] | None, typer.Option(help="name=value for the constructor.")] = None,
    kind: Annotated[str | None, typer.Option(help="aggregation, virtual_node, layer or dense.")] = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option("--json", help="Write the record, or the folder of them.")] = None,
) -> None:
    """Measure a module: does it count, can it be addressed, is it invariant. Exits with 1 on a broken invariant.

    package.module:Name is imported, from the folder this is called in too: that runs the code of the module.
    """
    from mooring import audit as auditing
    from mooring.audit import catalogue

    import_from_here(target, *(arg or []))
    if target in ("catalogue", "zoo"):
        if out is not None and out.is_file():
            fail(f"audit: --json {out} is a file, expected a folder for the records of all modules.", 2)
        broken = []
        for card in catalogue.cards(seed, chosen=catalogue.zoo_entries() if target == "zoo" else None):
            console.print(FittedTable(card.to_table()))
            if out is not None:
                write_record(out / f"{slug(card.module)}.json", card.to_record())
            broken += [f"{card.module} breaks {names(card)}"] if card.broken else []
        if broken:
            fail(f"audit: {'; '.join(broken)}.")
        return
    if out is not None:
        require_file(out)
    if target.startswith(catalogue.ZOO):
        chosen = catalogue.zoo_entries([target.removeprefix(catalogue.ZOO)])
        if not chosen:
            fail(f"audit: {target} is the absence of a module, so there is nothing to audit.", 2)
        (card,) = catalogue.cards(seed, chosen=chosen)
    else:
        module = auditing.resolve(target, channels, auditing.parse_arguments(arg or []))
        card = auditing.audit(module, kind, channels=channels, seed=seed, name=target)
    console.print(FittedTable(card.to_table()))
    if out is not None:
        write_record(out, card.to_record())
    if card.broken:
        fail(f"audit: {target} breaks {names(card)}.")


@app.command()
def bench(
    shapes: Annotated[
        str, typer.Option(help="Comma-separated shapes, 8x2000 is 8 graphs of 2,000; all by default.")
    ] = "",
    sweep: Annotated[
        str, typer.Option(help="peers; nodes, slots: vary the size; batches: of molecules; zoo: every module.")
    ] = "peers",
    peers: Annotated[
        str, typer.Option(help=f"Comma-separated contestants beside the slots: {PEERS}, zoo.NAME; all that suit.")
    ] = "",
    threads: Annotated[int, typer.Option(help="Threads of each measurement.")] = 2,
    repeats: Annotated[int, typer.Option(help="Rounds of two timings; the minimum is reported.")] = 7,
    memory: Annotated[bool, typer.Option(help="Measure peak memory too.")] = True,
    device: Annotated[str, typer.Option(help="cpu, or cuda where there is one.")] = "cpu",
    out: Annotated[Path | None, typer.Option("--json", help="Write the record.")] = None,
) -> None:
    """Time slots against peers and against the bare matrix products, after a comparison with the oracle."""
    from mooring.suite import bench as benching

    if out is not None:
        require_file(out)
    try:
        benching.bench(
            parse_names(shapes),
            threads,
            repeats,
            console,
            sweep=sweep,  # type: ignore[arg-type]
            peers=parse_names(peers),
            setting=benching.Setting(device=device),
            memory=memory,
            save=None if out is None else partial(write_record, out),
        )
    except benching.WrongResult as error:
        fail(str(error))


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
    from mooring.suite.report import build_report

    documents = [Path("README.md"), *sorted(Path("docs").glob("*.md")), Path("benchmarks/README.md")]
    documents = [path for path in documents if path.exists()]
    if check or refresh:
        from mooring.suite.report import StaleError, refusals
        from mooring.suite.report import refresh as renew
    if check:
        refused = refusals(RESULTS)
        for line in refused:
            complain(line)
        try:
            renew(documents, [RESULTS], check=True)
        except StaleError as error:
            fail(str(error))
        if refused:
            fail(f"report: {len(refused)} of the records in {RESULTS}/ must not be published.")
        return
    require_file(out)
    found = sources or [path for path in (RUNS, RESULTS) if path.exists()]
    summary = build_report(found, out)
    for table in summary.tables:
        console.print(FittedTable(table))
    for note in summary.notes:
        console.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)
    console.print(f"{summary.num_records} records; page: {out}", highlight=False)
    if refresh:
        for path in renew(documents, [RESULTS]):
            console.print(f"renewed {path}", highlight=False)


@app.command("look")
def look_(
    target: Annotated[
        str, typer.Argument(help="A record or folder of a run, a checkpoint, package.module:Name or zoo.NAME.")
    ],
    data: Annotated[
        str | None, typer.Option(help="A file of PyG data, or package.module:Name; a run has its own by default.")
    ] = None,
    graphs: Annotated[str, typer.Option(help="Numbers of the graphs to show, as in 0,3; the first four.")] = "",
    max_nodes: Annotated[int, typer.Option(min=1, help="Larger graphs are shown in part.")] = 2000,
    channels: Annotated[int, typer.Option(min=1, help="Width of the node features of a module by name.")] = 16,
    arg: Annotated[list[str] | None, typer.Option(help="name=value for the constructor.")] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Show what the audit says of the memory, too.")] = False,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("look.html"),
) -> None:
    """Write one page that shows what a memory does on a graph: where nodes write, what they read, what slots hold.

    package.module:Name is imported, from the folder this is called in too: that runs the code of the module.
    """
    from mooring.audit import parse_arguments
    from mooring.suite.look import page_of

    require_file(out)
    import_from_here(target, data or "", *(arg or []))
    try:
        chosen = [int(number) for number in graphs.split(",")] if graphs else None
    except ValueError:
        fail(f"look: --graphs is {graphs!r}; expected numbers as in 0,3.", 2)
    page = page_of(
        target,
        data,
        channels=channels,
        arguments=parse_arguments(arg or []),
        graphs=chosen,
        max_nodes=max_nodes,
        audited=audit,
    )
    console.print(f"page: {page.save(out)}", highlight=False, markup=False, soft_wrap=True)


@app.command()
def draw(
    target: Annotated[Path, typer.Argument(help="A record of a run of molecules or peptides.")],
    graphs: Annotated[str, typer.Option(help="Test molecules, as in 0,3,8; a small, a usual and a large one.")] = "",
    layer: Annotated[int | None, typer.Option(help="Of the memory behind this layer; the last by default.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of real data; MOORING_DATA or data.")] = None,
    out: Annotated[Path, typer.Option(help="The picture to write, svg or png.")] = Path("molecules.svg"),
) -> None:
    """Draw molecules whose atoms have the colours of the slots they write to, and what each slot counts."""
    from mooring.suite.real import pictures

    require_file(out)
    use_data(data_dir)
    try:
        chosen = [int(number) for number in graphs.split(",")] if graphs else None
    except ValueError:
        fail(f"draw: --graphs is {graphs!r}; expected numbers as in 0,3,8.", 2)
    pictures.save(pictures.draw(target, chosen, layer), out)
    console.print(f"picture: {out}", highlight=False, markup=False)


def use_data(folder: Path | None) -> None:
    """Let this process and its workers find data there: by the environment, as a record has no use for a path."""
    if folder is not None:
        os.environ["MOORING_DATA"] = str(folder.absolute())


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


def words(*headings: str) -> tuple[Column, ...]:
    return tuple(Column(heading, left=True) for heading in headings)


def names(card: Any) -> str:
    """The invariants that a card's module breaks."""
    return ", ".join(finding.name for finding in card.broken)


def import_from_here(*targets: str) -> None:
    """Let ``package.module:Name`` be found in the folder the command is called in, and only when there is such a name.

    Workers are given this process's import path, so that they find it too.
    """
    if any(":" in target for target in targets):
        sys.path.insert(0, str(Path.cwd()))


def require_file(path: Path) -> None:
    """Say that a file cannot be written before the work whose result it is to hold."""
    if path.is_dir():
        fail(f"{path} is a folder, expected the name of a file to write.", 2)
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        fail(f"{path} cannot be written: {above} is a file.", 2)
    if not os.access(path if path.exists() else above, os.W_OK):
        fail(f"{path} cannot be written: no permission.", 2)


def fail(message: str, code: int = 1) -> NoReturn:
    complain(message)
    raise typer.Exit(code)


def complain(message: str) -> None:
    Console(stderr=True).print(message, style="red", highlight=False, markup=False, soft_wrap=True)


def main() -> None:
    """Run the command. A message meant for the user is printed without a traceback.

    The exit code is 2 for what was asked wrongly, 1 for work that failed, 130 after Ctrl-C.
    """
    try:
        app()
    except (ValueError, ImportError) as error:
        complain(str(error))
        sys.exit(2)
    except (OSError, RuntimeError, MemoryError) as error:
        complain(str(error) or type(error).__name__)
        sys.exit(1)


if __name__ == "__main__":
    main()
