"""Record files that no run writes: each kind of damage, mistake and malice that a report must survive.

This module needs nothing but the standard library, so that any script may use it:

    for name, content in hostile_records():     # unusable: must be left out, and named
        (folder / f"{name}.json").write_bytes(content)
    for name, content in strange_records():     # odd but usable: must be shown, and harmless
        (folder / f"{name}.json").write_bytes(content)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

Json = dict[str, Any]
HALF = "\ud800"  # the first half of a surrogate pair, which is no character


def run(task: str = "two-radius", **changes: Any) -> Json:
    """A sound run record, small but with every diagnostic of its task."""
    config: Json = {"learning_rate": 1e-4, "num_identifiers": 12, "scales": [1, 2, 3], "slots": 4, "channels": 8}
    final: Json = {}
    diagnostics: Json = {}
    if task == "two-radius":
        weights = [[0.7, 0.3], [0.2, 0.8]]
        diagnostics = {
            "count_accuracy_by_scale": {"1": 0.5, "2": 0.25, "3": 0.25},
            "count_confusion": [[3, 1], [1, 3]],
            "state_distance": {"scales": [1, 2, 3], "max": [0.0, 0.5, 0.7], "mean": [0.0, 0.4, 0.5]},
            "write_weights": weights,
            "read_weights": weights,
            "anchor_weights": {"1": [0.5, 0.5], "2": [0.3, 0.3]},
        }
    if task == "motifs":
        final = {f"{split}/{name}": 0.25 for split in ("iid", "jittered") for name in ("log_mae", "log_r2", "exact")}
        diagnostics = {
            "per_motif": {"iid": {"star": {"log_mae": 0.25}}},
            "error_by_count": {"iid": {"count": [0, 2, 4], "log_mae": [0.1, 0.2, 0.3]}},
            "replication_change": 0.5,
        }
    if task == "linksets":
        final = {"test/f1": 0.5, "test/violations_degree": 0.1, "test/decoded_violations_degree": 0.0}
        diagnostics = {"calibration": {"confidence": [0.1, 0.9], "frequency": [0.2, 0.8], "weight": [5, 1]}}
    if task == "two-radius-original":
        final = {"test/label": 0.5}
    best = {"label": 0.5, "count": 0.25, "both": 0.125, "graph": 0.0, "log_mae": 0.25, "f1": 0.5}
    record = {
        "schema": 1,
        "kind": "run",
        "task": task,
        "model": "vn",
        "seed": 90,
        "preset": "hostile",
        "config": config,
        "metrics": {"best": best, "final": final, "epochs": [{"epoch": 0, **best}, {"epoch": 1, **best}]},
        "selected_epoch": 1,
        "diagnostics": diagnostics,
        "wall_seconds": 1.5,
        "parameters": {"total": 10, "memory": 5},
        "versions": {"python": "3.11.2"},
        "git_commit": "0123456789abcdef",
    }
    return record | changes


def audit(**changes: Any) -> Json:
    """A sound audit card."""
    finding = {"name": "replication", "verdict": "sees the count", "value": 1.0, "broken": False}
    return {"schema": 1, "kind": "audit", "module": "zoo.hostile", "findings": [finding]} | changes


def verify(**changes: Any) -> Json:
    """A sound verify record of one claim with one figure."""
    line = {"label": "bound", "y": [1.0, 2.0]}
    series = {"title": "bits", "x": [1, 2], "lines": [line], "xlabel": "n", "ylabel": "bits", "log": ""}
    claim = {
        "label": "thm:hostile",
        "statement": "something holds",
        "instances": 3,
        "margin": 0.5,
        "margin_means": "bits",
        "passed": True,
        "control": "something else",
        "control_failed": True,
        "series": [series],
    }
    return {"schema": 1, "kind": "verify", "claims": [claim | changes]}


def bench(**changes: Any) -> Json:
    """A sound bench record, of the name that the leaderboard takes its costs from."""
    row = {"shape": "1x200", "contestant": "zoo.anchored", "training_over_floor": 2.0, "extra_memory": 1.0}
    series = {"x": [1, 2], "lines": [{"label": "slots", "y": [1.0, 2.0]}], "xlabel": "n", "ylabel": "s", "log": "y"}
    return {
        "schema": 1, "kind": "bench", "name": "hostile", "machine": "a machine", "rows": [row], "series": [series],
    } | changes  # fmt: skip


def at(record: Json, path: str, value: Any) -> Json:
    """The record with one field changed; DELETE takes it out."""
    record = deepcopy(record)
    *outer, last = path.split("/")
    place: Any = record
    for key in outer:
        place = place[int(key)] if isinstance(place, list) else place[key]
    if value is DELETE:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return record


DELETE = object()


def hostile_records() -> Iterator[tuple[str, bytes]]:
    """(name, content) of files that are no usable records, each for another reason."""
    for name, content in {**_damaged(), **_oversized()}.items():
        yield name, content
    for name, record in {**_frames(), **_runs(), **_others()}.items():
        yield name, json.dumps(record).encode("utf-8")


def strange_records() -> Iterator[tuple[str, bytes]]:
    """(name, content) of records that are odd but usable; what they say is shown and nothing they say is obeyed."""
    for name, text in STRANGE.items():
        # Drawing is slow, so only those that could break a drawing or its file have all the figures.
        drawn = name in ("formula", "path", "letters", "comment")
        changes = {"preset": f"preset {text}"} if name in ("formula", "path") else {"diagnostics": {}}
        series = {} if drawn else {"series": []}
        yield f"strange-{name}", json.dumps(run(model=text, **changes)).encode("utf-8")
        yield f"strange-{name}-card", json.dumps(at(audit(module=text), "findings/0/verdict", text)).encode("utf-8")
        claim = verify(label=text, statement=text, control=text, **series)
        claim = at(claim, "claims/0/series/0/lines/0/label", text) if drawn else claim
        yield f"strange-{name}-claim", json.dumps(claim).encode("utf-8")
        yield f"strange-{name}-bench", json.dumps(bench(name=text, title=text, machine=text, **series)).encode("utf-8")


# Names that mean something to a browser, a terminal, a formula, a file system or a template.
STRANGE = {
    "script": "<script>alert(1)</script>",
    "image": '"><img src=x onerror=alert(1)>',
    "comment": "--><svg onload=alert(1)>",
    "entity": "&lt;script&gt;",
    "style": "</style><script>alert(1)</script>",
    "template": "{{ 7 * 7 }}{% raw %}",
    "formula": r"$\frac{$",
    "dollar": r"\$x^2$",
    "markup": "[/bold][link=x]",
    "path": "../../../escaped",
    "absolute": "/tmp/escaped",
    "address": "https://example.org/a.js",
    "format": "{0.__class__} %s %n",
    "letters": "模型 🚢",
}


def _damaged() -> dict[str, bytes]:
    sound = json.dumps(run()).encode("utf-8")
    return {
        "empty": b"",
        "blank": b" \n\t\n",
        "half": sound[: len(sound) // 2],
        "garbage": bytes(range(256)) * 4,
        "zeros": bytes(4096),
        "utf-16": json.dumps(run()).encode("utf-16"),
        "latin-1": sound.replace(b'"hostile"', b'"\xe9t\xe9"'),
        "byte-order-mark": b"\xef\xbb\xbf" + sound,
        "twice": sound + sound,
        "comma": sound[:-1] + b",}",
        "single-quotes": sound.replace(b'"', b"'"),
        "null": b"null",
        "number": b"17",
        "text": b'"run"',
        "list": b"[" + sound + b"]",
        "empty-object": b"{}",
        "pickle": b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
        "html": b"<!doctype html><title>404</title>",
        "merge-conflict": b"<<<<<<< HEAD\n" + sound + b"\n=======\n" + sound + b"\n>>>>>>> other\n",
        "large-file-pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n",
        "duplicate-field": sound.replace(b'"seed": 90', b'"seed": 90, "seed": 91'),
        "duplicate-inner-field": sound.replace(b'"label": 0.5', b'"label": 0.5, "label": 0.9'),
        "half-a-surrogate-pair": json.dumps(run(model=HALF)).encode("ascii"),
        "half-a-pair-in-a-field-name": json.dumps(run(config={HALF: 1})).encode("ascii"),
        "raw-surrogate": json.dumps(run(model=HALF), ensure_ascii=False).encode("utf-8", "surrogatepass"),
        "not-a-number-spelled-otherwise": sound.replace(b"1.5", b"nan"),
        "hexadecimal": sound.replace(b'"seed": 90', b'"seed": 0x5a'),
    }


def _oversized() -> dict[str, bytes]:
    sound = json.dumps(run()).encode("utf-8")
    return {
        "deep-lists": b"[" * 100_000 + b"]" * 100_000,
        "deep-objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        "deep-field": sound.replace(b'"slots": 4', b'"slots": ' + b"[" * 500 + b"]" * 500),
        "deep-enough-to-hurt": sound.replace(b'"slots": 4', b'"slots": ' + b"[" * 50 + b"]" * 50),
        "seed-of-5000-digits": sound.replace(b'"seed": 90', b'"seed": ' + b"9" * 5000),
        "seed-of-400-digits": sound.replace(b'"seed": 90', b'"seed": ' + b"9" * 400),
        "metric-of-400-digits": sound.replace(b'"label": 0.5', b'"label": ' + b"9" * 400),
        "float-beyond-floats": sound.replace(b'"label": 0.5', b'"label": 1e999'),
        "text-of-a-million-letters": json.dumps(run(model="x" * 1_000_000)).encode("utf-8"),
        "name-of-a-thousand-letters": json.dumps(run(model="x" * 1000)).encode("utf-8"),
    }


def _frames() -> dict[str, Json]:
    found: dict[str, Json] = {
        "schema-missing": at(run(), "schema", DELETE),
        "schema-2": run(schema=2),
        "schema-text": run(schema="1"),
        "schema-true": run(schema=True),
        "schema-float": run(schema=1.0),
        "schema-null": run(schema=None),
        "kind-missing": at(run(), "kind", DELETE),
        "kind-unknown": run(kind="runs"),
        "kind-list": run(kind=["run"]),
        "kind-object": run(kind={"run": 1}),
        "kind-of-another-record": run(kind="bench"),
        "name-empty": run(model=""),
        "name-blank": run(preset="   "),
        "name-with-newline": run(model="a\nb"),
        "name-with-nul": run(model="a\x00b"),
        "name-with-escape": run(model="\x1b[2J\x1b[31mred"),
        "name-right-to-left": run(model="\u202evn"),
        "seed-negative": run(seed=-1),
        "seed-float": run(seed=1.5),
        "seed-text": run(seed="0"),
        "seed-true": run(seed=True),
        "versions-list": run(versions=["3.11"]),
        "versions-text": run(versions="3.11"),
        "versions-of-lists": run(versions={"python": [3, 11]}),
        "commit-object": run(git_commit={"sha": "0"}),
        "commit-number": run(git_commit=7),
    }
    for field in ("task", "model", "preset", "config", "metrics", "seed"):
        found[f"{field}-missing"] = at(run(), field, DELETE)
        found[f"{field}-null"] = run(**{field: None})
    for field in ("task", "model", "preset", "config", "metrics", "diagnostics", "parameters"):
        found[f"{field}-a-number"] = run(**{field: 5})
        found[f"{field}-a-list"] = run(**{field: [1]})
    return found


def _runs() -> dict[str, Json]:
    found: dict[str, Json] = {}
    wrong: dict[str, Any] = {
        "text": "x",
        "list": [1],
        "object": {"a": 1},
        "true": True,
        "nan": float("nan"),
        "infinity": float("inf"),
        "minus-infinity": float("-inf"),
        "huge": 1e300,
    }
    for name, value in wrong.items():
        found[f"best-{name}"] = at(run(), "metrics/best/label", value)
        found[f"seconds-{name}"] = run(wall_seconds=value)
        found[f"motif-{name}"] = _slashed(run("motifs"), "iid/log_mae", value)
        found[f"link-{name}"] = _slashed(run("linksets"), "test/f1", value)
        found[f"original-{name}"] = _slashed(run("two-radius-original"), "test/label", value)
        found[f"leaderboard-{name}"] = at(run("two-radius-leaderboard"), "metrics/best/both", value)
    for name, value in {"text": "x", "zero": 0, "negative": -3, "float": 1.5, "huge": 2**62, "list": [12]}.items():
        found[f"identifiers-{name}"] = at(run(), "config/num_identifiers", value)
        found[f"capacity-slots-{name}"] = at(run("two-radius-permutation"), "config/slots", value)
        found[f"original-size-{name}"] = at(run("two-radius-original"), "config/num_identifiers", value)
    for name, value in {
        "text": "x", "empty": [], "texts": ["a"], "zero": [0], "number": 3, "nested": [[1]], "endless": [1] * 5000,
    }.items():  # fmt: skip
        found[f"scales-{name}"] = at(run(), "config/scales", value)
    found["base-count-endless"] = at(run(), "config/max_base_count", 10**12)
    changes: dict[str, tuple[str, Any]] = {
        "best-missing": ("metrics/best", DELETE),
        "best-null": ("metrics/best", None),
        "label-missing": ("metrics/best/label", DELETE),
        "label-null": ("metrics/best/label", None),
        "epochs-missing": ("metrics/epochs", DELETE),
        "epochs-empty": ("metrics/epochs", []),
        "epochs-numbers": ("metrics/epochs", [1, 2]),
        "epochs-object": ("metrics/epochs", {"0": {}}),
        "epoch-without-number": ("metrics/epochs/0/epoch", DELETE),
        "epoch-a-text": ("metrics/epochs/0/epoch", "first"),
        "epoch-nan": ("metrics/epochs/0/label", float("nan")),
        "seconds-missing": ("wall_seconds", DELETE),
        "selected-epoch-text": ("selected_epoch", "last"),
        "parameters-text": ("parameters/total", "many"),
        "parameters-missing": ("parameters", DELETE),
        "by-scale-list": ("diagnostics/count_accuracy_by_scale", [0.5, 0.5]),
        "by-scale-word": ("diagnostics/count_accuracy_by_scale", {"twice": 0.5}),
        "by-scale-text": ("diagnostics/count_accuracy_by_scale/1", "x"),
        "confusion-ragged": ("diagnostics/count_confusion", [[1, 2], [3]]),
        "confusion-text": ("diagnostics/count_confusion", [["a", "b"], ["c", "d"]]),
        "confusion-flat": ("diagnostics/count_confusion", [1, 2, 3]),
        "confusion-not-square": ("diagnostics/count_confusion", [[1, 2, 3], [4, 5, 6]]),
        "confusion-empty": ("diagnostics/count_confusion", [[]]),
        "confusion-nan": ("diagnostics/count_confusion", [[float("nan"), 1], [1, 1]]),
        "confusion-vast": ("diagnostics/count_confusion", [[1] * 600] * 600),
        "distance-text": ("diagnostics/state_distance", "far"),
        "distance-short": ("diagnostics/state_distance/max", [0.0]),
        "distance-of-texts": ("diagnostics/state_distance/max", ["a", "b", "c"]),
        "distance-nan": ("diagnostics/state_distance/max", [0.0, float("nan"), 1.0]),
        "distance-without-scales": ("diagnostics/state_distance/scales", DELETE),
        "write-weights-empty": ("diagnostics/write_weights", []),
        "write-weights-object": ("diagnostics/write_weights", {"a": 1}),
        "write-weights-infinite": ("diagnostics/write_weights", [[float("inf"), 1.0]]),
        "anchor-weights-list": ("diagnostics/anchor_weights", [[1.0]]),
        "anchor-weights-word": ("diagnostics/anchor_weights", {"one": [0.5]}),
        "anchor-weights-ragged": ("diagnostics/anchor_weights", {"1": [0.5, 0.5], "2": [0.5]}),
    }
    for name, (path, value) in changes.items():
        found[name] = at(run(), path, value)
    for name, (task, path, value) in {
        "per-motif-numbers": ("motifs", "diagnostics/per_motif/iid", {"star": 0.5}),
        "by-count-ragged": ("motifs", "diagnostics/error_by_count/iid/count", [1]),
        "by-count-texts": ("motifs", "diagnostics/error_by_count/iid/log_mae", ["a", "b", "c"]),
        "by-count-empty": ("motifs", "diagnostics/error_by_count/iid", {"count": [], "log_mae": []}),
        "calibration-list": ("linksets", "diagnostics/calibration", [1, 2]),
        "calibration-ragged": ("linksets", "diagnostics/calibration/weight", [1]),
        "calibration-texts": ("linksets", "diagnostics/calibration/weight", ["a", "b"]),
        "violations-text": ("linksets", "metrics/final", {"test/f1": 0.5, "test/violations_degree": "many"}),
    }.items():
        found[name] = at(run(task), path, value)
    return found


def _slashed(record: Json, key: str, value: Any) -> Json:
    """The record with one of its final metrics changed; their names hold a slash."""
    record = deepcopy(record)
    record["metrics"]["final"][key] = value
    return record


def _others() -> dict[str, Json]:
    made: dict[str, Callable[..., Json]] = {"audit": audit, "bench": bench}
    found: dict[str, Json] = {
        "audit-without-module": at(audit(), "module", DELETE),
        "audit-module-list": audit(module=["a"]),
        "audit-findings-object": audit(findings={"a": 1}),
        "audit-findings-texts": audit(findings=["fine"]),
        "audit-verdict-number": at(audit(), "findings/0/verdict", 3),
        "audit-without-verdict": at(audit(), "findings/0/verdict", DELETE),
        "audit-broken-text": at(audit(), "findings/0/broken", "no"),
        "verify-claims-object": {"schema": 1, "kind": "verify", "claims": {}},
        "verify-claims-texts": {"schema": 1, "kind": "verify", "claims": ["thm:lower"]},
        "verify-without-claims": {"schema": 1, "kind": "verify"},
        "verify-label-number": verify(label=3),
        "verify-passed-text": verify(passed="yes"),
        "verify-instances-text": verify(instances="many"),
        "verify-margin-text": verify(margin="wide"),
        "verify-margin-nan": verify(margin=float("nan")),
        "verify-series-object": verify(series={"x": [1]}),
        "verify-series-numbers": verify(series=[1]),
        "verify-series-without-x": at(verify(), "claims/0/series/0/x", DELETE),
        "verify-series-of-texts": at(verify(), "claims/0/series/0/x", ["a", "b"]),
        "verify-series-empty": at(verify(), "claims/0/series/0/x", []),
        "verify-lines-numbers": at(verify(), "claims/0/series/0/lines", [1]),
        "verify-line-short": at(verify(), "claims/0/series/0/lines/0/y", [1.0]),
        "verify-line-texts": at(verify(), "claims/0/series/0/lines/0/y", ["a", "b"]),
        "verify-line-infinite": at(verify(), "claims/0/series/0/lines/0/y", [1.0, float("inf")]),
        "verify-line-without-label": at(verify(), "claims/0/series/0/lines/0/label", DELETE),
        "bench-without-rows": at(bench(), "rows", DELETE),
        "bench-rows-object": bench(rows={"a": 1}),
        "bench-rows-numbers": bench(rows=[1, 2]),
        "bench-cell-list": at(bench(), "rows/0/extra_memory", [1]),
        "bench-cell-nan": at(bench(), "rows/0/extra_memory", float("nan")),
        "bench-cell-infinite": at(bench(), "rows/0/extra_memory", float("inf")),
        "bench-name-number": bench(name=5),
        "bench-title-object": bench(title={"a": 1}),
        "bench-series-text": bench(series="xy"),
    }
    for name, make in made.items():
        found[f"{name}-versions-text"] = make(versions="3.11")
        found[f"{name}-with-control-characters"] = make(machine="a\x07b")
    return found
