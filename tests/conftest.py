"""What every test runs under: checked shapes, one thread, no deadline, the same cases again on a build machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

# Some virtual machines announce AMX and then refuse its instructions: half-precision products would end the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import jaxtyping
import pytest
import torch
from hypothesis import HealthCheck, settings

# Tests import their helpers by name, `from support import ...`; pytest's importlib mode adds no path of its own.
sys.path.insert(0, str(Path(__file__).parent))

# Modules that define a torch.library op stay out: its schema is read off annotations that the hook hides.
CHECKED = [*(f"mooring.ops.{name}" for name in ("plan", "read", "reference", "state", "write")), "mooring.nn"]

# Before anything imports mooring. Compiled graphs are traced in processes of their own, without the checks.
if os.environ.get("MOORING_SHAPE_CHECKS", "1") == "1":
    jaxtyping.install_import_hook(CHECKED, "beartype.beartype")

torch.set_num_threads(1)

settings.register_profile(
    "mooring",
    max_examples=int(os.environ.get("MOORING_EXAMPLES", "200")),
    deadline=None,
    derandomize="CI" in os.environ,
    # Random tensors come from a drawn seed, so a large example is cheap to draw and slow only to run.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("mooring")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail on a test file that cannot be imported.

    Its doctests are collected first and skipped; the half-imported module then counts as a file without tests.
    """
    report = yield
    is_test = isinstance(collector, pytest.File) and collector.path.name.startswith("test_")
    if is_test and report.skipped and "unable to import module" in str(report.longrepr):
        report.outcome = "failed"
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="where tests/ops computes: cpu, or cuda where there is one")


def pytest_configure(config: pytest.Config) -> None:
    device = config.getoption("--device")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise pytest.UsageError(f"--device {device}: torch finds no CUDA device here. Use --device cpu.")


# The same random numbers whichever tests ran before: for modules built while a file of tests is imported, for fixtures
# that several tests share, and for the test itself.
def pytest_collectstart(collector: pytest.Collector) -> None:
    torch.manual_seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The system's chromium; skipped with the reason where there is none."""
    from browser import started

    with started() as found:
        yield found


@pytest.fixture(scope="session")
def artefacts() -> Path:
    """Where screenshots are kept: the folder MOORING_ARTEFACTS, or .cache/screenshots, which git ignores."""
    folder = Path(os.environ.get("MOORING_ARTEFACTS") or Path(__file__).parents[1] / ".cache" / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def as_users_run_it() -> Iterator[None]:
    """No shape checks: users do not have them, so wrong input must meet our own messages."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
