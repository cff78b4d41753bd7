"""Whose a file is: the fields that must agree, and the hashes of user code."""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mooring.suite.records import RecordError
from mooring.suite.records.identity import Identity, code_hashes, differing_field

RUN = Identity("toy", "vn", 3, {"epochs": 5, "scales": [1, 2]}, "d" * 64, {"my_vn.py": "c" * 64})
PATH, REMEDY = Path("runs/toy.json"), "Use another --out."


def test_differing_field_finds_changes_additions_and_removals() -> None:
    nan = float("nan")
    assert differing_field({"a": 1, "b": nan}, {"a": 1, "b": nan}) is None
    assert differing_field({"a": 1, "b": 2}, {"a": 1, "b": 3}) == "b"
    assert differing_field({"a": 1}, {"a": 1, "c": 2}) == "c"
    assert differing_field({"a": 1, "c": None}, {"a": 1}) == "c"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"task": "motifs"}, "task='motifs', but this run asks for task='toy'"),
        ({"model": "vn-max"}, "model='vn-max', but this run asks for model='vn'"),
        ({"seed": 4}, "seed=4, but this run asks for seed=3"),
        ({"config": {"epochs": 7, "scales": [1, 2]}}, "epochs=7, but this run asks for epochs=5"),
        ({"config": {"scales": [1, 2]}}, "epochs='<absent>', but this run asks for epochs=5"),
        ({"config": {**RUN.config, "gone": 1}}, "gone=1, but this run asks for gone='<absent>'"),
        ({"data": "e" * 64}, "data of hash eeeeeeeeeeeeeeee…, but this run reads data of hash dddddddddddddddd…"),
        ({"data": ""}, "data of hash none, but this run reads data of hash dddddddddddddddd…"),
        ({"code": {"my_vn.py": "f" * 64}}, "my_vn.py of hash ffffffffffffffff…, but now its hash is cccccccccccccccc…"),
        ({"code": {}}, "my_vn.py of hash <absent>, but now its hash is cccccccccccccccc…"),
    ],
)
def test_a_file_of_another_run_is_refused_by_the_field_that_differs(change: dict[str, Any], says: str) -> None:
    with pytest.raises(RecordError) as caught:
        RUN.require({**RUN.facts(), **change}, PATH, REMEDY)
    assert str(caught.value) == f"runs/toy.json: made with {says}. Use another --out."


def test_a_hash_that_one_side_does_not_know_is_not_compared() -> None:
    RUN.require(RUN.facts(), PATH, REMEDY)
    RUN.require({**RUN.facts(), "data": None, "code": None}, PATH, REMEDY)
    replace(RUN, data=None, code=None).require(RUN.facts(), PATH, REMEDY)
    older = {name: value for name, value in RUN.facts().items() if name not in ("data", "code")}
    RUN.require(older, PATH, REMEDY)
    # Of whose it is there must be no doubt.
    del older["seed"]
    with pytest.raises(RecordError, match=r"toy\.json: names no seed, as it was written by an older version\. Use"):
        RUN.require(older, PATH, REMEDY)


def test_a_config_field_that_a_file_lacks_counts_as_its_default() -> None:
    run = replace(RUN, config={**RUN.config, "pool": "sum"}, defaults={"pool": "mean"})
    with pytest.raises(RecordError, match="made with pool='mean', but this run asks for pool='sum'"):
        run.require(RUN.facts(), PATH, REMEDY)
    replace(run, defaults={"pool": "sum"}).require(RUN.facts(), PATH, REMEDY)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Modules that import each other, absolutely and relatively, and one that nobody imports."""
    files = {
        "identity_vn.py": "import torch\nfrom identity_parts import layers\n",
        "identity_parts/__init__.py": "",
        "identity_parts/layers.py": "from .deep import scale\nfrom . import shape\n",
        "identity_parts/deep.py": "import identity_last\nscale = 2\n",
        "identity_parts/shape.py": "def late():\n    import mooring\n    from .. import nothing\n",
        "identity_last.py": "import identity_vn\n",
        "identity_other.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("imported", [False, True])
def test_user_code_is_the_module_and_what_it_imports_beside_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, imported: bool
) -> None:
    if imported:
        module = ModuleType("identity_vn")
        module.__file__ = str(folder / "identity_vn.py")
        monkeypatch.setitem(sys.modules, "identity_vn", module)
    before = code_hashes(["identity_vn"])
    assert list(before) == [
        "identity_last.py",
        *(f"identity_parts/{name}.py" for name in ("__init__", "deep", "layers", "shape")),
        "identity_vn.py",
    ]
    (folder / "identity_parts" / "deep.py").write_text("scale = 3\n")
    assert differing_field(before, code_hashes(["identity_vn"])) == "identity_last.py"  # no longer imported
    (folder / "identity_parts" / "deep.py").write_text("import identity_last\nscale = 3\n")
    assert differing_field(before, code_hashes(["identity_vn"])) == "identity_parts/deep.py"
    assert code_hashes(["identity_parts.layers"]).keys() == before.keys()


def test_code_of_python_of_this_library_and_of_nobody_is_left_out() -> None:
    assert code_hashes(["abc", "builtins", "typing", "mooring.nn", "no_such_module", "no..module", "k=3"]) == {}


def test_of_an_installed_package_the_file_is_taken_alone() -> None:
    path = Path(sysconfig.get_path("purelib")) / "torch_geometric" / "nn" / "__init__.py"
    assert path.is_file()
    assert list(code_hashes(["torch_geometric.nn"])) == ["torch_geometric/nn/__init__.py"]
