"""The mutants are the small faults they are said to be, and a survivor is one that no test notices."""

import json
import sys

import mutate
import pytest
from mutants import Mutant, mutants


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
    assert {mutant.source for mutant in mutants(code)} == expected


def test_a_returned_value_becomes_none_and_none_stays():
    assert {mutant.diff for mutant in mutants("def f(a):\n    return a\n")} == {"- return a\n+ return None"}
    assert not list(mutants("def f():\n    return None\n"))


def test_positions_count_bytes():
    (mutant,) = mutants("μ = a + b  # é")
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
        for mutant in mutants(source, "src/mooring/ops/add.py")
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
    hanging = Mutant("src/mooring/ops/add.py", 1, "while True:\n    pass\n", file.read_text())
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


FAULTS = [Mutant("src/mooring/ops/add.py", line, f"{line}", "0") for line in range(4)]
SURVIVORS = {1, 3}


@pytest.fixture
def sampled(monkeypatch):
    """Mutants that need no tests, two of the four survivors; the run is stopped before as many as are listed."""
    stops = []

    def examine(tried, depth):
        for mutant in tried:
            if stops and mutant.line == stops[0]:
                raise KeyboardInterrupt
            yield mutant, mutant.line in SURVIVORS, 60.0

    monkeypatch.setattr(mutate, "draw", lambda sample, seed, packages: FAULTS)
    monkeypatch.setattr(mutate, "examine", examine)
    monkeypatch.setattr(mutate, "commit", lambda: "abc")
    return stops


def start(monkeypatch, out, *arguments):
    monkeypatch.setattr(sys, "argv", ["mutate", "--sample", "4", "--out", str(out), *arguments])
    mutate.main()


def test_a_stopped_run_goes_on_where_it_stopped_and_leaves_the_old_record_until_then(
    tmp_path, monkeypatch, capsys, sampled
):
    out = tmp_path / "mutation.json"
    out.write_text("old")
    sampled.append(2)
    with pytest.raises(KeyboardInterrupt):
        start(monkeypatch, out, "--seed", "11")
    assert out.read_text() == "old"
    sampled.clear()
    capsys.readouterr()
    start(monkeypatch, out, "--seed", "11")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("3/4, 66.7 % noticed, about 0.02 h left, until ")
    assert lines[0].endswith(": killed src/mooring/ops/add.py:2 in 60 s")
    record = json.loads(out.read_text())
    assert {name: record[name] for name in ("seed", "sample", "planned", "killed", "share_killed")} == {
        "seed": 11,
        "sample": 4,
        "planned": 4,
        "killed": 2,
        "share_killed": 0.5,
    }
    assert [each["line"] for each in record["survivors"]] == [1, 3]
    assert [path.name for path in tmp_path.iterdir()] == ["mutation.json"]


@pytest.mark.parametrize("left", ["{", "{}", '{"what": {"seed": 11, "git_commit": "abc"}}'])
def test_what_another_run_left_is_not_taken_up(tmp_path, monkeypatch, left, sampled):
    out = tmp_path / "mutation.json"
    out.with_name("mutation.json.part").write_text(left)
    start(monkeypatch, out, "--seed", "11")
    assert json.loads(out.read_text())["sample"] == 4


def test_the_sample_is_of_the_seed_and_of_all_packages(monkeypatch):
    monkeypatch.setattr(mutate, "possible", lambda package: [Mutant(package, line, "1", "0") for line in range(50)])
    chosen, again, other = (mutate.draw(9, seed, ("theory", "nn")) for seed in (11, 11, 12))
    assert chosen == again != other
    assert sorted(mutant.path for mutant in chosen) == ["nn"] * 5 + ["theory"] * 4
