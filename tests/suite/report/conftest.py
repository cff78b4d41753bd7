"""Synthetic records in the form the runs write, with numbers simple enough to recompute by hand."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.suite.chapters import build_report
from mooring.suite.records import Records, load
from mooring.suite.report import Summary

SLOTS, EPOCHS = 12, 23
FINAL = {"mpnn": (0.083, 0.17), "vn": (0.085, 0.168), "cross-attn": (1.0, 0.303), "anchored": (1.0, 1.0)}
ERRORS = {"mean": 0.052, "sum": 0.012, "cross-attn": 0.057, "anchored": 0.006}
LINKS = {"none": 0.41, "vn": 0.52, "cross-attn": 0.60, "anchored": 0.68}
MOTIFS = ("triangle", "square", "star", "path", "clique", "diamond")
SPLITS = {"iid": 1, "counts": 4, "background": 1.2, "mixture": 1.5, "replicated": 5, "jittered": 6}


@pytest.fixture
def make_run() -> Callable[..., dict[str, Any]]:
    """The smallest run record of two-radius, with the given accuracies as fractions."""

    def make(model: str, seed: int, label: float, count: float, both: float, **changes: Any) -> dict[str, Any]:
        return run("two-radius", model, seed, "paper", {"label": label, "count": count, "both": both}) | changes

    return make


@pytest.fixture
def wide_runs(save: Callable[..., Path], make_run: Callable[..., dict[str, Any]]) -> Records:
    """Six identifiers: slots solved at both seeds, a wide state at none, at the better of two rates."""
    for model, rate, seed, both, epochs in [
        ("anchored", 1e-3, 100, [0.1, 1.0], 40),
        ("anchored", 3e-4, 100, [0.1, 0.2], 40),
        ("anchored", 1e-3, 0, [0.5, 1.0], 40),
        ("anchored", 1e-3, 1, [0.25, 0.5, 1.0], 40),
        ("wide-vn-add", 1e-3, 100, [0.1], 40),
        ("wide-vn-add", 3e-4, 100, [0.2], 40),
        ("wide-vn-add", 3e-4, 0, [0.2] * 40, 40),
        ("wide-vn-add", 3e-4, 1, [0.4] * 40, 40),
        ("wide-vn-mlp", 1e-3, 100, [0.1], 40),
        ("wide-vn-add", 1e-3, 0, [0.75] * 400, 400),
    ]:
        config = {"slots": 6, "channels": 8, "num_identifiers": 6, "learning_rate": rate}
        config |= {"epochs": epochs, "steps_per_epoch": 50}
        made = make_run(model, seed, 1.0, 1.0, both[-1], task="two-radius-leaderboard", preset="wide", config=config)
        made["metrics"]["epochs"] = [{"epoch": epoch, "both": value} for epoch, value in enumerate(both)]
        path = save(made, f"{model}-{rate}-{seed}-{epochs}.json")
    return load([path.parent])


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with records of every kind, five seeds of the main task."""
    return write_everything(tmp_path_factory.mktemp("everything"))


@pytest.fixture(scope="session")
def summary(everything: Path, tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """The page of all these records."""
    return build_report([everything], tmp_path_factory.mktemp("page") / "deep" / "report.html")


def run(task: str, model: str, seed: int, preset: str, best: dict[str, float], **parts: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "kind": "run",
        "task": task,
        "model": model,
        "seed": seed,
        "preset": preset,
        "config": parts.get("config", {"learning_rate": 1e-4, "num_identifiers": 12, "scales": [1, 2, 3]}),
        "metrics": {
            "best": best,
            "final": parts.get("final", {}),
            "epochs": parts.get("epochs", [{"epoch": 0, **best}]),
        },
        "selected_epoch": parts.get("selected_epoch", 0),
        "diagnostics": parts.get("diagnostics", {}),
        "wall_seconds": 61.5,
        "parameters": {"total": 331_160, "memory": 98_304},
        "versions": {"python": "3.11.2", "torch": "2.13.0", "torch_geometric": "2.7.0"},
        "git_commit": "0123456789abcdef",
    }


def write_everything(folder: Path) -> Path:
    def write(data: dict[str, Any], name: str) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data), encoding="utf-8")

    for seed in range(5):
        for model in FINAL:
            write(counted(model, seed), f"two-radius/paper/{model}-seed{seed}.json")
        for model, error in ERRORS.items():
            write(census(model, seed, error), f"motifs/full/{model}-seed{seed}.json")
        for model, score in LINKS.items():
            write(links(model, seed, score), f"linksets/full/{model}-seed{seed}.json")
    for slots in (1, 2, 4, 8, 16):
        for width in (4, 8, 16, 32):
            write(permutation(slots, width), f"two-radius-permutation/grid/anchored-{slots}-{width}.json")
    for model, drop in {"gcn": 0.7, "gin": 0.8, "gat": 0.2, "gcn+vn-sum": 0.6, "gcn+anchored": 0.003}.items():
        for size in (10, 50, 100, 150, 200):
            write(original(model, size, drop), f"two-radius-original/full/{model}-{size}.json")
    write(verify(), "verify.json")
    for name, card in cards().items():
        write(card, f"audit/{name}.json")
    write(bench(), "bench/peers.json")
    return folder


def counted(model: str, seed: int) -> dict[str, Any]:
    noise = random.Random(f"{model}{seed}")
    label, count = FINAL[model]
    rows = []
    for epoch in range(EPOCHS):
        grown = [
            start + (end - start) / (1 + math.exp(-(epoch - middle - noise.random()) / 1.2))
            for start, end, middle in ((1 / 12, label, 6), (1 / 12, count, 13))
        ]
        wobble = [min(1.0, max(0.0, value + noise.gauss(0, 0.006))) for value in grown]
        rows.append({"epoch": epoch, "label": wobble[0], "count": wobble[1], "both": wobble[0] * wobble[1]})
    best = {
        "label": label,
        "count": min(1.0, count + 0.002 * seed),
        "both": label * count,
        "graph": float(model == "anchored"),
    }
    return run(
        "two-radius",
        model,
        seed,
        "paper",
        best,
        epochs=rows,
        selected_epoch=20 + seed % 3,
        diagnostics=seen(model, noise),
    )


def seen(model: str, noise: random.Random) -> dict[str, Any]:
    blind = model != "anchored"
    confusion = [[0] * 12 for _ in range(12)]
    for base in range(1, 5):
        for scale in (1, 2, 3):
            for guess in (1, 2, 3) if blind else (scale,):
                confusion[scale * base - 1][guess * base - 1] += 40 + noise.randrange(20)
    shares = {"1": 0.25, "2": 0.41, "3": 0.25} if blind else {"1": 1.0, "2": 1.0, "3": 0.999}
    diagnostics: dict[str, Any] = {
        "count_accuracy_by_scale": shares,
        "count_confusion": confusion,
        "graph_recovery": 0.0,
    }
    if model in ("mpnn", "vn"):
        size = 4e-7 * noise.random()
        return diagnostics | {"state_distance": None if model == "mpnn" else moved(size)}
    order = random.Random(model).sample(range(SLOTS), SLOTS)
    write = [[0.9 if order[i] == slot else 0.1 * noise.random() / SLOTS for slot in range(SLOTS)] for i in range(12)]
    diagnostics |= {"write_weights": write, "read_weights": write}
    if blind:
        return diagnostics | {"state_distance": moved(6e-7 * (0.5 + noise.random()))}
    anchors = {str(r): [1 / (1 + r * (0.5 + 0.1 * slot)) for slot in range(SLOTS)] for r in (1, 2, 3)}
    return diagnostics | {"state_distance": moved(1.2 + noise.random()), "anchor_weights": anchors}


def moved(size: float) -> dict[str, Any]:
    return {"scales": [1, 2, 3], "max": [0.0, size, 1.5 * size], "mean": [0.0, size / 5, size / 4]}


def census(model: str, seed: int, error: float) -> dict[str, Any]:
    noise = random.Random(f"{model}{seed}")
    final, by_count, each = {}, {}, {}
    for split, factor in SPLITS.items():
        here = error * factor * (0.9 + 0.2 * noise.random())
        final |= {f"{split}/log_mae": here, f"{split}/log_r2": 1 - here * here, f"{split}/exact": math.exp(-20 * here)}
        last = 17 if split == "iid" else 41
        counts = list(range(0, last, 2))
        by_count[split] = {"count": counts, "log_mae": [here * (0.7 + (c / last - 0.4) ** 2 * 3) for c in counts]}
        each[split] = {name: {"log_mae": here * (0.8 + 0.1 * i), "log_r2": 0.99} for i, name in enumerate(MOTIFS)}
    change = 0.7 if model in ("sum", "anchored") else 3e-7
    diagnostics = {"per_motif": each, "error_by_count": by_count, "replication_change": change}
    best = {"log_mae": final["iid/log_mae"], "log_r2": final["iid/log_r2"]}
    return run("motifs", model, seed, "full", best, final=final, diagnostics=diagnostics, config={"hidden": 64})


def links(model: str, seed: int, score: float) -> dict[str, Any]:
    noise = random.Random(f"{model}{seed}")
    score += noise.gauss(0, 0.006)
    final = {
        "test/f1": score,
        "test/precision": score + 0.02,
        "test/recall": score - 0.02,
        "decoded_threshold": 0.1,
        "test/decoded_f1": score + 0.03,
        "larger/f1": score - 0.06,
        "larger/decoded_f1": score - 0.02,
        "greedy/f1": 0.86,
    }
    for name in ("degree", "sector", "parity"):
        final |= {f"test/violations_{name}": 0.3 * (1 - score), f"test/decoded_violations_{name}": 0.0}
    bins = [0.05 + 0.1 * i for i in range(10)]
    heights = [min(1.0, max(0.0, b + (0.7 - score) * math.sin(6.28 * b) * 0.5)) for b in bins]
    weights = [abs(b - 0.45) + 0.02 for b in bins]
    calibration = {"confidence": bins, "frequency": heights, "weight": weights}
    diagnostics = {"calibration": calibration}
    return run(
        "linksets", model, seed, "full", {"f1": score}, final=final, diagnostics=diagnostics, config={"slots": 16}
    )


def permutation(slots: int, width: int) -> dict[str, Any]:
    accuracy = 1 / (1 + math.exp(-(math.log2(slots * width) - 5.5) * 1.3))
    config = {"slots": slots, "channels": width, "num_identifiers": 24}
    return run("two-radius-permutation", "anchored", 0, "grid", {"label": accuracy}, config=config)


def original(model: str, size: int, drop: float) -> dict[str, Any]:
    accuracy = 1 - drop * (size / 200) ** 1.5
    config = {"slots": 32, "channels": 256, "num_identifiers": size}
    final = {"test/label": accuracy}
    return run("two-radius-original", model, 0, "full", {"label": accuracy}, config=config, final=final)


def verify() -> dict[str, Any]:
    def claim(label: str, statement: str, control: str, **parts: Any) -> dict[str, Any]:
        common = {
            "instances": 1300,
            "margin_means": "bits above the bound",
            "margin": 0.0127,
            "passed": True,
            "control_failed": True,
            "series": [],
        }
        return {"label": label, "statement": statement, "control": control, **common, **parts}

    n = [4, 8, 16, 32, 64, 128]
    curve = {
        "title": "bits that must fit",
        "x": n,
        "lines": [
            {"label": "bound log2 n!", "y": [math.lgamma(k + 1) / math.log(2) for k in n]},
            {"label": "construction", "y": [k * math.log2(k) + 7 for k in n]},
        ],
        "xlabel": "identifiers n",
        "ylabel": "bits",
        "log": "xy",
    }
    claims = [
        claim(
            "thm:lower",
            "slots times width times bits is at least log2 n!",
            "a transcript one bit short",
            series=[curve],
        ),
        claim("prop:replication", "a normalised read does not change when every node is repeated", "an anchored read"),
        claim("prop:mass", "the anchor's log-odds give back the mass", "log(1 - a) - log(a) in float32", margin=None),
    ]
    return {"schema": 1, "kind": "verify", "claims": claims}


def cards() -> dict[str, dict[str, Any]]:
    def card(module: str, *found: tuple[str, str, bool]) -> dict[str, Any]:
        findings = [
            {"name": name, "verdict": verdict, "value": 1.0, "broken": broken} for name, verdict, broken in found
        ]
        return {"schema": 1, "kind": "audit", "module": module, "findings": findings}

    return {
        "mean": card(
            "torch_geometric.nn:MeanAggregation",
            ("permutation", "invariant", False),
            ("replication", "blind: f(rX) = f(X)", False),
            ("batch_mates", "independent", False),
            ("cost_growth", "linear in n; a skewed batch costs 3 times its graphs", False),
        ),
        "performer": card(
            "GPSConv, performer",
            ("permutation", "equivariant", False),
            ("replication", "sees the count", False),
            ("batch_mates", "depends on batch mates: performer", True),
        ),
    }


def bench() -> dict[str, Any]:
    rows = [
        {"module": "slots", "n": 200_000, "times_floor": 1.83},
        {"module": "ISAB", "n": 200_000, "times_floor": 5.2},
    ]
    nodes = [1e3, 1e4, 1e5, 1e6]
    lines = [
        {"label": "slots", "y": [1e-4, 9e-4, 9e-3, 9e-2]},
        {"label": "dense attention", "y": [1e-3, 1e-1, 11, None]},
    ]
    series = [{"x": nodes, "lines": lines, "xlabel": "nodes n", "ylabel": "seconds", "log": "xy"}]
    return {"schema": 1, "kind": "bench", "name": "peers", "machine": "two cores", "rows": rows, "series": series}
