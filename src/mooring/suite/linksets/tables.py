"""Tables of the constrained link sets (tab:link-generation), with violated constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mooring.suite.records import Record, Records
from mooring.suite.report.groups import Group, group, others, paired_difference, percent, plain, show
from mooring.suite.report.registry import Rows, table
from mooring.table import ABSENT, Column

TASK = "linksets"
FIELDS = {
    "test/f1": ("F1", "test"),
    "test/precision": ("Precision", "test"),
    "test/recall": ("Recall", "test"),
    "test/decoded_f1": ("F1, decoded", "test"),
    "larger/f1": ("F1", "larger graphs"),
    "larger/decoded_f1": ("F1, decoded", "larger graphs"),
}
MAIN = ("test/f1", "test/decoded_f1", "larger/f1", "larger/decoded_f1")
# Scores of single pairs, before decoding.
SINGLE = ("test/f1", "larger/f1")
# The preset of the search, the options it varies and its criterion; the module that others are compared with.
SEARCH, VARIED, CHOSEN_BY = "search", ("learning_rate", "slots", "heads", "hidden"), ("metrics", "best", "f1")
REFERENCE = "moored"
# The preset whose rows are shown beside the paper's.
PAPER = "full"
# tab:link-generation: F1 on a data set that is not public, so shown beside ours but not directly comparable.
PUBLISHED: Mapping[str, float] = {"cross-attn": 0.751, "anchored": 0.816}


@table("linksets", task=TASK)
def scores(records: Records, preset: str, models: str = "all") -> Rows | None:
    """Show F1, precision and recall before and after decoding, beside the paper's F1; of all memories or of some."""
    groups = _of("linksets", group(_runs(records, preset)), models)
    if not groups:
        return None
    fields = [name for name in FIELDS if name == "test/f1" or any(has_score(item, name) for item in groups)]
    rows = []
    for item in groups:
        measured = [_cell(item, name) for name in fields]
        published = None if item.variant or preset != PAPER else PUBLISHED.get(item.model)
        rows.append((item.title, *measured, plain(published), str(len(item.runs))))
    rows += [_greedy(groups, fields)] if groups[0].has("metrics", "final", "greedy/f1") else []
    columns = (
        Column("Module", left=True),
        *(Column(*FIELDS[name]) for name in fields),
        Column("F1", group="paper"),
        Column("Seeds"),
    )
    return Rows(columns, rows, _gap(groups), groups=groups)


@table("linksets-tuned", task=TASK)
def tuned(records: Records, preset: str, models: str = "all") -> Rows | None:
    """Show each module at the setting that one search chose for it, best first, with the range of the search."""
    tried: dict[str, list[float]] = {}
    for run in records.runs(TASK, SEARCH):
        tried.setdefault(run.model, []).append(run.number(*CHOSEN_BY))
    best = [item for item in chosen(records, preset) if item.model in tried]
    absent = {run.model for run in _runs(records, preset)} - {item.model for item in best}
    missing = [name for name in models.split(",") if name in absent]
    if missing:
        raise ValueError(
            f"table 'linksets-tuned': '{missing[0]}' has runs of preset '{preset}', but none at the best setting among "
            f"its runs of preset '{SEARCH}'. Run that setting, or the search if its records are missing."
        )
    groups = _of("linksets-tuned", best, models)
    if preset == SEARCH or not groups:
        return None
    groups.sort(key=lambda item: -item.estimate("metrics", "final", MAIN[0]).mean)
    reference = next((item for item in groups if item.model == REFERENCE), None)
    rows = [
        (
            item.title,
            *(_cell(item, name) for name in MAIN),
            _ahead(item, reference),
            *(plain(choose(tried[item.model])) for choose in (max, min)),
            str(len(tried[item.model])),
            str(len(item.runs)),
        )
        for item in groups
    ]
    if groups[0].has("metrics", "final", "greedy/f1"):
        name, *cells, _, seeds = _greedy(groups, MAIN)
        rows.append((name, *cells, *[ABSENT] * 4, seeds))
    columns = (
        Column("Module", left=True),
        *(Column(*FIELDS[name]) for name in MAIN),
        Column("F1", group=f"minus {REFERENCE}"),
        *(Column(name, group="search") for name in ("Best", "Worst")),
        Column("Settings"),
        Column("Seeds"),
    )
    return Rows(columns, rows, others(groups, group(_runs(records, preset))), groups=groups)


def chosen(records: Records, preset: str) -> list[Group]:
    """Return the group of the setting that the search chose for each module.

    A module without a search is shown at the setting with most seeds, then with the best validation score. A module
    whose chosen setting has no run is omitted.
    """
    best: dict[str, Record] = {}
    for run in records.runs(TASK, SEARCH):
        if run.model not in best or run.number(*CHOSEN_BY) > best[run.model].number(*CHOSEN_BY):
            best[run.model] = run
    by_model: dict[str, Group] = {}
    for item in sorted(group(_runs(records, preset)), key=lambda item: (len(item.runs), _validated(item))):
        if item.model not in best or _varied(best[item.model]) == _varied(item.first):
            by_model[item.model] = item
    return list(by_model.values())


def _of(who: str, groups: list[Group], models: str) -> list[Group]:
    """Select the groups of all memories, or of some."""
    known = list(dict.fromkeys(item.model for item in groups))
    wanted = known if models == "all" else models.split(",")
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(f"table '{who}': no run of '{unknown[0]}', expected some of {', '.join(known)}, or 'all'.")
    return [item for item in groups if item.model in wanted]


def _validated(item: Group) -> float:
    return item.estimate(*CHOSEN_BY).mean if item.has(*CHOSEN_BY) else 0.0


def _varied(run: Record) -> list[Any]:
    return [run.find("config", name) for name in VARIED]


def _ahead(item: Group, reference: Group | None) -> str:
    """Format the difference of the test F1 from the reference's, paired over seeds."""
    if reference is None or item is reference:
        return ABSENT
    ours, theirs = (member.by_seed("metrics", "final", MAIN[0]) for member in (item, reference))
    return show(paired_difference(ours, theirs), sign=True) if ours.keys() & theirs.keys() else ABSENT


@table("linksets-ceiling", task=TASK)
def ceiling(records: Records, preset: str) -> Rows | None:
    """Show the same scores with exact ranks as decoder inputs, in one turn or in several."""
    groups = group(_runs(records, preset, exact_ranks=True), apart=("turns", "exact_ranks"))
    if not groups:
        return None
    groups.sort(key=lambda item: (item.title, _turns(item)))
    rows = [
        (item.title, str(_turns(item)), *(_cell(item, name) for name in SINGLE), str(len(item.runs))) for item in groups
    ]
    if groups[0].has("metrics", "final", "greedy/f1"):
        name, *cells, _, seeds = _greedy(groups, SINGLE)
        rows.append((name, ABSENT, *cells, seeds))
    columns = (
        Column("Module", left=True),
        Column("Turns"),
        *(Column(*FIELDS[name]) for name in SINGLE),
        Column("Seeds"),
    )
    return Rows(columns, rows, groups=groups)


@table("linksets-violations", task=TASK)
def violations(records: Records, preset: str) -> Rows | None:
    """Show the share of violated constraints before and after decoding; unbroken rules are in the notes."""
    runs = _runs(records, preset)
    groups = group(runs)
    start, decoded = "test/violations_", "test/decoded_violations_"
    scores = [run.mapping("metrics", "final") for run in runs]
    rules = dict.fromkeys(name.removeprefix(start) for final in scores for name in final if name.startswith(start))
    names = [name for name in rules if any(final.get(part + name) for final in scores for part in (start, decoded))]
    if not names:
        return None
    unbroken = [name.replace("_", " ") for name in rules if name not in names]
    rows = []
    for item in groups:
        before = [_share(item, f"{start}{name}") for name in names]
        after = [_share(item, f"{decoded}{name}") for name in names]
        rows.append((item.title, *before, *after))
    titles = [name.replace("_", " ").capitalize() for name in names]
    columns = (
        Column("Module", left=True),
        *(Column(name, group="as predicted") for name in titles),
        *(Column(name, group="decoded") for name in titles),
    )
    notes = [f"Never broken, before or after: {', '.join(unbroken)}."] if unbroken else []
    return Rows(columns, rows, notes, groups=groups)


def _runs(records: Records, preset: str, *, exact_ranks: bool = False) -> list[Record]:
    """Return the runs with or without exact ranks as decoder inputs."""
    return [run for run in records.runs(TASK, preset) if bool(run.mapping("config").get("exact_ranks")) == exact_ranks]


def _turns(item: Group) -> int:
    return int(item.first.number("config", "turns")) if item.first.find("config", "turns") is not None else 1


def _gap(groups: Sequence[Group]) -> list[str]:
    """Compare Anchored with Cross-Attn in every configuration that was run, because another may suit it better."""
    anchored = next((item for item in groups if item.model == "anchored" and not item.variant), None)
    if anchored is None:
        return []
    ours = anchored.by_seed("metrics", "final", "test/f1")
    sentences = []
    for item in groups:
        theirs = item.by_seed("metrics", "final", "test/f1")
        if item.model != "cross-attn" or len(ours.keys() & theirs.keys()) < 2:
            continue
        gap = paired_difference(ours, theirs)
        verdict = "excludes" if gap.excludes_zero() else "includes"
        rival = f"Cross-Attn ({item.variant})" if item.variant else "Cross-Attn"
        sentences.append(
            f"Anchored minus {rival}, test F1, paired over {gap.count} seeds: {show(gap, sign=True)}; the interval "
            f"{verdict} zero."
        )
    return sentences


def _greedy(groups: Sequence[Group], fields: Sequence[str]) -> tuple[str, ...]:
    """Return the row of the greedy solver, whose sets are feasible."""
    cells = []
    for name in fields:
        split, _, score = name.partition("/")
        reference = {"test": "greedy/f1", "larger": "greedy/larger_f1"}[split]
        measured = score in ("f1", "decoded_f1") and groups[0].has("metrics", "final", reference)
        cells.append(plain(groups[0].estimate("metrics", "final", reference).mean) if measured else ABSENT)
    return ("Greedy solver", *cells, ABSENT, ABSENT)


def has_score(item: Group, name: str) -> bool:
    """Return whether all runs have a score; decoded scores need the separate threshold that older runs lack."""
    decoded = name.endswith("decoded_f1")
    return item.has("metrics", "final", name) and (not decoded or item.has("metrics", "final", "decoded_threshold"))


def _cell(item: Group, name: str) -> str:
    if name == "test/f1" or has_score(item, name):
        return show(item.estimate("metrics", "final", name))
    return ABSENT


def _share(item: Group, name: str) -> str:
    return percent(item.estimate("metrics", "final", name)) if item.has("metrics", "final", name) else ABSENT
