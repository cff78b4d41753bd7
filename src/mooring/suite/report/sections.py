"""The chapters of the page: which tables and figures each shows, and what to say when its records are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mooring.suite.report.builders import audit, bench, leaderboard, linksets, motifs, original, theory, two_radius
from mooring.suite.report.figures import (
    calibration,
    capacity,
    confusion,
    curves,
    distance,
    heatmaps,
    idea,
    motif_error,
    scales,
    width,
)
from mooring.suite.report.figures import original as original_figure
from mooring.suite.report.figures.series import series
from mooring.suite.report.figures.style import Picture
from mooring.suite.report.groups import group, usual_only
from mooring.suite.report.records import COMMANDS, Records
from mooring.suite.report.settings import reference_lines
from mooring.suite.report.tables import Table

Block = Table | Picture
PERMUTATION = "two-radius-permutation"
BENCH_CAPTION = (
    "Cost measured in one run, every module on the same tensors. A line that stays below another is cheaper at every "
    "size "
    "shown, and a steeper one loses more as graphs grow."
)


@dataclass(frozen=True)
class Section:
    """A chapter of the page."""

    name: str
    title: str
    lead: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Chapter:
    """What a section is made by, and the command that writes its records."""

    name: str
    title: str
    lead: str
    command: str
    build: Callable[[Records], Iterable[Block | None]]

    def section(self, records: Records) -> Section | None:
        """The section, or None where no record has anything for it."""
        blocks = tuple(block for block in self.build(records) if block is not None)
        return Section(self.name, self.title, self.lead, blocks) if blocks else None


def _two_radius(records: Records) -> Iterable[Block | None]:
    if records.presets(two_radius.TASK):
        yield idea.anchor_idea()
    for preset in records.presets(two_radius.TASK):
        # Tables first: a record that fits neither is then refused before anything is drawn.
        accuracy, diagnostics = two_radius.accuracy(records, preset), two_radius.diagnostics(records, preset)
        runs = records.runs(two_radius.TASK, preset)
        usual = usual_only(group(runs))
        reference = reference_lines(runs[0])
        pictures = (
            curves.learning_curves(usual, reference),
            distance.state_distance(usual),
            scales.count_by_scale(usual, reference),
            confusion.count_confusion(usual),
            heatmaps.write_weights(usual),
            heatmaps.read_weights(usual),
            heatmaps.anchor_weights(usual),
        )
        yield accuracy
        yield from (_of(picture, preset) for picture in pictures)
        yield diagnostics


def _original(records: Records) -> Iterable[Block | None]:
    runs = records.runs(original.TASK)
    if runs:
        yield original_figure.accuracy_by_size(runs)
        yield original.accuracy(records)


def _motifs(records: Records) -> Iterable[Block | None]:
    for preset in records.presets(motifs.TASK):
        yield motifs.beside_paper(records, preset)
        yield _of(motif_error.error_by_count(usual_only(group(records.runs(motifs.TASK, preset)))), preset)
        yield motifs.all_splits(records, preset)
        yield motifs.per_motif(records, preset)


def _linksets(records: Records) -> Iterable[Block | None]:
    for preset in records.presets(linksets.TASK):
        yield linksets.scores(records, preset)
        yield linksets.violations(records, preset)
        yield _of(calibration.calibration(usual_only(group(records.runs(linksets.TASK, preset)))), preset)


def _theory(records: Records) -> Iterable[Block | None]:
    if not records.kind("verify"):
        return
    yield theory.checks(records)
    for claim in theory.claims(records):
        parts = claim.parts("series")
        if parts:
            label = claim.text("label")
            caption = (
                f"Claim: {claim.text('statement').rstrip('.')}. Measured over {claim.whole('instances'):,} instances."
            )
            yield series(f"claim-{label.replace(':', '-')}", label, caption, parts)


def _audit(records: Records) -> Iterable[Block | None]:
    if records.kind("audit"):
        yield audit.cards(records)
        yield audit.ranges(records)
        yield audit.zoo(records)


def _leaderboard(records: Records) -> Iterable[Block | None]:
    for preset in records.presets(leaderboard.TASK):
        if preset != leaderboard.WIDTH:
            yield leaderboard.leaderboard(records, preset)
            yield leaderboard.costs(records, preset)
    yield width.by_width(records.runs(leaderboard.TASK, leaderboard.WIDTH))


def _bench(records: Records) -> Iterable[Block | None]:
    yield from bench.measurements(records)
    for record in records.kind("bench"):
        parts = record.parts("series")
        if parts:
            name = str(record.find("name") or record.path.stem)
            caption = str(record.find("caption") or BENCH_CAPTION)
            yield series(f"bench-{name}", f"Cost: {name}", caption, parts)


def _of(picture: Picture | None, preset: str) -> Picture | None:
    if picture is None:
        return None
    return Picture(f"{picture.name}-{preset}", f"{picture.title} (preset {preset})", picture.caption, picture.panels)


CHAPTERS = (
    Chapter(
        "two-radius",
        "Address and count: counted Two-Radius",
        "Twelve sources each hold a label and appear a different number of times; every target must name the label "
        "of the "
        "source with its own identifier and say how often it appeared. The label asks whether the memory can be "
        "addressed, the count whether it can count.",
        "mooring run two-radius",
        _two_radius,
    ),
    Chapter(
        "capacity",
        "How much must fit: slots and width",
        "A memory must be able to tell all n! permutations apart, so slots times width times bits has a least size "
        "(thm:lower). Here memories of many shapes are trained on one n.",
        # One run makes no map of slots by width.
        "python experiments/capacity.py",
        lambda records: [capacity.capacity(records.runs(PERMUTATION))],
    ),
    Chapter(
        "original",
        "The original Two-Radius task",
        "The task of Mishayev et al., on which message passing fails although every pair of nodes is two steps apart.",
        f"mooring run {original.TASK}",
        _original,
    ),
    Chapter(
        "motifs",
        "Motif census",
        "Six kinds of small motifs are planted in a random graph, and the readout must say how often each occurs. Mean "
        "pooling sees proportions only; whoever is to count needs the mass.",
        "mooring run motifs",
        _motifs,
    ),
    Chapter(
        "linksets",
        "Constrained link sets",
        "Whether a link belongs to the best set depends on links elsewhere: degrees, sectors and parity couple them "
        "all. "
        "There is no local message passing, so everything a pair learns of the rest comes through the memory.",
        "mooring run linksets",
        _linksets,
    ),
    Chapter(
        "leaderboard",
        "Every module",
        "All modules under one interface, one budget and one search of the learning rate.",
        f"mooring run {leaderboard.TASK} --preset screen",
        _leaderboard,
    ),
    Chapter(
        "verify",
        "The theorems, executed",
        "The paper's theorems, propositions and corollary as numerical checks; every check is run again on something "
        "that must fail it.",
        COMMANDS["verify"],
        _theory,
    ),
    Chapter(
        "audit",
        "What each module loses",
        "The same measurements pointed at any module: does it count, can it be addressed, does a graph's answer "
        "depend on "
        "the others in its batch?",
        COMMANDS["audit"],
        _audit,
    ),
    Chapter("bench", "Speed and memory", "Ratios measured in one run on one machine.", COMMANDS["bench"], _bench),
)
