"""Writes docs/compatibility.md from the table of checks: ``python tests/compatibility/write_page.py``."""

from __future__ import annotations

import argparse
from pathlib import Path

from compared import OURS, PEERS
from lines import CHECKS, WORKS, Check, Fails

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"

INTRODUCTION = """\
# Compatibility

What works with PyTorch and PyG, what works with a note and what does not, beside PyG's `GPSConv`,
`SetTransformerAggregation` and `VirtualNode` transform. Every line is a test, for every module it names: the tests fail
when an outcome changes, for better or worse, and this page is written from the same table by
`python tests/compatibility/write_page.py`. Versions are those of `constraints.txt`, on a CPU.

*Mooring* is `SlotVirtualNode`, `SlotConv`, `HeteroSlotVirtualNode` with two node types, and `SlotAggregation`, unless a
cell names some of them. A dash: the question does not arise, or was not asked. After the transform it is the
convolutions that compute, so most lines are about them. A check in `tests/compatibility/lines.py` is named by its
function, other tests by their file.
"""


def page() -> str:
    sections = list(dict.fromkeys(check.section for check in CHECKS))
    return "\n".join([INTRODUCTION, *(section(name) for name in sections)])


def section(name: str) -> str:
    """A table, and the notes that its cells point to."""
    notes: list[str] = []
    rows = [row(check, notes) for check in CHECKS if check.section == name]
    peers = " | ".join(f"`{first}`{''.join(f' {word}' for word in rest)}" for first, *rest in map(str.split, PEERS))
    head = [f"| | Mooring | {peers} | tested in |", "|" + " --- |" * (len(PEERS) + 3)]
    listed = [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    return "\n".join([f"## {name}", "", *head, *rows, *(["", *listed] if listed else []), ""])


def row(check: Check, notes: list[str]) -> str:
    cells = [check.title, ours(check, notes)]
    cells += [cell(check.outcomes.get(name), "", notes) for name in PEERS]
    return f"| {' | '.join([*cells, tested(check)])} |"


def ours(check: Check, notes: list[str]) -> str:
    outcomes = [check.outcomes[name] for name in OURS if name in check.outcomes]
    failures = [one for one in outcomes if isinstance(one, Fails)]
    named = check.modules or [name for name in OURS if name in check.outcomes]
    found = cell(failures[0] if failures else WORKS, check.note, notes)
    return found if len(named) in (0, len(OURS)) else f"{found}: {', '.join(f'`{name}`' for name in named)}"


def cell(outcome: str | Fails | None, note: str, notes: list[str]) -> str:
    if outcome is None:
        return "–"
    text = outcome.note if isinstance(outcome, Fails) else note
    if text and text not in notes:
        notes.append(text)
    mark = f" [{notes.index(text) + 1}]" if text else ""
    return f"{'**no**' if isinstance(outcome, Fails) else 'works'}{mark}"


def tested(check: Check) -> str:
    files = dict.fromkeys(proof.split("::")[0] for proof in check.proof)
    names = [f"`{check.name}`"] if check.run is not None else []
    return ", ".join([*names, *(f"`{file}`" for file in files)])


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(page(), encoding="utf-8")
