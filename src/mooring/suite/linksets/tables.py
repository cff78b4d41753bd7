"""Tables of the constrained link sets (tab:link-generation), with violated constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mooring.suite.records import Record, Records
from mooring.suite.report.exhibits import Body, table
from mooring.suite.report.groups import Group, group, others, paired_difference, percent, plain, show
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
# Pair by pair, before anything is decoded.
SINGLE = ("test/f1", "larger/f1")
# The preset of the search, what it varies and what it chooses by; the module others are compared with.
SEARCH, VARIED, CHOSEN_BY = "search", ("learning_rate", "slots", "heads", "hidden"), ("metrics", "best", "f1")
REFERENCE = "moored"
# The preset whose rows stand beside the paper's.
PAPER = "full"
# tab:link-generation: F1 on a data set that is not public, so shown beside ours but not comparable like for like.
PUBLISHED: Mapping[str, float] = {"cross-attn": 0.751, "anchored": 0.816}


@table(
    "linksets",
    task=TASK,
    title="Constrained link sets, preset {preset}",
    notes="""
    Scores against the optimal link set{interval}. Decoded: the likeliest links that still fit, above a threshold of its
    own that validation graphs chose.

    The paper's data set is not public, so its F1 is shown for orientation only and is not comparable.
    """,
)
def scores(records: Records, preset: str, models: str = "all") -> Body | None:
    """F1, precision and recall before and after decoding, beside the paper's F1; of all memories or of some."""
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
    return Body(columns, rows, _gap(groups), groups=groups)


@table(
    "linksets-tuned",
    task=TASK,
    title="Every memory at its own setting, preset {preset}",
    notes="""
    Scores against the optimal link set{interval}; decoded: the likeliest links that still fit, above a threshold of its
    own that validation graphs chose. Settings: how many were tried at one development seed, on smaller sets and in a
    shorter training. Search: the validation F1 of the best of them, which was run, and of the worst, which shows how
    much it matters.
    """,
)
def tuned(records: Records, preset: str, models: str = "all") -> Body | None:
    """Each module at the setting that one search found for it, best first, and how much the setting matters to it."""
    tried: dict[str, list[float]] = {}
    for run in records.runs(TASK, SEARCH):
        tried.setdefault(run.model, []).append(run.number(*CHOSEN_BY))
    searched = [item for item in chosen(records, preset) if item.model in tried]
    absent = {run.model for run in _runs(records, preset)} - {item.model for item in searched}
    lost = [name for name in models.split(",") if name in absent]
    if lost:
        raise ValueError(
            f"table 'linksets-tuned': '{lost[0]}' has runs of preset '{preset}', but none at the best setting among "
            f"its runs of preset '{SEARCH}'. Run that setting, or the search where its records are missing."
        )
    groups = _of("linksets-tuned", searched, models)
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
    return Body(columns, rows, others(groups, group(_runs(records, preset))), groups=groups)


def chosen(records: Records, preset: str) -> list[Group]:
    """The setting that the search found for each module; for one without a search, that of most seeds, then of the
    best validation score.

    A module whose setting was found but not run yet is left out.
    """
    best: dict[str, Record] = {}
    for run in records.runs(TASK, SEARCH):
        if run.model not in best or run.number(*CHOSEN_BY) > best[run.model].number(*CHOSEN_BY):
            best[run.model] = run
    settings: dict[str, Group] = {}
    for item in sorted(group(_runs(records, preset)), key=lambda item: (len(item.runs), _validated(item))):
        if item.model not in best or _varied(best[item.model]) == _varied(item.first):
            settings[item.model] = item
    return list(settings.values())


def _of(who: str, groups: list[Group], models: str) -> list[Group]:
    """Those of all memories, or of some."""
    there = list(dict.fromkeys(item.model for item in groups))
    wanted = there if models == "all" else models.split(",")
    unknown = [name for name in wanted if name not in there]
    if unknown:
        raise ValueError(f"table '{who}': no run of '{unknown[0]}', expected some of {', '.join(there)}, or 'all'.")
    return [item for item in groups if item.model in wanted]


def _validated(item: Group) -> float:
    return item.estimate(*CHOSEN_BY).mean if item.has(*CHOSEN_BY) else 0.0


def _varied(run: Record) -> list[Any]:
    return [run.find("config", name) for name in VARIED]


def _ahead(item: Group, reference: Group | None) -> str:
    """How much higher the test F1 is than the reference's, paired over seeds."""
    if reference is None or item is reference:
        return ABSENT
    ours, theirs = (side.by_seed("metrics", "final", MAIN[0]) for side in (item, reference))
    return show(paired_difference(ours, theirs), sign=True) if ours.keys() & theirs.keys() else ABSENT


@table(
    "linksets-ceiling",
    task=TASK,
    title="Told which rivals there are, preset {preset}",
    notes="""
    Scores against the optimal link set{interval}. In the first turn a pair is told how many heavier rivals each of its
    ends has; in the later ones also how many of them the last turn took.
    """,
)
def ceiling(records: Records, preset: str) -> Body | None:
    """The same scores where the decoder is told exactly which rivals a pair has, in one turn or in several."""
    groups = group(_runs(records, preset, told=True), apart=("turns", "exact_ranks"))
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
    return Body(columns, rows, groups=groups)


@table(
    "linksets-violations",
    task=TASK,
    title="Violated constraints, preset {preset}",
    notes="Violation rate in %{interval}; decoded: after the step that makes the set feasible.",
)
def violations(records: Records, preset: str) -> Body | None:
    """Share of violated constraints before and after decoding; rules that are never broken are in the notes."""
    runs = _runs(records, preset)
    groups = group(runs)
    start, decoded = "test/violations_", "test/decoded_violations_"
    scores = [run.mapping("metrics", "final") for run in runs]
    rules = dict.fromkeys(name.removeprefix(start) for final in scores for name in final if name.startswith(start))
    names = [name for name in rules if any(final.get(part + name) for final in scores for part in (start, decoded))]
    if not names:
        return None
    never = [name.replace("_", " ") for name in rules if name not in names]
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
    notes = [f"Never broken, before or after: {', '.join(never)}."] if never else []
    return Body(columns, rows, notes, groups=groups)


def _runs(records: Records, preset: str, *, told: bool = False) -> list[Record]:
    """The runs whose decoder has the memory alone, or those whose decoder is told the ranks."""
    return [run for run in records.runs(TASK, preset) if bool(run.mapping("config").get("exact_ranks")) == told]


def _turns(item: Group) -> int:
    return int(item.first.number("config", "turns")) if item.first.find("config", "turns") is not None else 1


def _gap(groups: Sequence[Group]) -> list[str]:
    """Anchored against Cross-Attn in every configuration that was run, since another may suit it better."""
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
    """The solver's row; its sets are feasible as they are."""
    cells = []
    for name in fields:
        split, _, score = name.partition("/")
        reference = {"test": "greedy/f1", "larger": "greedy/larger_f1"}[split]
        solved = score in ("f1", "decoded_f1") and groups[0].has("metrics", "final", reference)
        cells.append(plain(groups[0].estimate("metrics", "final", reference).mean) if solved else ABSENT)
    return ("Greedy solver", *cells, ABSENT, ABSENT)


def has_score(item: Group, name: str) -> bool:
    """Whether all runs have it. Sets were first decoded with the threshold of single pairs; those are not compared."""
    decoded = name.endswith("decoded_f1")
    return item.has("metrics", "final", name) and (not decoded or item.has("metrics", "final", "decoded_threshold"))


def _cell(item: Group, name: str) -> str:
    if name == "test/f1" or has_score(item, name):
        return show(item.estimate("metrics", "final", name))
    return ABSENT


def _share(item: Group, name: str) -> str:
    return percent(item.estimate("metrics", "final", name)) if item.has("metrics", "final", name) else ABSENT
