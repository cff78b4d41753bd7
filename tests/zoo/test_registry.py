"""Names, titles and papers."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mooring import zoo
from mooring.nn import SlotVirtualNode, VirtualNode
from mooring.zoo import registry

# What records and tables refer to; a name once given stays.
EXPECTED = [
    *("none", "vn", "vn-joint", "vn-sum", "vn-log-sum", "vn-max", "vn-clones"),
    *("cross-attn", "anchored", "cross-attn-global-film", "anchored-global-film", "anchored-raw", "moored"),
    *("vn-independent", "wide-vn-add", "wide-vn-film", "wide-vn-mlp", "wide-vn-film-sum", "wide-vn-mlp-sum"),
    *("wide-vn-deep-sum", "wide-vn-mask-sum", "wide-vn-bilinear-sum"),
    *("lse", "shared-anchor", "registers", "sink", "acam", "cpa-add", "cpa-scale"),
    *("gmt", "gmt-mass", "slot-attention", "isab", "perceiver", "range", "transformer", "performer", "exphormer"),
    *("pna", "deep-sets", "gin-sum", "physics-attention", "physics-slices"),
]


def test_names_and_their_order() -> None:
    assert zoo.names() == EXPECTED


@pytest.mark.parametrize("name", EXPECTED)
def test_every_entry_says_what_it_is_and_where_it_is_from(name: str) -> None:
    entry = zoo.entry(name)
    assert entry.title
    assert entry.title.strip() == entry.title
    assert any(year in entry.paper for year in map(str, range(2015, 2027)))


def test_titles_are_distinct() -> None:
    titles = [zoo.entry(name).title for name in zoo.names()]
    assert len(set(titles)) == len(titles)


def test_tables_have_a_label_and_a_place_for_every_entry() -> None:
    entries = [zoo.entry(name) for name in zoo.names()]
    assert [entry.order for entry in entries] == list(range(len(entries)))
    labels = {entry.name: entry.label for entry in entries}
    assert len(set(labels.values())) == len(labels)
    assert (labels["vn-sum"], labels["gmt"]) == ("VN, sum", "gmt")
    own = zoo.entry("mooring.nn:VirtualNode")
    assert (own.label, own.order) == ("mooring.nn:VirtualNode", len(entries))


def test_a_near_miss_is_suggested() -> None:
    with pytest.raises(ValueError, match="unknown module 'wide-vn-flim'; did you mean 'wide-vn-film'"):
        zoo.build("wide-vn-flim", zoo.MemorySpec(channels=8))


@pytest.mark.parametrize(
    ("name", "spec", "words"),
    [
        (None, zoo.MemorySpec(channels=8), "zoo: name is None, expected the name of a module"),
        (3, zoo.MemorySpec(channels=8), "zoo: name is 3, expected the name of a module"),
        ("anchored", None, "zoo: channels is None but a width or a MemorySpec was expected"),
        ("vn", "8", r"zoo: channels is '8' but a width or a MemorySpec was expected. Pass zoo.build\('vn', 64\)"),
    ],
)
def test_what_nothing_is_built_from(name: Any, spec: Any, words: str) -> None:
    with pytest.raises(TypeError, match=f"^{words}"):
        zoo.build(name, spec)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_width_and_options_build_what_a_spec_builds(name: str) -> None:
    spec = zoo.MemorySpec(channels=16, slots=4, temperature=0.5)
    assert repr(zoo.build(name, 16, slots=4, temperature=0.5)) == repr(zoo.build(name, spec))


@pytest.mark.parametrize(
    ("channels", "options", "words"),
    [
        (16, {"slot": 4}, "zoo: moored has no option 'slot'; did you mean 'slots'"),
        (zoo.MemorySpec(channels=16), {"slots": 4}, "zoo: got a MemorySpec and slots beside it"),
    ],
)
def test_options_that_do_not_go_there_are_named(channels: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        zoo.build("moored", channels, **options)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_module_is_built_from_a_spec(name: str) -> None:
    found: Any = zoo.entry(name).build
    if inspect.isclass(found):
        with pytest.raises(TypeError, match=f"^{found.__name__}: spec is 8 but a MemorySpec was expected"):
            found(8)


@pytest.mark.usefixtures("own_registry")
def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="'gmt' is already registered"):
        zoo.register("gmt", title="another", paper="2026")(lambda spec: None)


def test_a_name_of_the_zoo_is_taken_before_its_file_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", {})
    with pytest.raises(ValueError, match="'gmt' is already registered"):
        zoo.register("gmt", title="another", paper="2026")(lambda spec: None)
    assert zoo.names() == EXPECTED


@pytest.mark.usefixtures("own_registry")
def test_what_a_user_registers_comes_after_the_zoo() -> None:
    for name in ("mine", "yours"):
        zoo.register(name, title=name, paper="2026")(lambda spec: nn.Identity())
    assert zoo.names() == [*EXPECTED, "mine", "yours"]
    assert [zoo.entry(name).order for name in ("mine", "yours")] == [len(EXPECTED), len(EXPECTED) + 1]
    with pytest.raises(ValueError, match="'mine' is already registered"):
        zoo.register("mine", title="again", paper="2026")(lambda spec: None)


def test_every_file_of_the_zoo_registers_the_names_it_is_listed_with() -> None:
    for file, *names in registry.FILES:
        assert {zoo.entry(name).build.__module__ for name in names} == {f"mooring.zoo.{file}"}
    listed = {f"{file}.py" for file, *_ in registry.FILES} | {"__init__.py", "base.py", "budget.py", "registry.py"}
    assert {path.name for path in Path(registry.__file__).parent.glob("*.py")} == listed


def test_a_module_is_imported_when_it_is_first_asked_for() -> None:
    code = """
import sys
from mooring import zoo
zoo.names(), zoo.build("anchored", zoo.MemorySpec(channels=8))
print(sorted(name.removeprefix("mooring.zoo.") for name in sys.modules if name.startswith("mooring.zoo.")))
zoo.entry("lse")
print("mooring.zoo.counting" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['baselines', 'registry']", "True"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mooring.nn:VirtualNode", VirtualNode),
        ("mooring.nn:SlotVirtualNode", SlotVirtualNode),
        ("mooring.zoo.counting:LogMassVirtualNode", nn.Module),
    ],
)
def test_an_import_name_needs_no_registration(name: str, kind: type) -> None:
    spec = zoo.MemorySpec(channels=12, slots=5, heads=3)
    found = zoo.entry(name)
    assert found.name == name
    module = found.build(spec)
    assert isinstance(module, kind)
    # In float64: some processors lose float32 kernels once bfloat16 was tried, as an audit does.
    assert module.double()(torch.randn(7, 12).double()).shape == (7, 12)
    assert zoo.size(name, spec) > 0
    assert name not in zoo.names()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mooring.nn:SlotVirtualNod", "mooring.nn has no 'SlotVirtualNod'; did you mean 'SlotVirtualNode'"),
        ("no_such_module:VN", "cannot import 'no_such_module'"),
        ("math:pi", "math:pi is float, expected a class or a function"),
        ("torch.nn:Linear", r"torch.nn:Linear takes \(in_features, .*expected one argument `spec`"),
        ("torch_geometric.nn:SumAggregation", "expected one argument `spec`"),
    ],
)
def test_an_import_name_that_builds_no_module_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        zoo.entry(name)
