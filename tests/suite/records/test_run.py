from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

from mooring.suite.records import RecordError, RunRecord, record_path

RECORD = RunRecord(
    task="toy",
    model="linear",
    seed=3,
    preset="quick",
    config={"epochs": 5},
    metrics={"best": {"mse": 0.1 + 0.2}, "final": {"gain": math.inf}, "epochs": [{"epoch": 0, "mse": -math.inf}]},
    selected_epoch=0,
    diagnostics={"map": [[1.0, math.nan]]},
)


def test_round_trip_keeps_every_float(tmp_path: Path) -> None:
    path = record_path(tmp_path, "toy", "quick", "linear", 3)
    RECORD.write(path)
    again = RunRecord.read(path)
    assert path == tmp_path / "toy" / "quick" / "linear-seed3.json"
    assert again.to_text() == RECORD.to_text()
    assert again.metrics == RECORD.metrics
    assert math.isnan(again.diagnostics["map"][0][1])
    # The control: the comparison sees the last bit of a float.
    best = {"mse": math.nextafter(0.1 + 0.2, 1)}
    assert dataclasses.replace(again, metrics={**again.metrics, "best": best}).to_text() != RECORD.to_text()


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"schema": 1',
        "[]",
        '{"schema": 9, "kind": "run"}',
        '{"schema": 1, "kind": "run"}',
        "[" * 100_000,
        '{"schema": 1, "kind": "run", "seed": ' + "9" * 5000 + "}",
        RECORD.to_text().replace('"task": "toy"', '"task": ["toy"]'),
        RECORD.to_text().replace('"seed": 3', '"seed": "3"'),
        RECORD.to_text().replace('"seed": 3', '"seed": true'),
        dataclasses.replace(RECORD, config=[5]).to_text(),  # type: ignore[arg-type]
        RECORD.to_text().replace('"wall_seconds": 0.0', '"wall_seconds": null'),
        dataclasses.replace(RECORD, metrics={**RECORD.metrics, "best": {"mse": None}}).to_text(),
        dataclasses.replace(RECORD, metrics={**RECORD.metrics, "best": {"mse": "0.1"}}).to_text(),
        RECORD.to_text().replace("toy", "t\xf6y").encode("latin-1"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    with pytest.raises(RecordError, match=r"broken\.json: .*(Delete|Write the record again|Move it out)"):
        RunRecord.read(path)


def test_no_two_models_share_a_file_and_every_name_is_safe() -> None:
    models = ["vn", "gcn+vn-sum", "my_vn:counted", "my_vn@counted", "my_vn/counted", "..", "a b", "%40", "@"]
    names = [record_path(Path("out"), "task", "preset", model, 3) for model in models]
    assert len({path.name for path in names}) == len(models)
    assert all(path.parent == Path("out/task/preset") for path in names)
    assert all(not set(path.name) & set('<>:"/\\|?*') for path in names)
    assert names[:2] == [Path(f"out/task/preset/{model}-seed3.json") for model in models[:2]]
