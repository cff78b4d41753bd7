"""The tables that README and docs can ask for by name, with their options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any

from mooring.suite.report.builders import (
    audit,
    bench,
    leaderboard,
    linksets,
    motifs,
    original,
    soak,
    theory,
    two_radius,
)
from mooring.suite.report.records import COMMANDS, Records
from mooring.suite.report.tables import Table


def _bench(records: Records, name: str) -> Table:
    """The table of one bench record, by its name."""
    tables = {table.name: table for table in bench.measurements(records)}
    if f"bench-{name}" not in tables:
        raise ValueError(f"table 'bench': no bench record named '{name}'. Write it with `{COMMANDS['bench']}`.")
    return tables[f"bench-{name}"]


# The task whose runs a table needs; a preset without any would give an empty table.
TASKS: Mapping[str, str] = {
    "two-radius": two_radius.TASK,
    "two-radius-diagnostics": two_radius.TASK,
    "two-radius-original": original.TASK,
    "motifs": motifs.TASK,
    "motifs-splits": motifs.TASK,
    "motifs-each": motifs.TASK,
    "linksets": linksets.TASK,
    "linksets-violations": linksets.TASK,
    "leaderboard": leaderboard.TASK,
    "leaderboard-costs": leaderboard.TASK,
}
TABLES: Mapping[str, Callable[..., Table | None]] = {
    "two-radius": two_radius.accuracy,
    "two-radius-diagnostics": two_radius.diagnostics,
    "two-radius-original": original.accuracy,
    "motifs": motifs.beside_paper,
    "motifs-splits": motifs.all_splits,
    "motifs-each": motifs.per_motif,
    "linksets": linksets.scores,
    "linksets-violations": linksets.violations,
    "leaderboard": leaderboard.leaderboard,
    "leaderboard-costs": leaderboard.costs,
    "verify": theory.checks,
    "audit": audit.cards,
    "audit-ranges": audit.ranges,
    "audit-zoo": audit.zoo,
    "bench": _bench,
    "soak": soak.counts,
}


def build(name: str, records: Records, /, **options: Any) -> Table:
    """The table of this name, e.g. build("two-radius", records, preset="paper")."""
    if name not in TABLES:
        close = get_close_matches(name, TABLES, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(TABLES)}."
        raise ValueError(f"no table '{name}'; {hint}")
    known = {key: value for key, value in signature(TABLES[name]).parameters.items() if key != "records"}
    for option in options:
        if option not in known:
            close = get_close_matches(option, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"it takes {', '.join(known) or 'none'}."
            raise ValueError(f"table '{name}': unknown option '{option}'; {hint}")
    for option, parameter in known.items():
        if parameter.default is Parameter.empty and option not in options:
            raise ValueError(f"table '{name}': option '{option}' is missing. Write {option}=... after the name.")
    task, preset = TASKS.get(name), options.get("preset")
    if task and not records.runs(task, preset):
        which = f" with preset '{preset}'" if preset else ""
        command = COMMANDS["run"].format(task=task, preset=preset) if preset else f"mooring run {task}"
        raise ValueError(f"table '{name}': no run of {task}{which}. Write one with `{command}`.")
    kind = name.partition("-")[0]
    if kind in ("verify", "audit") and not records.kind(kind):
        raise ValueError(f"table '{name}': no {kind} record. Write one with `{COMMANDS[kind]}`.")
    table = TABLES[name](records, **options)
    if table is None:
        raise ValueError(f"table '{name}': the {task or kind} records hold nothing for it. Write them again.")
    return table
