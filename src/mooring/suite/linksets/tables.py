"""Tables and figure of the constrained link sets (tab:link-generation), with violated constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mooring.suite.records import Record, Records
from mooring.suite.report.cells import ahead, fill, named, score, seeds
from mooring.suite.report.drawing import MUTED, belongs, curve, inked, panel
from mooring.suite.report.exhibits import Body, figure, table
from mooring.suite.report.groups import Group, group, others, paired_difference, plain, show, usual_groups
from mooring.table import ABSENT, Column

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
TEST_F1 = ("metrics", "final", "test/f1")
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
    """Return F1, precision and recall before and after decoding, beside the paper's F1; of all memories or of some."""
    groups = _of("linksets", group(_runs(records, preset)), models)
    if not groups:
        return None
    fields = [name for name in FIELDS if name == "test/f1" or any(has_score(item, name) for item in groups)]
    published = PUBLISHED if preset == PAPER else {}
    columns, rows = fill(
        groups,
        (Column("Module", left=True), lambda item: item.title),
        *((Column(*FIELDS[name]), partial(_cell, name=name)) for name in fields),
        (Column("F1", group="paper"), lambda item: plain(None if item.variant else published.get(item.model))),
        (Column("Seeds"), seeds),
    )
    rows += [("Greedy solver", *greedy, ABSENT, ABSENT) for greedy in _greedy(groups, fields)]
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
    """Return each module at the setting that one search found for it, best first, and how much the setting matters."""
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
    groups.sort(key=lambda item: -item.estimate(*TEST_F1).mean)
    reference = next((item for item in groups if item.model == REFERENCE), None)
    columns, rows = fill(
        groups,
        (Column("Module", left=True), lambda item: item.title),
        *((Column(*FIELDS[name]), partial(_cell, name=name)) for name in MAIN),
        (Column("F1", group=f"minus {REFERENCE}"), lambda item: ahead(item, reference, *TEST_F1)),
        (Column("Best", group="search"), lambda item: plain(max(tried[item.model]))),
        (Column("Worst", group="search"), lambda item: plain(min(tried[item.model]))),
        (Column("Settings"), lambda item: str(len(tried[item.model]))),
        (Column("Seeds"), seeds),
    )
    rows += [("Greedy solver", *greedy, *[ABSENT] * 5) for greedy in _greedy(groups, MAIN)]
    return Body(columns, rows, others(groups, group(_runs(records, preset))), groups=groups)


def chosen(records: Records, preset: str) -> list[Group]:
    """Return the setting that the search found for each module; a module whose setting was not run yet is left out.

    For a module without a search it is the setting of most seeds, then of the best validation score.
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


def _of(table: str, groups: list[Group], models: str) -> list[Group]:
    """Return the groups of all memories, or of some."""
    wanted = named(models, (item.model for item in groups), f"table '{table}': no run of {{!r}}")
    return [item for item in groups if item.model in wanted]


def _validated(item: Group) -> float:
    return item.estimate(*CHOSEN_BY).mean if item.has(*CHOSEN_BY) else 0.0


def _varied(run: Record) -> list[Any]:
    return [run.find("config", name) for name in VARIED]


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
    """Return the scores of a decoder that receives exactly which rivals a pair has, in one turn or in several."""
    groups = group(_runs(records, preset, told=True), apart=("turns", "exact_ranks"))
    if not groups:
        return None
    groups.sort(key=lambda item: (item.title, _turns(item)))
    columns, rows = fill(
        groups,
        (Column("Module", left=True), lambda item: item.title),
        (Column("Turns"), lambda item: str(_turns(item))),
        *((Column(*FIELDS[name]), partial(_cell, name=name)) for name in SINGLE),
        (Column("Seeds"), seeds),
    )
    rows += [("Greedy solver", ABSENT, *greedy, ABSENT) for greedy in _greedy(groups, SINGLE)]
    return Body(columns, rows, groups=groups)


@table(
    "linksets-violations",
    task=TASK,
    title="Violated constraints, preset {preset}",
    notes="Violation rate in %{interval}; decoded: after the step that makes the set feasible.",
)
def violations(records: Records, preset: str) -> Body | None:
    """Return the share of violated constraints before and after decoding; rules never broken are in the notes."""
    runs = _runs(records, preset)
    groups = group(runs)
    start, decoded = "test/violations_", "test/decoded_violations_"
    scores = [run.mapping("metrics", "final") for run in runs]
    rules = dict.fromkeys(name.removeprefix(start) for final in scores for name in final if name.startswith(start))
    names = [name for name in rules if any(final.get(part + name) for final in scores for part in (start, decoded))]
    if not names:
        return None
    never = [name.replace("_", " ") for name in rules if name not in names]

    def percentage(item: Group, name: str) -> str:
        return score(item, "metrics", "final", name, scale=100, digits=1)

    columns, rows = fill(
        groups,
        (Column("Module", left=True), lambda item: item.title),
        *(
            (Column(name.replace("_", " ").capitalize(), group=heading), partial(percentage, name=part + name))
            for part, heading in ((start, "as predicted"), (decoded, "decoded"))
            for name in names
        ),
    )
    notes = [f"Never broken, before or after: {', '.join(never)}."] if never else []
    return Body(columns, rows, notes, groups=groups)


def _runs(records: Records, preset: str, *, told: bool = False) -> list[Record]:
    """Return the runs whose decoder has the memory alone, or those whose decoder receives the ranks."""
    return [run for run in records.runs(TASK, preset) if bool(run.mapping("config").get("exact_ranks")) == told]


def _turns(item: Group) -> int:
    return int(item.first.number("config", "turns")) if item.first.find("config", "turns") is not None else 1


def _gap(groups: Sequence[Group]) -> list[str]:
    """Compare Anchored with Cross-Attn in every configuration that was run, since another may suit it better."""
    anchored = next((item for item in groups if item.model == "anchored" and not item.variant), None)
    if anchored is None:
        return []
    ours = anchored.by_seed(*TEST_F1)
    sentences = []
    for item in groups:
        theirs = item.by_seed(*TEST_F1)
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


def _greedy(groups: Sequence[Group], fields: Sequence[str]) -> list[list[str]]:
    """Return the scores of the greedy solver as one row, if they were recorded; its sets are feasible as they are."""
    if not groups[0].has("metrics", "final", "greedy/f1"):
        return []
    names = {"test": "greedy/f1", "larger": "greedy/larger_f1"}
    cells = []
    for split, _, measure in (name.partition("/") for name in fields):
        reference = ("metrics", "final", names[split])
        solved = measure in ("f1", "decoded_f1") and groups[0].has(*reference)
        cells.append(plain(groups[0].estimate(*reference).mean) if solved else ABSENT)
    return [cells]


def has_score(item: Group, name: str) -> bool:
    """Return whether all runs have a score, and for decoded sets a separate threshold, which the first runs lack."""
    decoded = name.endswith("decoded_f1")
    return item.has("metrics", "final", name) and (not decoded or item.has("metrics", "final", "decoded_threshold"))


def _cell(item: Group, name: str) -> str:
    if name == "test/f1" or has_score(item, name):
        return show(item.estimate("metrics", "final", name))
    return ABSENT


@figure(
    "calibration",
    task=TASK,
    title="Does confidence mean anything? (preset {preset})",
    caption="""
    Pairs are binned by the predicted probability of a link and compared with how many really are links; each line is a
    seed, and larger dots hold more pairs. On the dashed diagonal a model is calibrated; a confident model has its large
    dots at the two ends.
    """,
)
def calibration(records: Records, preset: str) -> list[Figure]:
    """Draw observed frequency against predicted confidence, marker area by number of pairs; one panel per model."""
    panels = []
    for item, ink in inked(usual_groups(records, TASK, preset), "diagnostics", "calibration"):
        drawn, axes = panel(item.short, "confidence", "share that are links", (2.5, 2.5))
        axes.plot([0, 1], [0, 1], color=MUTED, lw=0.9, ls=(0, (4, 3)))
        for run in item.runs:
            columns = [
                run.numbers("diagnostics", "calibration", name, gaps=True)
                for name in ("confidence", "frequency", "weight")
            ]
            if len({len(column) for column in columns}) > 1:
                raise run.error("field 'diagnostics.calibration' has columns of different lengths.")
            points = [point for point in zip(*columns, strict=True) if None not in point and point[2] > 0]
            heaviest = max((weight for _, _, weight in points), default=1.0)
            across, up = [point[0] for point in points], [point[1] for point in points]
            curve(axes, across, up, f"seed {run.seed}", ink, lw=1.0, alpha=0.6)
            # A square root keeps the rare, confident bins visible beside the bin of certain non-links.
            areas = [4 + 50 * (weight / heaviest) ** 0.5 for _, _, weight in points]
            axes.scatter(across, up, areas, color=ink, alpha=0.55, lw=0, gid=belongs(f"seed {run.seed}"))
        axes.set_xlim(-0.03, 1.03)
        axes.set_ylim(-0.03, 1.03)
        axes.set_aspect("equal")
        panels.append(drawn)
    return panels
