"""Checks of what the notes of a table claim about its runs.

A table lists its claims, as in `claims=(as_preset,)`. If its runs contradict one, the table gets a note and no
document may hold it. A claim returns the sentence of that note, or an empty text.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.suite.report.groups import Group

# Parameters of one budget differ by at most this share.
BUDGET = 0.05


def as_preset(groups: Sequence[Group]) -> str:
    """Check that all rows have the preset's settings."""
    changed = [item.title for item in groups if item.variant]
    return f"the caption says that all rows have the preset's settings, but one is {changed[0]}." if changed else ""


def same_seeds(groups: Sequence[Group]) -> str:
    """Check that all rows have the same seeds."""
    for item in groups[1:]:
        if item.seeds != groups[0].seeds:
            return (
                f"the caption says that all rows have the same seeds, but {groups[0].title} has {_list(groups[0])} and "
                f"{item.title} has {_list(item)}."
            )
    return ""


def once_per_seed(groups: Sequence[Group]) -> str:
    """Check that each model was run once at each seed."""
    places = [(item.model, seed) for item in groups for seed in item.seeds]
    twice = [place for place in places if places.count(place) > 1]
    if not twice:
        return ""
    model, seed = twice[0]
    return f"the caption says that each model was run once at each seed, but {model} has two runs at seed {seed}."


def one_budget(groups: Sequence[Group]) -> str:
    """Check that all models on a set, except the network alone, have one budget of parameters and updates."""
    sets: dict[object, list[Group]] = {}
    for item in groups:
        if item.model != "plain":
            sets.setdefault(item.first.find("config", "dataset"), []).append(item)
    for items in sets.values():
        for name, of, allowed in (("parameters", parameters_of, BUDGET), ("updates", updates_of, 0.0)):
            least, most = (choose(items, key=of) for choose in (min, max))
            if of(most) - of(least) > allowed * of(most):
                return (
                    f"the caption says that all rows of a set have one budget of {name}, but {least.title} has "
                    f"{of(least):,} and {most.title} has {of(most):,}."
                )
    return ""


def parameters_of(item: Group) -> int:
    """Return the number of all parameters."""
    return item.first.whole("parameters", "total")


def updates_of(item: Group) -> int:
    """Return the updates of a whole training; 0 if the record does not have them."""
    run = item.first
    return run.count("epochs") * run.count("steps_per_epoch") if run.find("config", "steps_per_epoch") else 0


def _list(item: Group) -> str:
    return ", ".join(map(str, item.seeds))
