"""The layers of the package, as the import contracts in pyproject.toml have them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINTER = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()"]

UPWARDS = """
[importlinter]
root_package = mooring

[importlinter:contract:upside-down]
name = the control: modules below mathematics
type = layers
layers =
    mooring.ops
    mooring.nn
"""


def lint(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*LINTER, "--no-cache", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_nobody_imports_upwards() -> None:
    done = lint()
    assert done.returncode == 0, done.stdout


def test_an_upward_import_would_be_found(tmp_path: Path) -> None:
    contract = tmp_path / "upwards.ini"
    contract.write_text(UPWARDS)
    done = lint("--config", str(contract))
    assert done.returncode == 1
    assert "mooring.nn" in done.stdout


@pytest.mark.parametrize("name", ["ops", "nn"])
def test_public_names_exist(name: str) -> None:
    module = __import__(f"mooring.{name}", fromlist=["__all__"])
    assert list(module.__all__) == sorted(module.__all__)
    assert all(hasattr(module, public) for public in module.__all__)
