"""What the tests of several rooms of the suite share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mooring.suite.train import Experiment


@pytest.fixture
def save(tmp_path: Path) -> Callable[[dict[str, Any], str], Path]:
    """Write a record below the folder `records` and return its path."""

    def write(data: dict[str, Any], name: str) -> Path:
        path = tmp_path / "records" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data), encoding="utf-8")
        return path

    return write


@pytest.fixture
def losses() -> Callable[[Experiment, int], list[float]]:
    """Train the network of an experiment for some steps on its first batch; the loss of each."""

    def train(experiment: Experiment, steps: int) -> list[float]:
        torch.manual_seed(0)
        net = experiment.build()
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        batch, found = experiment.train_batch(0, 0), []
        for _ in range(steps):
            loss, _ = experiment.loss(net, batch, 0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    return train
