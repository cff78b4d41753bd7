"""The chapters of the page in their order, and the report that they make.

Every page names all chapters, also those without records, so their words are here and not beside the tables: the tables
and figures of a task are imported only if there is a record for them.
"""

from __future__ import annotations

from mooring.suite.report.exhibits import Exhibit, chapter
from mooring.suite.report.page import Report


@chapter(
    "two-radius",
    "Address and count: counted Two-Radius",
    lead="""
    Twelve sources each hold a label and appear a different number of times; every target must name the label of the
    source with its own identifier and say how often it appeared. The label asks whether the memory can be addressed,
    the count whether it can count.
    """,
    command="mooring run two-radius",
    needs="two-radius",
)
def two_radius() -> tuple[Exhibit, ...]:
    from mooring.suite.two_radius import figures, maps, tables

    return (
        figures.anchor_idea,
        tables.accuracy,
        figures.learning_curves,
        figures.state_distance,
        figures.count_by_scale,
        maps.count_confusion,
        maps.write_weights,
        maps.read_weights,
        maps.anchor_weights,
        tables.diagnostics,
    )


@chapter(
    "capacity",
    "How much must fit: slots and width",
    lead="""
    A memory must be able to tell all n! permutations apart, so slots times width times bits must reach a minimum
    (thm:lower). Here memories of many shapes are trained on one n.
    """,
    # One run makes no map of slots by width.
    command="python experiments/capacity.py",
    needs="two-radius-permutation",
)
def capacity() -> tuple[Exhibit, ...]:
    from mooring.suite.two_radius import maps

    return (maps.capacity,)


@chapter(
    "learning",
    "What training reaches",
    lead="""
    One wide state can hold what many slots hold; whether training finds it is another matter, and how many updates it
    takes to find the slots.
    """,
    # One run has one size.
    command="python experiments/wide_vn.py",
    needs="two-radius-leaderboard",
)
def learning() -> tuple[Exhibit, ...]:
    from mooring.suite.two_radius import learning, wide

    return wide.wide_states, wide.by_updates, wide.by_parameters, wide.by_width, learning.learnability


@chapter(
    "original",
    "The original Two-Radius task",
    lead="""
    The task of Mishayev et al., on which message passing fails although every pair of nodes is two steps apart.
    """,
    command="mooring run two-radius-original",
    needs="two-radius-original",
)
def original() -> tuple[Exhibit, ...]:
    from mooring.suite.two_radius import figures, tables

    return figures.accuracy_by_size, tables.original


@chapter(
    "motifs",
    "Motif census",
    lead="""
    Six kinds of small motifs are planted in a random graph, and the readout must say how often each occurs. Mean
    pooling sees proportions only; counting requires the mass.
    """,
    command="mooring run motifs",
    needs="motifs",
)
def motifs() -> tuple[Exhibit, ...]:
    from mooring.suite.motifs import tables

    return tables.beside_paper, tables.error_by_count, tables.all_splits, tables.per_motif


@chapter(
    "motifs-tuned",
    "Motif census, every module tuned",
    lead="The census of the leaderboard, with the same number of settings tried for every module.",
    command="python experiments/tuned.py",
    needs="motifs-leaderboard",
)
def motifs_tuned() -> tuple[Exhibit, ...]:
    from mooring.suite.motifs import tables

    return tables.tuned, tables.attribution


@chapter(
    "linksets",
    "Constrained link sets",
    lead="""
    Whether a link belongs to the best set depends on links elsewhere: degrees, sectors and parity couple them all.
    There is no local message passing, so everything a pair learns about the rest comes through the memory.
    """,
    command="mooring run linksets",
    needs="linksets",
)
def linksets() -> tuple[Exhibit, ...]:
    from mooring.suite.linksets import tables

    return tables.scores, tables.tuned, tables.ceiling, tables.violations, tables.calibration


@chapter(
    "molecules",
    "Molecules",
    lead="Small molecules of OGB, one number each: a solubility, an energy, or whether it inhibits.",
    command="mooring run molecules",
    needs="molecules",
)
def molecules() -> tuple[Exhibit, ...]:
    from mooring.suite.real import tables

    return (
        *(tables.molecules, tables.molecules_by_readout, tables.molecules_by_routing, tables.choosing),
        tables.molecules_curves,
    )


@chapter(
    "peptides",
    "Peptides",
    lead="""
    Ten functions of a peptide from its graph of 150 atoms, a long chain whose ends are far apart.
    """,
    command="mooring run peptides",
    needs="peptides",
)
def peptides() -> tuple[Exhibit, ...]:
    from mooring.suite.real import tables

    return tables.peptides, tables.peptides_by_readout, tables.peptides_by_routing, tables.peptides_curves


@chapter(
    "nodes",
    "Large graphs",
    lead="Which nodes of one graph of ten thousand belong to a class, with ten official splits.",
    command="mooring run nodes",
    needs="nodes",
)
def nodes() -> tuple[Exhibit, ...]:
    from mooring.suite.real import tables

    return tables.nodes, tables.nodes_curves


@chapter(
    "meshes",
    "Learned solvers on meshes",
    lead="""
    The temperature or the stress at every node of a plate with holes. It depends on the boundary on the other side of
    the plate, many more steps away than the network has layers.
    """,
    command="python experiments/meshes.py",
    needs="meshes",
)
def meshes() -> tuple[Exhibit, ...]:
    from mooring.suite.meshes import tables

    return tables.memories, tables.curves, tables.sizes


@chapter(
    "leaderboard",
    "Every module",
    lead="All modules under one interface, one budget and one search of the learning rate.",
    command="mooring run two-radius-leaderboard --preset screen",
    needs="two-radius-leaderboard",
)
def leaderboard() -> tuple[Exhibit, ...]:
    from mooring.suite import boards

    return boards.ranks, boards.leaderboard, boards.costs


@chapter(
    "verify",
    "The theorems, executed",
    lead="""
    The paper's theorems, propositions and corollary as numerical checks; every check is run again on something that
    must fail it.
    """,
    command="{verify}",
    needs="verify",
)
def verify() -> tuple[Exhibit, ...]:
    from mooring.suite.report import figures, tables

    return tables.verify, figures.claim


@chapter(
    "audit",
    "What each module loses",
    lead="""
    The same measurements pointed at any module: does it count, can it be addressed, does a graph's answer depend on
    the others in its batch?
    """,
    command="{audit}",
    needs="audit",
)
def audit() -> tuple[Exhibit, ...]:
    from mooring.suite.report import tables

    return tables.audit, tables.audit_ranges, tables.audit_zoo


@chapter(
    "bench",
    "Speed and memory",
    lead="Ratios measured in one run on one machine.",
    command="{bench}",
    needs="bench",
)
def bench() -> tuple[Exhibit, ...]:
    from mooring.suite.report import figures, tables

    return tables.kernels, tables.bench, figures.bench


def only_in_documents() -> tuple[Exhibit, ...]:
    """Return the tables that no chapter shows."""
    from mooring.suite.report import tables

    return tables.soak, tables.mutation


CHAPTERS = (
    two_radius,
    capacity,
    learning,
    original,
    motifs,
    motifs_tuned,
    linksets,
    molecules,
    peptides,
    nodes,
    meshes,
    leaderboard,
    verify,
    audit,
    bench,
)
REPORT = Report(CHAPTERS, only_in_documents)
build_report, tables_text, write_figures = REPORT.build, REPORT.tables_text, REPORT.write_figures
