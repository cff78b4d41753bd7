"""What package indexes and citations say agrees with the code."""

from __future__ import annotations

import re
from typing import Any

import pytest

import mooring
from support import ROOT

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return found


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
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    software, paper = text.split("preferred-citation:")
    assert f"version: {mooring.__version__}" in software
    assert "Designing a Good Virtual Node" in paper
    assert re.search(r"message: .*the paper.*then the software", software)
