"""The examples run, in seconds, and show what they say."""

import re
import runpy
from collections.abc import Callable

import pytest

from support import ROOT, run_script


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


def test_count() -> None:
    attention, read, weight, mass = run_script(ROOT / "examples" / "count.py").splitlines()
    assert numbers(attention)[0] == 0.0
    assert numbers(read)[0] > 0.01
    assert numbers(weight)[1] < numbers(weight)[0]
    assert numbers(mass)[0] == numbers(mass)[1]


def test_drop_in() -> None:
    """The message passing alone cannot know; one state for all colours helps little; slots know."""
    _, none, single, slots = run_script(ROOT / "examples" / "drop_in.py").splitlines()
    assert numbers(slots)[0] < 0.5 * numbers(single)[0] < 0.5 * numbers(none)[0]


@pytest.fixture
def shown(as_users_run_it: None, capsys: pytest.CaptureFixture[str]) -> Callable[[str], list[list[float]]]:
    """The numbers in each line that an example prints, run in this process: PyG is imported already."""

    def run(name: str) -> list[list[float]]:
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
        return [numbers(line) for line in capsys.readouterr().out.splitlines() if numbers(line)]

    return run


def test_force_field(shown: Callable[[str], list[list[float]]]) -> None:
    """How many bonds there are in all is for the memory."""
    messages, memory = shown("force_field")
    assert memory[0] < 0.7 * messages[0]
    assert memory[1] < 0.6 * messages[1]


def test_hetero(shown: Callable[[str], list[list[float]]]) -> None:
    local, memory = shown("hetero")
    assert memory[0] < 0.4 * local[0]


def test_from_gps(shown: Callable[[str], list[list[float]]]) -> None:
    gps, slots = shown("from_gps")
    assert slots[-3] < 0.6 * gps[-3]
    assert slots[-2] < gps[-2]
    assert gps[-1] > 1e-2, "BatchNorm"


def test_neighbor_loader(shown: Callable[[str], list[list[float]]]) -> None:
    without, weighted = shown("neighbor_loader")
    assert weighted[0] < 0.5 * without[0]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_lightning_module(shown: Callable[[str], list[list[float]]]) -> None:
    pytest.importorskip("lightning", reason="lightning is of the suite: pip install 'mooring[suite]'")
    ((accuracy,),) = shown("lightning_module")
    assert accuracy > 0.85


@pytest.mark.filterwarnings("ignore")  # of chemprop, RDKit and GraphGym
@pytest.mark.parametrize(
    ("name", "package", "ratio"), [("chemprop_slots", "chemprop", 0.5), ("graphgym_slots", "yacs", 0.6)]
)
def test_other_libraries(name: str, package: str, ratio: float, shown: Callable[[str], list[list[float]]]) -> None:
    pytest.importorskip(package, reason=f"pip install 'mooring[{name.removesuffix('_slots')}]'")
    without, slots = shown(name)
    assert slots[-1] < ratio * without[-1]
