"""The commands that check, measure and show modules: verify, audit, bench, doctor, look and draw."""

from __future__ import annotations

import re
import shlex
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from mooring.suite.records import write as write_record
from mooring.suite.terminal import (
    RUNS,
    Arguments,
    DataDir,
    FittedTable,
    Trust,
    complete_record,
    console,
    fail,
    import_from_here,
    parse_names,
    parse_numbers,
    require_file,
    require_folder,
    say,
    use_data,
)

VERIFIED = RUNS / "verify.json"
# Listed here because the help must not wait for torch to be imported.
PEERS = (
    "slots, slots-film, slots-pytorch-alone, slots-compiled, slots-bf16, write-read, ogb-style-vn, plain-padded, "
    "gineconv, isab, projected-sdpa, flex-attention, settransformer, gpsconv-multihead, gpsconv-performer"
)

Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Everything random is a function of it.")]


def verify(
    labels: Annotated[list[str] | None, typer.Argument(help="Labels of the paper; all by default.")] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help=f"Where the record goes; {VERIFIED} if all claims are run, otherwise nowhere.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Folder for the figures.")] = None,
) -> None:
    """Run every claim of the paper as a check, each beside a control that must fail."""
    from mooring import theory
    from mooring.suite.chapters import write_figures

    # A record of some claims would replace the record of all.
    out = VERIFIED if out is None and not labels else out
    require_file(out)
    if plot is not None:
        require_folder(plot, "verify: --plot")
    theory.select(labels)

    def show(result: theory.ClaimResult) -> None:
        mark = "[green]holds[/]" if result.ok else "[red]FAILS[/]"
        console.print(f"{mark}  [bold]{result.label}[/]  {result.statement}", highlight=False)
        margin = f"margin {result.margin:.3g} ({result.margin_means}) over {result.instances} instances"
        outcome = "rejected" if result.control_failed else "NOT rejected"
        for line in (margin, f"control: {result.control}: {outcome}"):
            console.print(f"       {line}", highlight=False, style="dim")

    outcome = theory.verify(labels, seed, progress=show)
    with TemporaryDirectory() as folder:
        written = out or Path(folder, VERIFIED.name)
        write_record(written, outcome.to_record())
        where = "no record, as --out is not given" if out is None else f"record: {out}"
        say(f"{len(outcome.results)} claims in {outcome.seconds:.0f} s; {where}")
        for path in write_figures([written], plot) if plot is not None else ():
            say(f"figure: {path}")
    if not outcome.passed:
        fail("verify: a claim failed, or a control did not.")


def audit(
    target: Annotated[
        str, typer.Argument(help="package.module:Name, zoo.NAME, or all modules of 'catalogue' or 'zoo'.")
    ],
    channels: Annotated[int, typer.Option(min=1, help="Width of the node features.")] = 16,
    arg: Arguments = None,
    kind: Annotated[str | None, typer.Option(help="aggregation, virtual_node, layer or dense.")] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option("--json", help="Write the record here, or the records into this folder.")
    ] = None,
) -> None:
    """Measure a module: does it count, can it be addressed, is it invariant. Exits with 1 on a broken invariant.

    package.module:Name is imported, from the current folder too: that runs the module's code.
    """
    from mooring import audit as auditing
    from mooring.audit import catalogue

    import_from_here(target, *(arg or []))
    many = target in ("catalogue", "zoo")
    if not many:
        require_file(out)
    elif out is not None and out.is_file():
        fail(f"audit: --json {out} is a file, expected a folder for the records of all modules.", 2)
    if many:
        cards = catalogue.cards(seed, chosen=catalogue.zoo_entries() if target == "zoo" else None)
    elif target.startswith(catalogue.ZOO):
        options = auditing.parse_arguments(arg or [])
        chosen = catalogue.zoo_entries([target.removeprefix(catalogue.ZOO)], channels, options)
        if not chosen:
            fail(f"audit: {target} builds no module; nothing to audit.", 2)
        if kind not in (None, chosen[0].kind):
            fail(f"audit: --kind is {kind!r} but modules of the zoo are called as {chosen[0].kind!r}. Leave it out.", 2)
        cards = catalogue.cards(seed, chosen=chosen, channels=channels)
    else:
        module = auditing.resolve(target, channels, auditing.parse_arguments(arg or []))
        cards = iter([auditing.audit(module, kind, channels=channels, seed=seed, name=target)])
    broken = []
    for card in cards:
        console.print(FittedTable(card.to_table()))
        if out is not None:
            slug = "".join(letter if letter.isalnum() else "-" for letter in card.module.lower()).strip("-")
            write_record(out / f"{slug}.json" if many else out, card.to_record())
        if card.broken:
            name = card.module if many else target
            broken.append(f"{name} breaks {', '.join(finding.name for finding in card.broken)}")
    if broken:
        fail(f"audit: {'; '.join(broken)}.")


def bench(
    shapes: Annotated[
        str, typer.Option(help="Comma-separated shapes; 8x2000 is 8 graphs of 2,000 nodes. By default all.")
    ] = "",
    sweep: Annotated[
        str, typer.Option(help="peers; nodes, slots: vary the size; batches; default: with and without C++; zoo.")
    ] = "peers",
    peers: Annotated[
        str,
        typer.Option(
            help=f"Comma-separated contestants beside the slots: {PEERS}, zoo.NAME. By default all that suit the sweep."
        ),
    ] = "",
    threads: Annotated[int, typer.Option(help="Threads of each measurement.")] = 2,
    repeats: Annotated[int, typer.Option(help="Rounds of two timings; the minimum is reported.")] = 7,
    memory: Annotated[bool, typer.Option(help="Measure peak memory too.")] = True,
    device: Annotated[str, typer.Option(help="cpu, or cuda where there is one.")] = "cpu",
    out: Annotated[Path | None, typer.Option("--json", help="Write the record.")] = None,
) -> None:
    """Time slots against peers and against the bare matrix products, after a comparison with the oracle."""
    from mooring.suite import bench as benching

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


def doctor(
    device: Annotated[str, typer.Option(help="cpu, or cuda where there is one.")] = "cpu",
    out: Annotated[Path | None, typer.Option("--json", help="Write a report to paste into an issue.")] = None,
) -> None:
    """Check results, compilation, half precision, memory and times on this machine. Exits with 1 on a wrong result."""
    from mooring.suite.doctor import examine

    require_file(out)
    report = examine(device)
    console.print(FittedTable(report.to_table()))
    if out is not None:
        write_record(out, report.to_record())
        say(f"report: {out}")
    if report.wrong:
        fail(f"doctor: {', '.join(report.wrong)}: wrong. Paste the report of --json into an issue.")


def look_(
    target: Annotated[
        str,
        typer.Argument(
            help="A record or folder of a run, a checkpoint, the folder of mooring train, package.module:Name or "
            "zoo.NAME. For a folder of runs, e.g. runs, it lists the command for each.",
            autocompletion=complete_record,
        ),
    ],
    data: Annotated[
        str | None, typer.Option(help="A file of PyG data, or package.module:Name; a run has its own by default.")
    ] = None,
    graphs: Annotated[
        str, typer.Option(help="Numbers of the graphs to show, as in 0,3; by default the first four.")
    ] = "",
    max_nodes: Annotated[int, typer.Option(min=1, help="Larger graphs are shown in part.")] = 2000,
    channels: Annotated[int, typer.Option(min=1, help="Width of the node features, for a module given by name.")] = 16,
    arg: Arguments = None,
    audit: Annotated[bool, typer.Option("--audit", help="Also show what the audit says of the memory.")] = False,
    task: Annotated[str | None, typer.Option(help="package.module:ClassName of a run's own experiment.")] = None,
    data_dir: DataDir = None,
    trust: Trust = False,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("look.html"),
) -> None:
    """Write one page that shows what a memory does on a graph: where nodes write, what they read, what slots hold.

    package.module:Name is imported, from the current folder too: that runs the module's code.
    """
    from mooring.audit import parse_arguments
    from mooring.suite.look import page_of
    from mooring.suite.molecules import is_model, page_of_model

    trained = is_model(Path(target))
    if Path(target).is_dir() and not trained and not is_run(Path(target)):
        for command in commands_for(Path(target)):
            say(command)
        return
    require_file(out)
    use_data(data_dir)
    import_from_here(target, data or "", task or "", *(arg or []), trust=trust)
    chosen = parse_numbers(graphs, "look: --graphs")
    shown: dict[str, Any] = {"graphs": chosen, "max_nodes": max_nodes, "audited": audit}
    if trained:
        page = page_of_model(Path(target), data, **shown)
    else:
        arguments = parse_arguments(arg or [])
        page = page_of(target, data, channels=channels, arguments=arguments, task=task, trust=trust, **shown)
    say(f"page: {page.save(out)}")


def is_run(folder: Path) -> bool:
    """Return whether a folder is that of one run, by its name."""
    return re.fullmatch(r".+-seed\d+", folder.absolute().name) is not None


def commands_for(folder: Path) -> list[str]:
    """Return a `mooring look` for each run below a folder that has weights, newest first; ValueError without any."""
    runs = {path.parent for path in folder.rglob("epoch-*.safetensors") if is_run(path.parent)}
    if not runs:
        raise ValueError(
            f"look: {folder} has no run with weights to look at. Train one with `mooring run TASK --out {folder}`, or "
            "name another folder."
        )
    commands = []
    for run in sorted(runs, key=lambda run: (-run.stat().st_mtime, run)):
        record = run.with_name(f"{run.name}.json")
        # A record writes the colon of package.module:Name as an at sign.
        trust = " --trust" if "@" in run.name else ""
        commands.append(f"mooring look {shlex.quote(str(record if record.exists() else run))}{trust}")
    return commands


def draw(
    target: Annotated[
        Path,
        typer.Argument(help="A record of a run of molecules or peptides.", autocompletion=complete_record),
    ],
    graphs: Annotated[
        str, typer.Option(help="Test molecules, as in 0,3,8; by default a small, a typical and a large one.")
    ] = "",
    layer: Annotated[int | None, typer.Option(help="The memory behind this layer; by default the last.")] = None,
    data_dir: DataDir = None,
    trust: Trust = False,
    out: Annotated[Path, typer.Option(help="The picture to write, svg or png.")] = Path("molecules.svg"),
) -> None:
    """Draw molecules whose atoms have the colours of the slots they write to, and what each slot counts."""
    from mooring.suite.real import pictures

    require_file(out)
    if out.suffix not in ("", ".svg", ".png"):
        fail(f"draw: --out is {out}, expected a name that ends in .svg or .png.", 2)
    use_data(data_dir)
    chosen = parse_numbers(graphs, "draw: --graphs")
    import_from_here(trust=trust)
    pictures.save(pictures.draw(target, chosen, layer, trust=trust), out)
    say(f"picture: {out}")
