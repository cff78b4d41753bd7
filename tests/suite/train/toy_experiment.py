"""A linear regression, short enough to be killed ten times in a test; it sleeps, diverges, crashes, dies if told."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from mooring.suite.train import Experiment, TrainConfig

WIDTH = 7


@dataclass(frozen=True)
class ToyConfig(TrainConfig):
    sleep: float = 0.0
    nan_at: int | None = None
    crash_seed: int | None = None
    die_once: str = ""
    stop_below: float = 0.0
    dropout: float = 0.3
    merge: int = 1


class ToyNet(nn.Module):
    """A linear map behind dropout, with its bias as the memory."""

    def __init__(self, dropout: float = 0.3) -> None:
        super().__init__()
        self.local = nn.Linear(WIDTH, 1, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.memory = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.memory(self.dropout(self.local(x)))


class Toy(Experiment):
    name: ClassVar[str] = "toy"
    presets: ClassVar[Mapping[str, TrainConfig]] = {
        "quick": ToyConfig(epochs=5, steps_per_epoch=3, learning_rate=0.05, memory_lr_scale=0.5),
    }
    models: ClassVar[tuple[str, ...]] = ("linear",)
    select: ClassVar[tuple[str, Literal["max", "min"]]] = ("mse", "min")

    def __init__(self, config: Any, model: str, seed: int) -> None:
        super().__init__(config, model, seed)
        if model not in self.models:
            raise ValueError(f"toy: unknown model {model!r}; the models are {', '.join(self.models)}.")

    def build(self) -> nn.Module:
        return ToyNet(self.config.dropout)

    def batch(self, *key: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(hash((self.seed, *key)))
        x = torch.randn(11, WIDTH, generator=generator)
        return x, x.sum(1, keepdim=True) + 0.5

    def train_batch(self, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        if self.config.sleep:
            time.sleep(self.config.sleep)
        if self.config.die_once and epoch == 3:
            marker = Path(self.config.die_once)
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        if self.config.crash_seed == self.seed:
            raise RuntimeError("the toy fell over")
        parts = [self.batch(0, epoch, step * self.config.merge + part) for part in range(self.config.merge)]
        return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])

    def loss(self, net: nn.Module, batch: Any, epoch: int) -> tuple[Tensor, dict[str, float | Tensor]]:
        x, y = batch
        loss = (net(x) - y).square().mean()
        if self.config.nan_at == epoch:
            loss = loss * float("nan")
        return loss, {"rmse": loss.detach().sqrt()}

    def evaluate(self, net: nn.Module, epoch: int) -> dict[str, float]:
        x, y = self.batch(1, epoch, 0)
        return {"mse": float((net(x) - y).square().mean()), "undefined": float("nan")}

    def should_stop(self, history: list[dict[str, float]]) -> bool:
        return history[-1]["mse"] < self.config.stop_below

    def learning_rate_factor(self, epoch: int, step: int) -> float:
        return 1.0 / (1 + epoch)

    def finish(self, net: nn.Module) -> tuple[dict[str, float], dict[str, Any]]:
        x, y = self.batch(2, 0, 0)
        return {"test/mse": float((net(x) - y).square().mean())}, {"limit": [float("inf"), 1.0]}


class Placed(Toy):
    """A toy whose record says where it was trained."""

    name: ClassVar[str] = "placed"

    def finish(self, net: nn.Module) -> tuple[dict[str, float], dict[str, Any]]:
        return {}, {"folder": os.getcwd(), **{name: os.environ.get(name) for name in ("MOORING_CACHE", "MOORING_DATA")}}


def run_with_every_checkpoint(request: str) -> None:
    """Run a request, checkpointing after every epoch; the target of processes that are killed."""
    from mooring.suite.train import RunRequest, fit, run_one

    fit.SECONDS_BETWEEN_CHECKPOINTS = 0.0
    run_one(RunRequest.from_json(request))
