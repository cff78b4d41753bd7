"""The runs on real graphs that a table shows: for each set and model one setting, and scores that others published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mooring.suite.records import Record
from mooring.suite.report.claims import updates_of
from mooring.suite.report.groups import Estimate, Group, group
from mooring.table import ABSENT

# Name and scale of each metric, and whether more is better.
METRICS = {
    "roc_auc": ("ROC-AUC, %", 100.0, True),
    "average_precision": ("AP, %", 100.0, True),
    "rmse": ("RMSE", 1.0, False),
    "mae": ("MAE", 1.0, False),
}
# What a search varies; a configuration that differs in anything else is a row of its own.
SEARCHED = ("learning_rate", "readout", "layer_dropout", "weight_decay")
# What a row shows in columns and not in its name.
SHOWN = (*SEARCHED, "dataset", "epochs", "steps_per_epoch")
OGB = "5 layers, 300 wide (arXiv 2005.00687)"
LRGB = "about 500k parameters (arXiv 2206.08164)"

#: Percent for areas, the target's units for errors. Only what was read in the text of a source is here.
PUBLISHED: Mapping[tuple[str, str], tuple[float, str]] = {
    ("esol", "none"): (1.173, f"GIN, {OGB}"),
    ("hiv", "none"): (75.6, f"GIN, {OGB}"),
    ("hiv", "ogb-vn"): (77.1, f"GIN+VN, {OGB}"),
    ("func", "none"): (55.0, f"GINE, {LRGB}"),
    ("func", "transformer"): (65.4, "GPS, about 500k parameters (arXiv 2205.12454)"),
}


@dataclass(frozen=True)
class Chosen:
    """The configuration of one model on one set that a table shows.

    Args:
        dataset, metric: of the set.
        group: its runs.
        searched: settings of this model on this set that there are records of.
    """

    dataset: str
    metric: str
    group: Group
    searched: int

    @property
    def setting(self) -> str:
        """Rate, readout and dropout that the search chose."""
        config = self.group.first.mapping("config")
        values = [config.get(name) for name in SEARCHED[:3]]
        return ", ".join(
            f"{value:g}" if isinstance(value, float) else str(value) for value in values if value is not None
        )

    @property
    def updates(self) -> str:
        """Updates of a whole training as text, if the record has them."""
        updates = updates_of(self.group)
        return f"{updates:,}" if updates else ABSENT

    @property
    def test(self) -> Estimate:
        return self.group.estimate("metrics", "final", f"test/{self.metric}")

    @property
    def validation(self) -> Estimate:
        return self.group.estimate("metrics", "best", self.metric)


def choose(runs: Sequence[Record]) -> list[Chosen]:
    """For each set and model the setting that was run at most seeds; of several, the best on validation.

    A search runs many settings at one seed and the best of them at more, so what is shown is what it found. Controls
    and other options of a memory are models of their own here, called a variant.
    """
    chosen: list[Chosen] = []
    for dataset in dict.fromkeys(dataset_of(run) for run in runs):
        there = [run for run in runs if dataset_of(run) == dataset]
        metric = there[0].name("diagnostics", "metric")
        sign = 1 if METRICS[metric][2] else -1
        by_model: dict[tuple[str, ...], list[Group]] = {}
        for item in group(there, apart=SHOWN):
            schedule = [str(item.first.find("config", name)) for name in ("epochs", "steps_per_epoch")]
            by_model.setdefault((item.model, item.variant, *schedule), []).append(item)
        for items in by_model.values():
            best = max(items, key=lambda item: (len(item.runs), sign * item.estimate("metrics", "best", metric).mean))
            chosen.append(Chosen(dataset, metric, best, len(items)))
    return chosen


def dataset_of(run: Record) -> str:
    """Return the set that a run was trained on."""
    return str(run.mapping("config").get("dataset", ""))
