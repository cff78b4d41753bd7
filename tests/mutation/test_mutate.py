"""The mutants are the small faults they are said to be, and a survivor is one that no test notices."""

import sys

import mutate
import pytest


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("a < b <= c", {"(a <= b <= c)", "(a < b < c)"}),
        ("a + b * c", {"(a - b * c)", "a + (b / c)"}),
        ("a += b", {"a -= b"}),
        ("a and not b", {"(a or not b)", "a and (b)"}),
        ("f(-a)", {"pass", "f((a))"}),
        ("a = 3, 0.5, True", {"a = 4, 0.5, True", "a = 3, 1.5, True", "a = 3, 0.5, False"}),
        ("a = f(b, c, d=e)", {"a = (f(b, c))", "a = (f(c, b, d=e))"}),
        ("a = f(b, b)", set()),
        ("a = min(x.argmax())", {"a = max(x.argmax())", "a = min(x.argmin())"}),
        ("a.b = c", {"pass"}),
        ("a = b if c else d", {"a = b if (not (c)) else d"}),
        ("raise ValueError(3)", {"pass"}),
        ("a: list[3] = b", set()),
        ("f'{a + b}'", set()),
    ],
)
def test_mutants_of_a_line(code, expected):
    assert {mutant.source for mutant in mutate.mutants(code)} == expected


def test_a_returned_value_becomes_none_and_none_stays():
    assert {mutant.diff for mutant in mutate.mutants("def f(a):\n    return a\n")} == {"- return a\n+ return None"}
    assert not list(mutate.mutants("def f():\n    return None\n"))


def test_positions_count_bytes():
    (mutant,) = mutate.mutants("μ = a + b  # é")
    assert mutant.source == "μ = (a - b)  # é"


def test_tests_of_a_file_start_with_its_mirror_and_doctests():
    first, own, after = mutate.stages(mutate.ROOT, "src/mooring/suite/motifs/data/generator.py")
    assert first == ["tests/suite/motifs/data/test_generator.py", "src/mooring/suite/motifs/data/generator.py"]
    assert "tests/suite/motifs/data/test_recount.py" in own
    assert after == ["tests/suite/motifs"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of one function and one test, which looks at one of its two arguments."""
    for name in [name for name in sys.modules if name.split(".")[0] == "mooring"]:
        monkeypatch.delitem(sys.modules, name)
    root = tmp_path / "tree"
    for folder in ("src/mooring/ops", "tests/ops"):
        (root / folder).mkdir(parents=True)
    for package in ("src/mooring", "src/mooring/ops"):
        (root / package / "__init__.py").touch()
    (root / "pytest.ini").write_text("[pytest]\naddopts = --doctest-modules --import-mode=importlib\n")
    (root / "src/mooring/ops/add.py").write_text("def add(a, b=0):\n    return a + b + 0\n")
    (root / "tests/ops/test_add.py").write_text(
        "from mooring.ops.add import add\n\n\ndef test_add():\n    assert add(1) == 1\n"
    )
    return root


def test_a_survivor_is_what_no_test_notices_and_the_file_comes_back(project):
    file = project / "src/mooring/ops/add.py"
    source = file.read_text()
    fate = {
        mutant.diff.splitlines()[1]: mutate.survives(project, mutant, depth=2, limit=60.0)
        for mutant in mutate.mutants(source, "src/mooring/ops/add.py")
    }
    assert fate == {
        "+ def add(a, b=1):": False,
        "+ return None": False,
        "+ return (a + b - 0)": True,
        "+ return (a - b) + 0": True,
        "+ return a + b + 1": False,
    }
    assert file.read_text() == source


def test_a_mutant_that_hangs_is_noticed(project):
    file = project / "src/mooring/ops/add.py"
    hanging = mutate.Mutant("src/mooring/ops/add.py", 1, "while True:\n    pass\n", file.read_text())
    assert not mutate.survives(project, hanging, depth=2, limit=1.0)


def test_records_of_packages_run_apart_become_one():
    one = {
        "seed": 3,
        "git_commit": "abc",
        "sample": 5,
        "planned": 9,
        "killed": 3,
        "equivalent": [{}],
        "survivors": [{}],
    }
    other = {**one, "sample": 7, "planned": 7, "killed": 7, "equivalent": [], "survivors": []}
    joined = mutate.join([one, other])
    assert {name: joined[name] for name in ("sample", "planned", "killed", "share_killed")} == {
        "sample": 12,
        "planned": 12,
        "killed": 10,
        "share_killed": 0.9091,
    }
    with pytest.raises(SystemExit, match="differ in seed"):
        mutate.join([one, {**other, "seed": 4}])
