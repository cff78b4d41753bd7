"""The ``mooring`` command: parse arguments, call the library, print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from mooring import __version__
from mooring.suite import cli_modules, cli_molecules, listing
from mooring.suite.terminal import (
    RUNS,
    DataDir,
    FittedTable,
    Trust,
    complain,
    console,
    explained,
    fail,
    import_from_here,
    require_file,
    require_folder,
    use_data,
    words,
    working,
)
from mooring.table import Table

app = typer.Typer(
    name="mooring",
    help="Global memory for graph neural networks: virtual nodes that can be addressed and that can count.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
RESULTS = Path("results")


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"mooring {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command("list")
def list_() -> None:
    """List the tasks with their presets, and every global module with its paper."""
    for table in listing.tables():
        console.print(FittedTable(table))


@app.command()
def run(
    task: Annotated[
        str,
        typer.Argument(
            help="A task of `mooring list`, or package.module:ClassName.", autocompletion=listing.complete_task
        ),
    ],
    preset: Annotated[
        str | None,
        typer.Option(help="Named configuration; by default the task's own.", autocompletion=listing.complete_preset),
    ] = None,
    models: Annotated[
        str,
        typer.Option(
            help="Comma-separated names, package.module:Name among them, or 'all' for the whole zoo.",
            autocompletion=listing.complete_models,
        ),
    ] = "",
    seeds: Annotated[str, typer.Option(help="As in 0, 0,3 or 0-4.")] = "0",
    change: Annotated[list[str] | None, typer.Option("--set", help="field=value, changes the preset.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the records.")] = RUNS,
    workers: Annotated[int | None, typer.Option(help="Runs at a time; by default the number of cores.")] = None,
    engine: Annotated[str, typer.Option(help="local, ray for a cluster, or submitit for SLURM.")] = "local",
    devices: Annotated[int, typer.Option(help="Processes that train one run together.")] = 1,
    accelerator: Annotated[str, typer.Option(help="Train on cpu, cuda, mps, or auto for what there is.")] = "cpu",
    logger: Annotated[
        str | None,
        typer.Option(help="Also log epochs and memories: tensorboard, csv or wandb, under the run's folder."),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Train; a killed run resumes where it stopped, and a finished one is not run again.

    package.module:Name is imported, from the current folder too: that runs the module's code.
    """
    use_data(data_dir)
    require_folder(out, "run: --out")
    try:
        from mooring import zoo
        from mooring.suite.chapters import tables_text
        from mooring.suite.train import RunRequest, get_experiment, parse_overrides, parse_seeds, resolve, run_many

        if logger is not None:
            from mooring.suite.memory_logger import check_logger

            check_logger(logger)
        import_from_here(task, models)
        experiment = get_experiment(task)
        preset = experiment.usual_preset() if preset is None else preset
        named = [name.strip() for name in models.split(",") if name.strip()]
        chosen = zoo.names() if models == "all" else named or experiment.models
        overrides = parse_overrides(change or [], f"{experiment.name} {preset!r}")
        requests = [
            RunRequest(task, model, seed, preset, overrides, out, devices, accelerator, logger)
            for seed in parse_seeds(seeds)
            for model in chosen
        ]
        if models == "all":
            require_zoo(requests, experiment.models)
        run_many(requests, workers, engine)  # type: ignore[arg-type]
    except KeyboardInterrupt:
        fail("run: interrupted. Checkpoints are kept: the same command resumes from the last of them.", 130)
    # A run that another process is training has no record yet.
    paths = [path for request in requests if (path := resolve(request).record_path).exists()]
    if paths:
        # Already fitted to the console.
        console.print(tables_text(paths, console.width), highlight=False, markup=False, soft_wrap=True)


def require_zoo(requests: list[Any], models: tuple[str, ...]) -> None:
    """Raise ValueError if a task, which has these models, does not take those of the zoo."""
    from mooring.suite.train import resolve

    # An error of the preset or of a setting comes first.
    resolve(replace(requests[0], model=models[0]))
    try:
        for request in requests:
            resolve(request)
    except ValueError as error:
        raise ValueError(
            f"run: --models all is every module of the zoo, and {request.task} does not take {request.model!r} "
            f"({error}). Leave --models out for its own, {', '.join(models)}."
        ) from error


@app.command()
def data(
    names: Annotated[
        list[str] | None, typer.Argument(help="Sets to download; without any, all sets are listed.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """List the real data sets and which of them are here, or download some with the loader of OGB or PyG."""
    from mooring.suite.real.data import GRAPH_SETS, NODE_SETS, data_folder, source
    from mooring.suite.real.data.files import path_of
    from mooring.suite.real.data.online import fetch

    folder = data_dir or data_folder()
    for name in [source(name).name for name in names or []]:
        console.print(f"{name}: {fetch(name, folder)}", highlight=False, markup=False)
    if not names:
        rows = tuple(
            (item.name, item.title, item.loader, item.licence, "yes" if path_of(item, folder).is_file() else "no")
            for item in (*GRAPH_SETS.values(), *NODE_SETS.values())
        )
        title = f"data sets, and whether they are in {folder}"
        console.print(FittedTable(Table("data", title, words("name", "what it is", "from", "licence", "here"), rows)))


@app.command()
def report(
    sources: Annotated[list[Path] | None, typer.Argument(help="Folders of records; runs/ or results/.")] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    inside: Annotated[
        bool, typer.Option(help="Show the trained memories of runs whose weights lie beside their records.")
    ] = True,
    trust: Trust = False,
    refresh: Annotated[bool, typer.Option(help="Also update the tables in README.md and docs/.")] = False,
    check: Annotated[
        bool,
        typer.Option(
            help="Only fail if those tables are stale or say what the records contradict, or if a record in results/ "
            "has no clean commit or hides that it differs from its preset."
        ),
    ] = False,
) -> None:
    """Read records, print the tables beside the paper's, and write one self-contained page."""
    documents = [Path("README.md"), *sorted(Path("docs").glob("*.md")), Path("benchmarks/README.md")]
    documents = [path for path in documents if path.exists()]
    if check or refresh:
        from mooring.suite.chapters import REPORT
        from mooring.suite.records import refusals
        from mooring.suite.report import StaleError
        from mooring.suite.report import refresh as renew
    if check:
        refused = refusals(RESULTS, preset_configs())
        for line in refused:
            complain(line)
        try:
            renew(REPORT, documents, [RESULTS], check=True)
        except StaleError as error:
            fail(str(error))
        if refused:
            fail(f"report: {len(refused)} of the records in {RESULTS}/ must not be published.")
        return
    require_file(out)
    sources = sources or [path for path in (RUNS, RESULTS) if path.exists()]
    import_from_here(trust=trust)
    with working(f"report: reading {', '.join(map(str, sources)) or 'records'} ...") as progress:
        from mooring.suite.chapters import REPORT

        insides, left_out = memories_of(sources, trust) if inside else ([], [])
        summary = REPORT.build(sources, out, insides, progress)
    for table in summary.tables:
        console.print(FittedTable(table))
    for note in (*summary.notes, *left_out):
        console.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)
    memories = f", {len(insides)} trained {'memory' if len(insides) == 1 else 'memories'}" if insides else ""
    console.print(f"{summary.num_records} records{memories}; page: {out}", highlight=False, soft_wrap=True)
    if refresh:
        for path in renew(REPORT, documents, [RESULTS]):
            console.print(f"renewed {path}", highlight=False)


def preset_configs() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the configuration of every task and preset as records store it."""
    from mooring.suite.train import list_experiments
    from mooring.suite.train.config import to_json

    # Zero steps stand for one pass over the data; the record has the number of steps.
    return {
        (task, preset): {
            name: value for name, value in to_json(config).items() if (name, value) != ("steps_per_epoch", 0)
        }
        for task, cls in list_experiments().items()
        for preset, config in cls.presets.items()
    }


def memories_of(sources: list[Path], trust: bool) -> tuple[list[Any], list[str]]:
    """Return pages of the trained memories, and notes; without weights no model is imported."""
    if not any(path.is_dir() and any(path.rglob("epoch-*.safetensors")) for path in sources):
        return [], []
    from mooring.suite.look import insides

    return insides(sources, trust=trust)


for command in (cli_modules.verify, cli_modules.audit, cli_modules.bench, cli_modules.doctor, cli_modules.draw):
    app.command()(command)
app.command()(cli_molecules.train)
app.command()(cli_molecules.predict)
app.command("look")(cli_modules.look_)


def main() -> None:
    """Run the command."""
    explained(app)


if __name__ == "__main__":
    main()
