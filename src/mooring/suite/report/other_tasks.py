"""Runs of tasks that have no chapter, such as one of your own: a table of whatever they measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mooring.suite.records import Records
from mooring.suite.report.exhibits import Section
from mooring.suite.report.groups import Group, group, interval, show
from mooring.table import ABSENT, Column, Table

# Where a record holds numbers, and what its columns are called; curves of training are not among them.
PARTS = {"best": "selected epoch", "final": "at the end"}
LEARNING = ("learning_rate", "train/")


@dataclass(frozen=True)
class OtherTasks:
    """The last chapter: one table per task and preset.

    Args:
        known: the tasks that have a chapter.
    """

    known: frozenset[str]
    name: str = "own"
    title: str = "Other tasks"
    lead: str = "What runs of tasks without a chapter of their own measured."

    def section(self, records: Records, *, figures: bool = True) -> Section | None:
        """As in :class:`~mooring.suite.report.exhibits.Chapter`; there are no figures."""
        places = dict.fromkeys((run.task, run.preset) for run in records.kind("run") if run.task not in self.known)
        tables = tuple(_table(task, preset, group(records.runs(task, preset))) for task, preset in places)
        return Section(self.name, self.title, self.lead, tables) if tables else None


def _table(task: str, preset: str, groups: list[Group]) -> Table:
    fields = [(part, name) for part in PARTS for name in _names(groups, part)]
    rows = tuple((item.title, *(_cell(item, *field) for field in fields), str(len(item.runs))) for item in groups)
    columns = (
        Column("Model", left=True),
        *(Column(name, group=PARTS[part]) for part, name in fields),
        Column("Seeds"),
    )
    notes = (f"As recorded{interval(groups)}.",)
    return Table(f"{task}-{preset}", f"{task}, preset {preset}", columns, rows, notes)


def _names(groups: list[Group], part: str) -> list[str]:
    names = dict.fromkeys(name for item in groups for run in item.runs for name in run.mapping("metrics", part))
    return [name for name in names if not name.startswith(LEARNING)]


def _cell(item: Group, part: str, name: str) -> str:
    """The mean over the seeds; a score that some run lacks, or that is not defined, has none."""
    values = [run.find("metrics", part, name) for run in item.runs]
    defined = all(isinstance(value, int | float) and math.isfinite(value) for value in values)
    return show(item.estimate("metrics", part, name), digits=4) if defined else ABSENT
