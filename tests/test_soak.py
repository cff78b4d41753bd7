"""The soak finds what it looks for: a wrong op of every kind is caught, and a right one is not accused."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mooring import ops
from mooring.ops import Plan, SlotState, plain
from mooring.ops.state import all_neginf, anchored, merge
from mooring.ops.tiles import layout
from support import run_script

SOAK = Path(__file__).parent / "soak"
sys.path.insert(0, str(SOAK))

import generated  # noqa: E402
import kinds  # noqa: E402
import parts  # noqa: E402
import reports  # noqa: E402

import soak  # noqa: E402

Write = Callable[..., SlotState]
NEVER = float("-inf")
INPUTS = 200


def right(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    index: Tensor | None = None,
    *,
    num_graphs: int | None = None,
    log_weight: Tensor | None = None,
    where: Tensor | None = None,
    shift: Tensor | None = None,
    hide: bool = True,
    top_of: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None,
) -> SlotState:
    """The write in a few dense lines, with the places at which it can be made wrong."""
    dtype = torch.float32 if key.dtype == torch.bfloat16 else key.dtype
    heads, count = query.size(1), len(key)
    index = torch.zeros(count, dtype=torch.long) if index is None else index
    graphs = 1 if num_graphs is None else num_graphs
    weight = torch.zeros(count, dtype=dtype) if log_weight is None else log_weight.to(dtype)
    writes = ~weight.isneginf() if where is None else ~weight.isneginf() & where
    key, value = (tensor.to(dtype).expand(-1, heads, -1) for tensor in (key, value))
    if hide:
        key, value = (torch.where(writes[:, None, None], tensor, 0.0) for tensor in (key, value))
    scores = torch.einsum("mhd,nhd->nmh", query.to(dtype), key) + torch.where(writes, weight, 0.0)[:, None, None]
    scores = (scores if shift is None else scores + shift[:, None, None]).masked_fill(~writes[:, None, None], NEVER)
    top = scores.new_full((graphs, *scores.shape[1:]), NEVER)
    top = top.scatter_reduce(0, index[:, None, None].expand_as(scores), scores.detach(), "amax")
    top = torch.where(top.isneginf(), 0.0, top) if top_of is None else top_of(top, scores.detach(), index)
    weights = (scores - top[index]).exp()
    mass = torch.zeros_like(top).index_add(0, index, weights)
    total = value.new_zeros(*top.shape, value.size(-1)).index_add(0, index, weights.unsqueeze(-1) * value.unsqueeze(1))
    empty = mass == 0
    content = total / torch.where(empty, 1.0, mass).unsqueeze(-1)
    log_mass = torch.where(empty, NEVER, torch.where(empty, 1.0, mass).log() + top)
    return SlotState(content, log_mass)


def zero_for_no_maximum(*args: Any, **kwargs: Any) -> SlotState:
    """A running maximum that is zero after a tile which nobody writes from, so that later scores may vanish."""

    def top_of(top: Tensor, scores: Tensor, index: Tensor) -> Tensor:
        for graph in range(len(top)):
            first = scores[index == graph][: layout.TILE]
            if bool(first.isneginf().all()):
                top[graph] = top[graph].clamp(min=0.0)
        return top

    return right(*args, **kwargs, top_of=top_of)


def by_position(query: Tensor, key: Tensor, *args: Any, **kwargs: Any) -> SlotState:
    return right(query, key, *args, **kwargs, shift=1e-2 * torch.arange(len(key)))


def across_graphs(*args: Any, **kwargs: Any) -> SlotState:
    state = right(*args, **kwargs)
    return SlotState(state.content + 1e-2 * state.content.sum(dim=0, keepdim=True), state.log_mass)


def times_zero(*args: Any, **kwargs: Any) -> SlotState:
    return right(*args, **kwargs, hide=False)


def not_quite(*args: Any, **kwargs: Any) -> SlotState:
    state = right(*args, **kwargs)
    return SlotState(1.01 * state.content, state.log_mass)


def wrong_slope(*args: Any, **kwargs: Any) -> SlotState:
    state = right(*args, **kwargs)
    return SlotState(state.content + 0.01 * (state.content - state.content.detach()), state.log_mass)


def nothing_over_nothing(*args: Any, **kwargs: Any) -> SlotState:
    state = right(*args, **kwargs)
    nothing = state.log_mass.isneginf().unsqueeze(-1)
    return SlotState(torch.where(nothing, float("nan"), state.content), state.log_mass)


def refused(*args: Any, **kwargs: Any) -> SlotState:
    raise RuntimeError("no")


WRONG: list[tuple[Write, str]] = [
    (zero_for_no_maximum, "order"),
    (by_position, "order"),
    (across_graphs, "leak"),
    (times_zero, "left_out"),
    (times_zero, "non_finite"),
    (nothing_over_nothing, "non_finite"),
    (not_quite, "oracle"),
    (wrong_slope, "oracle"),
    (refused, "raised"),
]


def found() -> Iterator[str]:
    return (fault for number in range(INPUTS) for fault, _ in generated.checked(number, Counter()))


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch) -> Callable[[Write], Iterator[str]]:
    """The faults found in inputs to writes and merges when this is the write."""

    def with_write(write: Write) -> Iterator[str]:
        monkeypatch.setattr(ops, "write", write)
        monkeypatch.setattr(generated, "pick", lambda draw: draw.pick(("write", "write shared", "merge")))
        monkeypatch.setattr(kinds, "RATES", {})
        return found()

    return with_write


@pytest.mark.parametrize(("write", "fault"), WRONG, ids=lambda one: getattr(one, "__name__", one))
def test_a_wrong_write_is_caught(find: Callable[[Write], Iterator[str]], write: Write, fault: str) -> None:
    assert fault in find(write)


def unweighted(*states: SlotState) -> SlotState:
    contents = torch.stack([state.content for state in states])
    return SlotState(contents.mean(dim=0), merge(*states).log_mass)


def heaviest(*states: SlotState) -> SlotState:
    masses = torch.stack([state.log_mass for state in states])
    return SlotState(merge(*states).content, masses.amax(dim=0))


def detached(*states: SlotState) -> SlotState:
    return merge(*(SlotState(state.content, state.log_mass.detach()) for state in states))


def swapped(state: SlotState, anchor_logit: Tensor, anchor_value: Tensor) -> Tensor:
    return anchored(SlotState(state.content, -state.log_mass), -anchor_logit, anchor_value)


def with_negated_anchor(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda state, anchor_logit, *rest: op(state, -anchor_logit, *rest)


def without_weight(
    query: Tensor, key: Tensor, value: Tensor | None, log_weight: Tensor | None, where: Tensor | None, plan: Plan
) -> tuple[Tensor, Tensor]:
    """The plain write that leaves out the nodes of weight zero and takes all others for one."""
    if log_weight is not None:
        where = ~all_neginf(log_weight) & (True if where is None else where)
    return plain_write(query, key, value, None, where, plan)


plain_write, original_plan = plain.write, ops.plan
PLANTED: dict[str, tuple[object, str, Any]] = {
    "unweighted merge": (ops, "merge", unweighted),
    "merge that keeps the largest mass": (ops, "merge", heaviest),
    "merge without gradients of the masses": (ops, "merge", detached),
    "anchor and content swapped": (ops, "anchored", swapped),
    **{
        f"{name} of the negated anchor": (ops, name, with_negated_anchor(getattr(ops, name)))
        for name in ("anchored", "anchor_weight", "log_odds", "softplus_odds")
    },
    "plain write without weights": (plain, "write", without_weight),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_merge_anchor_or_weight_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*PLANTED[name])
    assert "oracle" in found()


def without_tangent(*args: Any) -> Tensor:
    z = anchored(*args)
    return z.detach() if torch._C._are_functorch_transforms_active() else z


def aliasing(batch: Tensor | None = None, **options: Any) -> Plan:
    """A plan that holds the tensor it was made of."""
    plan = original_plan(batch, **options)
    return replace(plan, batch=batch) if "ptr" not in options else replace(plan, ptr=options["ptr"])


def other_program(name: str) -> tuple[Callable[..., Tensor], Callable[..., Tensor], int]:
    return lambda x, batch, **options: x, lambda x, batch: x + 1.0, 3


MISUSED: dict[str, tuple[str, tuple[object, str, Any]]] = {
    "tangents": ("tangent", (ops, "anchored", without_tangent)),
    "changed batch": ("plan", (ops, "plan", aliasing)),
    "exported": ("exported", (kinds, "program", other_program)),
    "strings": ("accepted", (kinds, "BOOLEANS", {"module": bool})),
}


@pytest.mark.parametrize("kind", MISUSED)
def test_a_fault_in_a_further_use_of_an_input_is_caught(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, planted = MISUSED[kind]
    monkeypatch.setattr(*planted)
    monkeypatch.setattr(kinds, "RATES", {kind: 0.5})
    assert fault in found()


@pytest.mark.parametrize("name", kinds.BOOLEANS)
@pytest.mark.usefixtures("as_users_run_it")
def test_booleans_are_accepted_and_strings_are_not(name: str) -> None:
    """Without the first, the soak would take the refusal of anything for that of a string."""
    kinds.BOOLEANS[name](True)  # type: ignore[arg-type]
    assert not list(kinds.accepted(name, "False"))


@pytest.mark.parametrize("name", ["SlotVirtualNode addressed", "SlotAggregation"])
@pytest.mark.usefixtures("as_users_run_it")
def test_an_exported_program_is_its_module_without_nodes_too(name: str) -> None:
    assert not list(kinds.exported(name, generated.Draw(0)))


def test_a_right_write_is_not_accused(find: Callable[[Write], Iterator[str]]) -> None:
    assert not list(find(right))


def test_three_hundred_inputs(tmp_path: Path) -> None:
    run_script(SOAK / "generated.py", "--inputs", "300", "--out", str(tmp_path))
    (record,) = tmp_path.glob("*.json")
    state = json.loads(record.read_text())["state"]
    assert state["counts"] == {"inputs": 300, **dict.fromkeys(generated.FAULTS, 0)}
    assert {kind for kind, count in state["tried"].items() if count} >= {
        "no nodes",
        "gaps in ids",
        "weights of another dtype",
        "tangents",
        "tangents without nodes",
        "changed batch",
        "strings",
    }


def test_a_stopped_soak_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def checked(number: int, tried: Counter[str]) -> list[tuple[str, str]]:
        if len(seen) == 5:
            raise KeyboardInterrupt
        seen.append(number)
        tried["gaps in ids"] += number % 2
        return [("leak", "by_node")] if number == 1 else []

    monkeypatch.setattr(generated, "checked", checked)
    monkeypatch.setattr(generated, "SAVE_EVERY", 1)
    part = parts.Part(tmp_path / "part.json", {"inputs": 9})
    with pytest.raises(KeyboardInterrupt):
        generated.soak(9, 0, part)
    assert seen == [0, 1, 2, 3, 4]
    seen.clear()
    state = generated.soak(9, 0, part)
    assert seen == [5, 6, 7, 8]
    assert state["counts"]["inputs"] == 9
    assert state["counts"]["leak"] == 1
    assert state["tried"] == {"gaps in ids": 4}
    assert state["failures"] == [{"replay": 1, "faults": ["leak: by_node"]}]
    assert parts.Part(part.path, {"inputs": 10}).load() is None


def test_shards_share_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(generated, "checked", lambda number, tried: seen.append(number) or [])
    for mine in range(3):
        generated.soak(10, 7, None, (mine, 3))
    assert sorted(seen) == [7 * 10**9 + at for at in range(10)]


def test_a_command_that_falls_over_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "mooring"
    script = "import sys\n{}[open(sys.argv[2] + '/record.json').read()]\n"
    command.write_text(f"#!{sys.executable}\n{script}")
    command.chmod(0o755)
    monkeypatch.setattr(reports, "COMMAND", command)
    state = reports.soak(lambda: iter([("empty", b""), ("odd", b"odd")]), None)
    assert state["kinds"] == ["empty", "odd"]
    assert state["tracebacks"] == {"empty": "KeyError: ''", "odd": "KeyError: 'odd'"}


def test_the_record_adds_the_parts_up(tmp_path: Path) -> None:
    for at in range(2):
        counts = {"inputs": 5, "leak": at}
        state = {"counts": counts, "tried": {"exported": 2}, "failures": [{"replay": at}] * at, "seconds": 1.5}
        parts.Part(tmp_path / f"generated-{at}.json", {"what": "generated", "seed": 0}).save(state)
    state = {"kills": 3, "runs": 2, "different": [{"run": 1}], "seconds": 2.0}
    parts.Part(tmp_path / "kills.json", {"what": "kills", "task": "motifs", "seed": 0}).save(state)
    parts.Part(tmp_path / "other.json", {"what": "kills", "task": "linksets", "seed": 1}).save(state)
    parts.Part(tmp_path / "reports.json", {"what": "reports"}).save({"kinds": ["a"], "tracebacks": {}, "seconds": 0.0})
    state = {"tests": 7, "errors": ["AddressSanitizer"], "seconds": 0.5}
    parts.Part(tmp_path / "sanitizers.json", {"what": "sanitizers"}).save(state)
    total = soak.collect(tmp_path, 0)
    assert total["parts"] == 5
    assert total["counts"]["generated"] == {"inputs": 10, "leak": 1}
    assert total["counts"]["tried"] == {"exported": 4}
    assert total["counts"]["kills"] == {"tasks": {"motifs": 3}, "kills": 3, "runs": 2, "different": 1}
    assert total["counts"]["reports"] == {"kinds": 1, "tracebacks": 0}
    assert total["counts"]["sanitizers"] == {"tests": 7, "errors": 1}
    assert total["failures"] == [{"replay": 1}, {"task": "motifs", "run": 1}, {"native": "AddressSanitizer"}]
    assert total["seconds"] == 5.5
