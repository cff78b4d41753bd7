"""Claims of captions, held against the runs that a table shows.

A caption in `captions.ini` names what it claims, as in `claims = preset`. A table whose runs contradict a claim, or
whose rows differ from the preset without saying so, says this in a note, and no document may hold such a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from mooring.suite.report.groups import Group

CONTRADICTED = "Contradicted by the records: "
# Parameters of one budget differ by at most this share.
BUDGET = 0.05


def contradictions(claims: str, groups: Sequence[Group], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return a sentence for each claim that the runs contradict and for each row that hides a changed setting.

    Args:
        claims: names of :data:`CLAIMS`, separated by spaces.
        groups: the runs that the table shows.
        rows: its cells.
    """
    cells = {cell for row in rows for cell in row}
    found = [
        f"{item.title} differs from the preset, but no row says so."
        for item in groups
        if item.variant and not any(item.variant in cell for cell in cells)
    ]
    found += [problem for claim in claims.split() if (problem := CLAIMS[claim](groups))]
    return [f"{CONTRADICTED}{problem}" for problem in found]


def _preset(groups: Sequence[Group]) -> str:
    changed = [item.title for item in groups if item.variant]
    return f"the caption says that all rows have the preset's settings, but one is {changed[0]}." if changed else ""


def _same_seeds(groups: Sequence[Group]) -> str:
    for item in groups[1:]:
        if item.seeds != groups[0].seeds:
            return (
                f"the caption says that all rows have the same seeds, but {groups[0].title} has {_list(groups[0])} and "
                f"{item.title} has {_list(item)}."
            )
    return ""


def _once(groups: Sequence[Group]) -> str:
    places = [(item.model, seed) for item in groups for seed in item.seeds]
    twice = [place for place in places if places.count(place) > 1]
    if not twice:
        return ""
    model, seed = twice[0]
    return f"the caption says that each model was run once at each seed, but {model} has two runs at seed {seed}."


def _budget(groups: Sequence[Group]) -> str:
    """One budget of parameters and updates for all models on a set, but for the network alone."""
    sets: dict[object, list[Group]] = {}
    for item in groups:
        if item.model != "plain":
            sets.setdefault(item.first.find("config", "dataset"), []).append(item)
    for items in sets.values():
        for name, of, allowed in (("parameters", _parameters, BUDGET), ("updates", updates_of, 0.0)):
            least, most = (choose(items, key=of) for choose in (min, max))
            if of(most) - of(least) > allowed * of(most):
                return (
                    f"the caption says that all rows of a set have one budget of {name}, but {least.title} has "
                    f"{of(least):,} and {most.title} has {of(most):,}."
                )
    return ""


def _parameters(item: Group) -> int:
    return item.first.whole("parameters", "total")


def updates_of(item: Group) -> int:
    """Return the updates of a whole training; 0 if the record does not have them."""
    run = item.first
    return run.count("epochs") * run.count("steps_per_epoch") if run.find("config", "steps_per_epoch") else 0


def _list(item: Group) -> str:
    return ", ".join(map(str, item.seeds))


CLAIMS: Mapping[str, Callable[[Sequence[Group]], str]] = {
    "preset": _preset,
    "same-seeds": _same_seeds,
    "once": _once,
    "budget": _budget,
}
