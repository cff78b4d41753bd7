"""The plugin in sessions of its own: on a right module and on wrong ones, as tests and as a fixture."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from mooring.audit import MEASUREMENTS
from support import ROOT

pytest_plugins = ["pytester"]

MODULES = """
import torch
from torch_geometric.utils import scatter

class Sum(torch.nn.Module):
    def __init__(self, channels, gain=1.0):
        super().__init__()
        self.gain = gain
    def forward(self, x, batch, num_graphs):
        return self.gain * scatter(x, batch, dim_size=num_graphs, reduce="sum")

class WholeBatch(torch.nn.Module):
    def forward(self, x, batch):
        return x + x.mean(0, keepdim=True)

class Needs(torch.nn.Module):
    def __init__(self, channels, depth):
        super().__init__()
    def forward(self, x, batch):
        return x
"""
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest on files, with this plugin and no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(sys, "path", list(sys.path))
    pytester.makepyfile(user_modules=MODULES)

    def run(*arguments: str, **files: str) -> pytest.RunResult:
        if files:
            pytester.makepyfile(**files)
        return pytester.runpytest_inprocess("-p", "mooring.pytest_plugin", *arguments)

    yield run
    sys.modules.pop("user_modules", None)


def test_a_right_module_passes_every_measurement(session: Run) -> None:
    result = session("--mooring-audit", "user_modules:Sum gain=2.0", "-v")
    result.assert_outcomes(passed=len(MEASUREMENTS))
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*mooring-audit*user_modules:Sum*permutation PASSED*", "*mooring audit: user_modules:Sum*"]
    )
    result.stdout.fnmatch_lines(["replication *counts*"])


def test_a_wrong_module_fails_where_it_is_wrong(session: Run) -> None:
    result = session("--mooring-audit", "user_modules:WholeBatch", "--mooring-audit-channels", "6")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    failed = {line.split("::")[-1].split()[0] for line in result.outlines if line.startswith("FAILED")}
    assert "batch_mates" in failed
    assert not {"permutation", "dtypes"} & failed
    result.stdout.fnmatch_lines(["worst case: *"])


def test_measurements_are_chosen_like_other_tests_and_stand_beside_them(session: Run) -> None:
    files = {"test_user": "def test_nothing():\n    pass\n"}
    result = session("--mooring-audit", "user_modules:WholeBatch", "-k", "permutation or nothing", **files)
    result.assert_outcomes(passed=2, deselected=len(MEASUREMENTS) - 1)
    session(**files).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("user_modules:Sun", "*has no 'Sun'; did you mean 'Sum'?*"),
        ("user_modules:Needs", "*needs depth.*Arguments follow the name: 'user_modules:Needs slots=4'*"),
        ("nowhere", "*not of the form package.module:Name*"),
    ],
)
def test_a_wrong_name_ends_the_session_with_the_reason(session: Run, target: str, message: str) -> None:
    result = session("--mooring-audit", target)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_the_fixture_returns_a_card_or_fails(session: Run) -> None:
    files = {
        "test_user": """
from user_modules import Sum, WholeBatch
def test_right(mooring_audit):
    assert mooring_audit(Sum(5), channels=5, trials=3).counts
def test_wrong(mooring_audit):
    mooring_audit(WholeBatch(), channels=5, trials=3)
"""
    }
    result = session(**files)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*BrokenInvariantError: WholeBatch breaks*"])


def test_a_session_without_it_does_not_wait_for_torch() -> None:
    code = "import sys, mooring.pytest_plugin; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_entry_point_names_the_plugin() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert hasattr(importlib.import_module(project["entry-points"]["pytest11"]["mooring"]), "pytest_addoption")
