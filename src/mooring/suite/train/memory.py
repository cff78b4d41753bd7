"""What tasks share whose network has a global module in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from mooring import zoo
from mooring.nn import MemoryOptions
from mooring.suite.train.config import override
from mooring.suite.train.experiment import TrainConfig

Config = TypeVar("Config", bound="MemoryConfig")


@dataclass(frozen=True)
class MemoryConfig(TrainConfig):
    """As :class:`TrainConfig`, and the options of the global module, which are written and set by their own names.

    Args:
        memory: see :class:`~mooring.nn.MemoryOptions`; widths are the task's, which calls ``memory.at(channels)``.
    """

    memory: MemoryOptions = MemoryOptions()

    at_least_one: ClassVar[tuple[str, ...]] = (
        *TrainConfig.at_least_one,
        *("slots", "heads", "hidden_channels", "update_channels"),
    )
    above_zero: ClassVar[tuple[str, ...]] = (*TrainConfig.above_zero, "temperature")
    not_negative: ClassVar[tuple[str, ...]] = (*TrainConfig.not_negative, "init_std")

    def but(self: Config, **changes: Any) -> Config:
        """The config with some fields changed, its memory's among them: ``config.but(epochs=3, slots=5)``."""
        return override(self, changes, type(self).__name__)


def describe(model: str, without: Mapping[str, str]) -> dict[str, Any]:
    """:meth:`~mooring.suite.train.Experiment.describe` of a model that is a global module, or has none.

    Args:
        model: its name.
        without: titles of the models without a global module, which come before the others.

    >>> describe("mpnn", {"mpnn": "MPNN"}), describe("vn", {"mpnn": "MPNN"})
    ({'title': 'MPNN', 'order': -1}, {'title': 'VN', 'order': 1})
    """
    if model in without:
        return {"title": without[model], "order": list(without).index(model) - len(without)}
    entry = zoo.entry(model)
    return {"title": entry.label, "order": entry.order}
