"""Package metadata, Makefile, workflows and hooks agree with each other and with the code."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

import mooring
from support import ROOT

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'mooring[docs]'")

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
in_checkout = pytest.mark.skipif(not WORKFLOWS, reason="a source distribution has neither Makefile nor workflows")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads(text("pyproject.toml"))
    return settings


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def make(target: str, **variables: object) -> list[str]:
    """Return the commands of a target, as make prints them without running them."""
    command = ["make", "--dry-run", "--always-make", target, *(f"{name}={value}" for name, value in variables.items())]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_every_supported_python_is_named_and_the_oldest_is_checked(project: dict[str, Any]) -> None:
    named = re.findall(r"Python :: 3\.(\d+)", "\n".join(project["project"]["classifiers"]))
    oldest = int(named[0])
    assert [int(minor) for minor in named] == list(range(oldest, oldest + len(named)))
    assert project["project"]["requires-python"] == f">=3.{oldest}"
    assert project["tool"]["mypy"]["python_version"] == f"3.{oldest}"
    assert project["tool"]["ruff"]["target-version"] == f"py3{oldest}"


def test_the_core_needs_three_packages(project: dict[str, Any]) -> None:
    needed = [re.split(r"[><=]", package)[0] for package in project["project"]["dependencies"]]
    assert needed == ["torch", "torch_geometric", "jaxtyping"]


def test_a_source_distribution_has_what_it_needs_and_no_tests_that_could_not_run() -> None:
    sdist = pytest.importorskip("hatchling.builders.sdist", reason="`make install` installs hatchling")
    files = {file.relative_path for file in sdist.SdistBuilder(str(ROOT)).recurse_included_files()}
    package = {str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.py")}
    assert package | {"LICENSE", "CITATION.cff", "README.md"} <= files
    assert {file.partition("/")[0] for file in files if "/" in file} == {"src", "examples"}


def test_the_citation_is_of_the_paper_and_of_this_version() -> None:
    software, paper = text("CITATION.cff").split("preferred-citation:")
    assert f"version: {mooring.__version__}" in software
    assert "Designing a Good Virtual Node" in paper
    assert re.search(r"message: .*the paper.*then the software", software)


def test_the_first_release_fits_on_a_screen() -> None:
    _, *releases = re.split(r"^## ", text("CHANGELOG.md"), flags=re.M)
    first = releases[-1]
    assert first.startswith("[0.1.0] - ")
    assert len(first.splitlines()) <= 40


@in_checkout
def test_the_oldest_versions_are_the_lower_bounds(project: dict[str, Any]) -> None:
    bounds = dict(package.split(">=") for package in project["project"]["dependencies"])
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", text("requirements-oldest.txt"), flags=re.M))
    assert {name: re.sub(r"^(\d+\.\d+)\.0$", r"\1", pins[name]) for name in bounds} == bounds
    for page in ("README.md", "docs/index.md"):
        stated = dict(re.findall(r"(PyTorch|PyG) (\d+\.\d+)", text(page)))
        assert stated == {"PyTorch": bounds["torch"], "PyG": bounds["torch_geometric"]}, page


@in_checkout
@pytest.mark.parametrize(
    ("target", "extras"),
    [("demo", ["suite"]), ("docs", ["suite", "docs"]), ("test", ["suite", "scale,links,meshes,dev"])],
)
def test_make_installs_what_the_target_needs(target: str, extras: list[str], tmp_path: Path) -> None:
    lines = [line for line in make(target, VENV=tmp_path) if "pip install" in line]
    # The C++ operators are a distribution of their own, of one package.
    native = [line for line in lines if "./native" in line]
    assert all("--no-build-isolation" in line and "--no-deps" in line for line in native)
    installs = [line for line in lines if line not in native]
    assert installs[0].endswith("--constraint constraints.txt torch")
    assert all("--constraint constraints.txt" in line for line in installs)
    editable = [line for line in installs if "'.[" in line]
    assert re.findall(r"'\.\[(.*?)\]'", "\n".join(editable)) == extras
    # Without these pip would replace the editable install, or download hatchling.
    assert all("--no-build-isolation --editable" in line for line in editable)


@in_checkout
def test_hooks_are_the_commands_of_make_lint() -> None:
    hooks = [hook for repo in yaml.safe_load(text(".pre-commit-config.yaml"))["repos"] for hook in repo["hooks"]]
    install = make("install")
    assert [hook["entry"] for hook in hooks] == [line for line in make("lint") if line not in install]
    assert all(hook["language"] == "system" and hook["pass_filenames"] is False for hook in hooks)


@in_checkout
@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_that_exist(workflow: Path) -> None:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    commands = [shlex.split(step["run"]) for step in steps if "run" in step]
    targets = [command[1:] for command in commands if command[0] == "make"]
    assert targets
    for target in targets:
        assert make(*target)
    actions = [step["uses"] for step in steps if "uses" in step]
    assert [action for action in actions if not re.search(r"@(release/)?v\d+$", action)] == []
    assert "secrets." not in workflow.read_text(encoding="utf-8")


@in_checkout
def test_workflows_run_the_oldest_and_the_newest_versions(project: dict[str, Any]) -> None:
    jobs = yaml.safe_load(text(".github/workflows/tests.yml"))["jobs"]
    pythons = {name: job["steps"][1]["with"]["python-version"] for name, job in jobs.items()}
    assert project["project"]["requires-python"] == f">={pythons['oldest']}"
    assert {name: job["steps"][2]["run"] for name, job in jobs.items()} == {
        "newest": "make test",
        "oldest": "make oldest",
    }


@in_checkout
@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.stem
)
def test_an_issue_form_has_what_github_requires(form: Path) -> None:
    content = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert content["name"]
    assert content["description"]
    fields = content["body"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["type"] == "textarea" and field["attributes"]["label"] for field in fields)
