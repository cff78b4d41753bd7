"""The command as it is typed: what it refuses and how, what it exits with, and what Ctrl-C leaves behind."""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring import __version__
from mooring.audit import Card, Finding, catalogue
from mooring.suite import cli, cli_modules
from mooring.suite.bench.peers import PEERS
from mooring.suite.terminal import import_from_here
from mooring.suite.train import resolve
from support import ROOT

TOYS = Path(__file__).parent / "train"
Command = Callable[..., tuple[int, str, str]]

SYNTAX = "def broken(:\n"
RAISES = "import math\n\nmath.sqrt(-1)\n"
LEAVES = "import sys\n\nsys.exit(3)\n"
LACKS = "import no_such_dependency\n"
OWN = """
from torch import nn

number = 7


class Unbuildable(nn.Module):
    def __init__(self, channels):
        raise RuntimeError("this module never could be built")


class Needs(nn.Module):
    def __init__(self, channels, secret):
        super().__init__()


class Silent(nn.Module):
    def __init__(self, channels):
        super().__init__()

    def forward(self, x, batch):
        return None
"""


@pytest.fixture
def mooring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Return the command, run in a folder of its own by way of ``main``: exit code, output and complaints."""
    for name, text in {"syntax": SYNTAX, "raises": RAISES, "leaves": LEAVES, "lacks": LACKS, "own": OWN}.items():
        (tmp_path / f"{name}_module.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["mooring", *arguments])
        code: Any = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


RUN = ("run", "two-radius", "--preset", "tiny")
# What was typed, the exit code, and what the complaint must say.
TYPOS: list[tuple[tuple[str, ...], int, str]] = [
    (("runn",), 2, "No such command"),
    (("--verison",), 2, "No such option"),
    (("run",), 2, "Missing argument"),
    (("run", "two-radios"), 2, "unknown task 'two-radios'; did you mean 'two-radius'?"),
    (("run", "xyzzy"), 2, "unknown task 'xyzzy'"),
    (("run", ""), 2, "unknown task ''"),
    (("run", "no_such_module:Task"), 2, "cannot import 'no_such_module'"),
    (("run", "own_module:Tusk"), 2, "own_module has no 'Tusk'"),
    (("run", "own_module:number"), 2, "is not a class derived from mooring.suite.train.Experiment"),
    (("run", "own_module:Silent"), 2, "is not a class derived from mooring.suite.train.Experiment"),
    (("run", "syntax_module:Task"), 2, "SyntaxError"),
    (("run", "raises_module:Task"), 2, "raises_module.py, line 3"),
    (("run", "leaves_module:Task"), 2, "SystemExit: 3"),
    (("run", "lacks_module:Task"), 2, "No module named 'no_such_dependency'"),
    (("run", "..own_module:Task"), 2, "is not of the form package.module:Name"),
    (("run", ":"), 2, "is not of the form package.module:Name"),
    (("run", "two-radius", "--preset", "tinny"), 2, "unknown preset 'tinny'; did you mean 'tiny'?"),
    (("run", "two-radius", "--preset", "full"), 2, "two-radius: unknown preset 'full'; the presets are paper, quick"),
    (("run", "two-radius-leaderboard", "--preset", "quick"), 2, "unknown preset 'quick'"),
    (("run", "motifs-leaderboard", "--preset", ""), 2, "unknown preset ''"),
    ((*RUN, "--models", "anchord"), 2, "unknown module 'anchord'; did you mean 'anchored'?"),
    ((*RUN, "--models", "vn,vn"), 2, "two requests write"),
    ((*RUN, "--models", "no_such_module:VN"), 2, "cannot import 'no_such_module'"),
    ((*RUN, "--models", "own_module:VN"), 2, "own_module has no 'VN'"),
    ((*RUN, "--models", "own_module:number"), 2, "own_module:number is int, expected a class or a function"),
    ((*RUN, "--models", "own_module:Needs"), 2, "takes (channels, secret), expected one argument `spec`"),
    ((*RUN, "--models", "raises_module:VN"), 2, "ValueError: math domain error"),
    (("run", "motifs", "--preset", "tiny", "--models", "median"), 2, "unknown readout 'median'"),
    (
        ("run", "two-radius-original", "--preset", "tiny", "--models", "gnc+vn"),
        2,
        "does not start with a known convolution",
    ),
    ((*RUN, "--seeds", "5-2"), 2, "5-2 counts down and is empty. Write 2-5."),
    ((*RUN, "--seeds", "one"), 2, "expected numbers as in 0, 0,3 or 0-4"),
    ((*RUN, "--seeds", "-1"), 2, "expected numbers as in 0, 0,3 or 0-4"),
    ((*RUN, "--seeds", "0,0"), 2, "two requests write"),
    ((*RUN, "--workers", "0"), 2, "workers=0, expected 1 or more"),
    ((*RUN, "--workers", "-3"), 2, "workers=-3, expected 1 or more"),
    ((*RUN, "--workers", "two"), 2, "--workers"),
    ((*RUN, "--engine", "slurm"), 2, "unknown engine 'slurm'; the engines are local, ray, submitit."),
    ((*RUN, "--engine", "lokal"), 2, "did you mean 'local'?"),
    ((*RUN, "--devices", "0"), 2, "devices=0, expected 1 or more"),
    ((*RUN, "--set", "clip_norm=-1"), 2, "two-radius 'tiny': clip_norm=-1.0, expected a number above 0."),
    ((*RUN, "--set", "learning_rate=0"), 2, "learning_rate=0.0, expected a number above 0."),
    ((*RUN, "--set", "learning_rate=nan"), 2, "learning_rate=nan, expected a number above 0."),
    ((*RUN, "--set", "learning_rate=fast"), 2, "field 'learning_rate' expects float, got 'fast'"),
    ((*RUN, "--set", "assignments=0"), 2, "assignments=0, expected 1 or more."),
    ((*RUN, "--set", "epochs=0"), 2, "epochs=0, expected 1 or more."),
    ((*RUN, "--set", "epoch=3"), 2, "unknown field 'epoch'; did you mean 'epochs'?"),
    ((*RUN, "--set", "epochs"), 2, "expected field=value"),
    ((*RUN, "--set", "epochs=1", "--set", "epochs=2"), 2, "field 'epochs' is given twice"),
    ((*RUN, "--set", "scales=1,1"), 2, "names a scale twice"),
    (("run", "motifs", "--preset", "tiny", "--set", "batch_size=0"), 2, "batch_size=0, expected 1 or more."),
    (("run", "motifs", "--preset", "tiny", "--set", "train_graphs=5"), 2, "an epoch shows a graph once"),
    ((*RUN, "--models", "vn", "--out", "own_module.py"), 2, "own_module.py is a file, expected a folder"),
    (("run", "molecules", "--data-dir", "nowhere"), 1, "type `mooring data esol`"),
    (
        ("run", "molecules", "--preset", "tiny", "--set", "train_graphs=1"),
        2,
        "molecules 'tiny': train_graphs=1, expected 2 or more, or none.",
    ),
    (("run", "molecules", "--set", "dataset=esool"), 2, "unknown dataset 'esool'; did you mean 'esol'?"),
    (("data", "esool"), 2, "unknown set 'esool'; did you mean 'esol'?"),
    (("verify", "thm:uper"), 2, "no claim is labelled 'thm:uper'; did you mean 'thm:upper'?"),
    (("verify", "--seed", "-1"), 2, "--seed"),
    (("verify", "prop:onehot", "--out", "."), 2, "is a folder"),
    (("audit", "torch_geometric.nn"), 2, "is not of the form package.module:Name"),
    (("audit", "no_such_module:Name"), 2, "cannot import 'no_such_module'"),
    (("audit", "torch_geometric.nn:SumAgregation"), 2, "did you mean 'SumAggregation'?"),
    (("audit", "syntax_module:Name"), 2, "SyntaxError"),
    (("audit", "raises_module:Name"), 2, "raises_module.py, line 3"),
    (("audit", "own_module:number"), 2, "own_module:number is int"),
    (("audit", "own_module:Unbuildable"), 2, "could not be built: this module never could be built"),
    (("audit", "own_module:Needs"), 2, "needs secret. Pass --arg secret=VALUE"),
    (("audit", "own_module:Silent"), 2, "returned NoneType"),
    (("audit", "zoo.lze"), 2, "unknown module 'lze'; did you mean 'lse'?"),
    (("audit", "zoo.none"), 2, "nothing to audit"),
    (("audit", "zoo.vn", "--arg", "slotz=3"), 2, "unknown option 'slotz'; did you mean 'slots'?"),
    (("audit", "zoo.vn", "--kind", "dense"), 2, "modules of the zoo are called as 'virtual_node'"),
    (("audit", "catalog"), 2, "is not of the form package.module:Name"),
    (("audit", "torch_geometric.nn:SumAggregation", "--channels", "0"), 2, "--channels"),
    (("audit", "torch_geometric.nn:SumAggregation", "--kind", "readout"), 2, "kind='readout' is unknown"),
    (("audit", "torch_geometric.nn:SumAggregation", "--arg", "heads"), 2, "is not of the form name=value"),
    (("audit", "torch_geometric.nn:SumAggregation", "--arg", "heds=2"), 2, "has no argument 'heds'"),
    (("audit", "torch_geometric.nn:SumAggregation", "--json", "."), 2, "is a folder"),
    (("audit", "zoo", "--json", "own_module.py"), 2, "is a file, expected a folder"),
    (("bench", "--threads", "0"), 2, "threads=0, expected 1 or more."),
    (("bench", "--repeats", "0"), 2, "repeats=0, expected 1 or more."),
    (("bench", "--repeats", "-7"), 2, "repeats=-7, expected 1 or more."),
    (("bench", "--shapes", "moleculs"), 2, "unknown shape 'moleculs'; did you mean 'molecules'?"),
    (("bench", "--shapes", "0x5"), 2, "unknown shape '0x5'"),
    (("bench", "--shapes", "1x999999999999"), 2, "expected at most"),
    (("bench", "--sweep", "node"), 2, "unknown sweep 'node'; did you mean 'nodes'?"),
    (("bench", "--peers", "isap"), 2, "unknown peer 'isap'; did you mean 'isab'?"),
    (("bench", "--peers", "slots, FiLM"), 2, "unknown peer 'FiLM'; did you mean 'slots-film'?"),
    (("bench", "--peers", "zoo.lze"), 2, "unknown module 'lze'"),
    (("bench", "--json", "."), 2, "is a folder"),
    (("bench", "--json", "own_module.py/x.json"), 2, "own_module.py is a file"),
    (("report", "nowhere"), 2, "nowhere"),
    (("report", "--out", "."), 2, "is a folder"),
    (("report", "."), 2, "no record under"),
    (("report",), 2, "no record under runs or results, which are not in this folder. Write some first"),
    (
        ("run", "motifs", "--preset", "tiny", "--models", "all"),
        2,
        "--models all is every module of the zoo, and motifs does not take 'none'",
    ),
    (("run", "motifs", "--preset", "tinny", "--models", "all"), 2, "unknown preset 'tinny'; did you mean 'tiny'?"),
    (
        ("run", "molecules", "--preset", "tiny", "--set", "readout=median"),
        2,
        "field 'readout' expects mean or ",
    ),
]


@pytest.mark.parametrize(("arguments", "code", "said"), TYPOS, ids=[" ".join(typed) for typed, *_ in TYPOS])
def test_what_is_typed_wrongly_is_explained(mooring: Command, arguments: Any, code: int, said: str) -> None:
    ended, out, complaint = mooring(*arguments)
    assert ended == code, complaint
    # typer draws its own complaints in a box, whose borders and line breaks are not the message.
    plain = " ".join(re.sub(r"[│╭╮╰╯─]", " ", complaint).split())
    assert said in plain
    assert "Traceback" not in out + complaint
    if "Usage" not in complaint:
        assert len(complaint.splitlines()) <= 2, complaint
    assert not list(Path().glob("runs/**/*.json"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("verify", "--plot", "a-file"), "verify: --plot a-file cannot be written to"),
        (("draw", "a-file", "--out", "picture.txt"), "expected a name that ends in .svg or .png"),
        (("look", "zoo.anchored", "--data", "a-file"), "not a file of PyG data (KeyError while reading it)"),
    ],
)
def test_files_that_cannot_serve_are_refused_before_the_work(mooring: Command, arguments: Any, said: str) -> None:
    Path("a-file").write_text("hello\n")
    code, out, complaint = mooring(*arguments)
    assert code == 2
    assert said in " ".join(complaint.split())
    assert "Traceback" not in out + complaint


def test_a_network_that_cannot_be_built_is_a_wrong_request(mooring: Command) -> None:
    code, out, complaint = mooring(*RUN, "--models", "anchored", "--set", "heads=3")
    assert code == 2
    assert complaint.startswith("two-radius tiny anchored: SlotVirtualNode: channels=")
    assert "heads=3" in complaint
    assert "Traceback" not in out + complaint


@pytest.mark.parametrize("task", ["two-radius-leaderboard", "motifs-leaderboard"])
def test_a_task_without_a_quick_preset_starts_with_its_own(
    mooring: Command, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("mooring.suite.train.run_many", lambda requests, *_: asked.extend(requests))
    monkeypatch.setattr("mooring.suite.chapters.tables_text", lambda *_: "")
    assert mooring("run", task)[0] == 0
    assert {request.preset for request in asked} == {"screen"}
    assert all(resolve(request) for request in asked[:2])


def test_some_claims_do_not_replace_the_record_of_all(mooring: Command) -> None:
    kept = Path("runs/verify.json")
    kept.parent.mkdir()
    kept.write_text("all claims")
    code, out, _ = mooring("verify", "prop:onehot")
    assert (code, kept.read_text()) == (0, "all claims")
    assert "1 claims in" in out
    assert "no record, as --out is not given" in out
    assert mooring("verify", "prop:onehot", "--out", "some.json")[0] == 0
    assert '"prop:onehot"' in Path("some.json").read_text()


def test_the_version_is_printed(mooring: Command) -> None:
    assert mooring("--version") == (0, f"mooring {__version__}\n", "")


def test_the_shell_can_be_taught_to_complete(mooring: Command) -> None:
    assert "--install-completion" in mooring("--help")[1]


def test_the_help_names_every_peer() -> None:
    assert cli_modules.PEERS.split(", ") == [peer.slug for peer in PEERS.values()]
    assert not any("," in peer.slug or ";" in peer.slug for peer in PEERS.values())


@pytest.mark.parametrize("command", ["run", "audit"])
def test_the_help_says_that_code_is_run(mooring: Command, command: str) -> None:
    said = " ".join(mooring(command, "--help")[1].split())
    assert "that runs the module's code" in said


def finding(name: str, broken: bool) -> Finding:
    return Finding(name, "as measured", 1.0, "none", 3, "measured", broken)


def test_an_audit_of_many_modules_names_the_broken_ones_and_exits_with_one(
    mooring: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        Card("good", "layer", 16, (finding("permutation", False),)),
        Card("leaky", "layer", 16, (finding("permutation", False), finding("batch_mates", True))),
        Card("odd", "layer", 16, (finding("permutation", True), finding("padding", True))),
    ]
    monkeypatch.setattr(catalogue, "cards", lambda *_, **__: iter(found))
    for target in ("zoo", "catalogue"):
        code, out, complaint = mooring("audit", target, "--json", target)
        assert code == 1
        assert complaint.strip() == "audit: leaky breaks batch_mates; odd breaks permutation, padding."
        assert all(card.module in out for card in found)
        assert {path.stem for path in Path(target).iterdir()} == {"good", "leaky", "odd"}
    monkeypatch.setattr(catalogue, "cards", lambda *_, **__: iter(found[:1]))
    assert mooring("audit", "zoo")[0] == 0


def test_stale_tables_fail_with_one(mooring: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from mooring.suite import records, report

    def stale(*_: Any, **__: Any) -> None:
        raise report.StaleError("README.md: tables differ")

    monkeypatch.setattr(report, "refresh", stale)
    monkeypatch.setattr(records, "refusals", lambda *_: [])
    assert mooring("report", "--check")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "needed", "package"),
    [
        (("report", str(ROOT / "results" / "bench")), ("matplotlib", "mooring.suite.report.figures"), "matplotlib"),
        (("run", "two-radius"), ("filelock", "mooring.suite.train", "mooring.suite.files"), "filelock"),
    ],
)
def test_a_package_that_is_missing_is_named(
    mooring: Command, monkeypatch: pytest.MonkeyPatch, arguments: Any, needed: tuple[str, ...], package: str
) -> None:
    for name in [name for name in sys.modules if name.startswith(needed)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    code, out, said = mooring(*arguments)
    assert code == 2
    assert said.splitlines()[-1] == (
        f"mooring: {package} is not installed. Install what the commands need: pip install 'mooring[suite]'"
    )
    assert "records" not in out
    assert not Path("report.html").exists()


def test_a_report_says_at_once_that_it_reads(mooring: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise RuntimeError("before anything was read")

    monkeypatch.setattr("mooring.suite.report.page.load", interrupt)
    results = ROOT / "results"
    _, out, said = mooring("report", str(results), "--no-inside")
    assert out == ""
    assert said.splitlines() == [f"report: reading {results} ...", "before anything was read"]


@pytest.mark.parametrize(
    ("encoding", "written"), [("ascii", "+- - ... \\u0151 \\ud800"), ("latin-1", "± - ... \\u0151 \\ud800")]
)
def test_letters_that_the_terminal_lacks_are_spelled(
    monkeypatch: pytest.MonkeyPatch, encoding: str, written: str
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
    monkeypatch.setattr(sys, "argv", ["mooring", "list"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    print("± – … ő \ud800")
    sys.stdout.flush()
    lines = sys.stdout.buffer.getvalue().decode(encoding).splitlines()
    assert any("two-radius" in line for line in lines)
    assert lines[-1] == written


def test_closed_streams_are_the_null_device() -> None:
    # A file that is opened later would have the number of a closed stream, and messages would be written into it.
    check = "import os; from mooring.suite.cli import app; from mooring.suite.terminal import explained; "
    check += "explained(lambda: (app(['--version'], standalone_mode=False), [os.fstat(n) for n in range(3)]))"
    command = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(check)} <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 0


def test_only_an_import_name_opens_the_folder_to_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["elsewhere"])
    import_from_here("two-radius", "vn,anchored")
    assert sys.path == ["elsewhere"]
    import_from_here("two-radius", "vn,mine:VN")
    assert sys.path == [os.getcwd(), "elsewhere"]


def test_ctrl_c_ends_the_workers_keeps_checkpoints_and_says_how_to_go_on(tmp_path: Path) -> None:
    path = os.pathsep.join([str(ROOT / "src"), str(TOYS)])
    command = [
        sys.executable,
        "-m",
        "mooring.suite.cli",
        "run",
        "toy_experiment:Toy",
        "--seeds",
        "0-1",
        "--out",
        "runs",
    ]
    command += ["--set", "epochs=50", "--set", "sleep=0.02", "--set", "stop_below=-1"]
    options: dict[str, Any] = {
        "cwd": tmp_path,
        "env": {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        "stderr": subprocess.PIPE,
        "stdout": subprocess.DEVNULL,
        "text": True,
        # A shell that runs the tests in the background has them ignore Ctrl-C, and whatever they start.
        "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    }
    with subprocess.Popen([*command, "--workers", "2"], **options) as started:
        deadline = time.monotonic() + 300
        while not list(tmp_path.glob("runs/**/*.safetensors")):
            assert started.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        started.send_signal(signal.SIGINT)
        _, said = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("run: interrupted.")
    assert "the same command resumes" in said.splitlines()[-1]
    kept = list(tmp_path.glob("runs/**/*.safetensors"))
    assert kept
    # Had a worker lived on, it would have gone on writing.
    before = {file: file.stat().st_mtime_ns for file in tmp_path.glob("runs/**/*") if file.is_file()}
    time.sleep(1.0)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.glob("runs/**/*") if file.is_file()} == before
    done = subprocess.run([*command, "--workers", "2"], timeout=300, check=False, **options)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("runs/**/*-seed?.json"))) == 2
