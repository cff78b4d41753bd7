"""The ``mooring`` command: parse arguments, call the library, print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from mooring import __version__
from mooring.suite import cli_modules
from mooring.suite.terminal import (
    RUNS,
    DataDir,
    FittedTable,
    Trust,
    complain,
    complete_models,
    complete_preset,
    complete_task,
    console,
    explained,
    fail,
    import_from_here,
    listed,
    parse_names,
    require_file,
    require_folder,
    say,
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
PREDICTED = "predictions.csv"

Smiles = Annotated[str, typer.Option(help="Column of the SMILES.")]


def print_version(requested: bool) -> None:
    if requested:
        print(f"mooring {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command("list", epilog="Example: mooring list")
def list_() -> None:
    """List the tasks with their presets, and every global module with its paper."""
    tasks = tuple(
        (name, task["preset"], ", ".join(task["presets"]), ", ".join(task["models"]))
        for name, task in listed()["tasks"].items()
    )
    headings = words("task", "default preset", "presets", "models by default")
    console.print(FittedTable(Table("tasks", "tasks: mooring run TASK", headings, tasks)))
    modules = tuple((name, entry["title"], entry["paper"]) for name, entry in listed()["zoo"].items())
    headings = words("name", "what it is", "paper")
    console.print(FittedTable(Table("zoo", "global modules: --models NAME,...", headings, modules)))


@app.command(epilog="Example: mooring run two-radius --preset quick --models vn,anchored --seeds 0-2")
def run(
    task: Annotated[
        str,
        typer.Argument(help="A task of `mooring list`, or package.module:ClassName.", autocompletion=complete_task),
    ],
    preset: Annotated[
        str | None,
        typer.Option(help="Named configuration; by default the task's own.", autocompletion=complete_preset),
    ] = None,
    models: Annotated[
        str,
        typer.Option(
            help="Comma-separated names, package.module:Name among them, or 'all' for the whole zoo.",
            autocompletion=complete_models,
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
        say(tables_text(paths, console.width))


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


@app.command(epilog="Example: mooring data esol")
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
        say(f"{name}: {fetch(name, folder)}")
    if not names:
        rows = tuple(
            (item.name, item.title, item.loader, item.licence, "yes" if path_of(item, folder).is_file() else "no")
            for item in (*GRAPH_SETS.values(), *NODE_SETS.values())
        )
        title = f"data sets, and whether they are in {folder}"
        console.print(FittedTable(Table("data", title, words("name", "what it is", "from", "licence", "here"), rows)))


@app.command(epilog="Example: mooring report runs")
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
        from mooring.suite.train.experiment import preset_configs

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

        pages: list[Any] = []
        left_out: list[str] = []
        # Without weights no model is imported.
        if inside and any(path.is_dir() and any(path.rglob("epoch-*.safetensors")) for path in sources):
            from mooring.suite.look import insides

            pages, left_out = insides(sources, trust=trust)
        summary = REPORT.build(sources, out, pages, progress)
    for table in summary.tables:
        console.print(FittedTable(table))
    for note in (*summary.notes, *left_out):
        say(note, style="yellow")
    memories = f", {len(pages)} trained {'memory' if len(pages) == 1 else 'memories'}" if pages else ""
    say(f"{summary.num_records} records{memories}; page: {out}")
    if refresh:
        for path in renew(REPORT, documents, [RESULTS]):
            say(f"renewed {path}")


def train(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A CSV with a header line.")],
    target: Annotated[
        list[str], typer.Option(help="Columns of the labels, comma-separated or one per --target; 0 and 1 are classes.")
    ],
    smiles: Smiles = "smiles",
    predict: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Also predict for the molecules of this CSV.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the molecules.")] = 50,
    channels: Annotated[int, typer.Option(min=4, help="Width of the network, a multiple of 4.")] = 64,
    layers: Annotated[int, typer.Option(min=1, help="Layers of message passing.")] = 4,
    slots: Annotated[int, typer.Option(min=1, help="Slots of the memory after each layer.")] = 8,
    learning_rate: Annotated[float, typer.Option(min=1e-8, help="Largest step size.")] = 1e-3,
    seed: Annotated[int, typer.Option(min=0, help="Of the weights and of the molecules that are held out.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the model, its metrics and predictions.")] = Path("trained"),
) -> None:
    """Train on molecules of your own: a CSV of SMILES and labels in, a model and its metrics out.

    Lines that cannot be used are named. A tenth of the molecules selects the epoch and a tenth measures the result.
    """
    require_folder(out, "train: --out")
    with working("train: loading ...") as progress:
        from mooring.suite.molecules import Settings, read_molecules, write_predictions
        from mooring.suite.molecules import train as train_on

        settings = Settings(channels, layers, slots, epochs, learning_rate, seed)
        targets = [name for names in target for name in parse_names(names)]
        if not targets or len(set(targets)) < len(targets):
            raise ValueError(
                f"train: --target is {', '.join(target)!r} but names of different columns were expected, e.g. logS."
            )
        molecules = read_molecules(file, smiles, targets)
        tell(file, molecules)
        # Read before training, so that a mistake in it is not found at the end.
        others = None if predict is None else read_molecules(predict, smiles)
        trained = train_on(molecules, targets, settings, progress)
    trained.save(out)
    console.print(FittedTable(trained.to_table()))
    say(f"model: {out}")
    if predict is not None and others is not None:
        tell(predict, others)
        write_predictions(out / PREDICTED, others, targets, trained.predict(others.graphs))
        say(f"predictions: {out / PREDICTED}")


def predict(
    model: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder that `mooring train` wrote.")],
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A CSV with a header line.")],
    smiles: Smiles = "smiles",
    out: Annotated[Path, typer.Option(help="The CSV to write.")] = Path(PREDICTED),
) -> None:
    """Predict for molecules with a model of `mooring train`."""
    require_file(out)
    with working("predict: loading ..."):
        from mooring.suite.molecules import TrainedGNN, read_molecules, write_predictions

        trained = TrainedGNN.load(model)
        molecules = read_molecules(file, smiles)
        tell(file, molecules)
        write_predictions(out, molecules, trained.targets, trained.predict(molecules.graphs))
    say(f"predictions: {out}")


def tell(path: Path, molecules: Any) -> None:
    """Print how many molecules were read, and which lines were not used as they are."""
    say(f"{path}: {len(molecules.graphs):,} molecules")
    for problem in molecules.listed():
        complain(f"{path}, {problem}")


for name, command, example in (
    ("verify", cli_modules.verify, "prop:mass"),
    ("audit", cli_modules.audit, "torch_geometric.nn:SumAggregation"),
    ("bench", cli_modules.bench, "--sweep nodes"),
    ("doctor", cli_modules.doctor, "--json doctor.json"),
    ("draw", cli_modules.draw, "runs/molecules/quick/anchored-seed0.json"),
    ("train", train, "solubility.csv --smiles smiles --target logS"),
    ("predict", predict, "trained new.csv"),
    ("look", cli_modules.look_, "runs/two-radius/quick/anchored-seed0.json --graphs 0,2"),
):
    app.command(name, epilog=f"Example: mooring {name} {example}")(command)


def main() -> None:
    """Run the command."""
    explained(app)


if __name__ == "__main__":
    main()
