import json

from mooring.theory import ClaimResult, verify


def test_record_of_a_run() -> None:
    seen: list[ClaimResult] = []
    run = verify(["prop:mass"], seed=3, instances=30, progress=seen.append)
    assert run.passed
    assert [result.label for result in seen] == ["prop:mass", "prop:mass.float32"]
    record = json.loads(json.dumps(run.to_record(), allow_nan=False))
    assert (record["schema"], record["kind"], record["seed"]) == (1, "verify", 3)
    assert {"python", "torch", "mooring"} <= set(record["versions"])
    claim = record["claims"][1]
    assert claim["passed"]
    assert claim["control_failed"]
    assert {"label", "statement", "instances", "margin", "margin_means", "control", "seconds"} <= set(claim)
    assert set(claim["series"][0]) == {"title", "x", "lines", "xlabel", "ylabel", "log"}


def test_runs_repeat() -> None:
    first, second = (verify(["prop:replication"], seed=5, instances=7).results[0] for _ in range(2))
    assert (first.margin, first.note) == (second.margin, second.note)
