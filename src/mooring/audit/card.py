"""The result of an audit: every finding about one module, to read, to store and to assert on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch_geometric
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from mooring.audit.finding import Finding


class BrokenInvariantError(AssertionError):
    """A module does not keep an invariant that every module should."""


def _versions() -> dict[str, str]:
    return {"torch": str(torch.__version__), "torch_geometric": str(torch_geometric.__version__)}


@dataclass(frozen=True)
class Card:
    """Everything measured about one module.

    Args:
        module: Its name.
        kind: How it was called: ``aggregation``, ``virtual_node``, ``layer`` or ``dense``.
        channels: Width of the features it was given.
        findings: One finding per measurement, in the order they were made.
        seed: Seed of the inputs; the same seed gives the same card.
        notes: What the reader should know about how it was measured.
        versions: Of the libraries the module ran on; what is true of a module may be mended in the next.
    """

    module: str
    kind: str
    channels: int
    findings: tuple[Finding, ...]
    seed: int = 0
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=_versions)

    def __getitem__(self, name: str) -> Finding:
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(
            f"card of {self.module}: no finding {name!r}; it has {', '.join(f.name for f in self.findings)}."
        )

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings that break an invariant."""
        return tuple(finding for finding in self.findings if finding.broken)

    @property
    def counts(self) -> bool:
        """Whether the number of nodes can be read from the output."""
        return bool(self["replication"].details.get("counts", False))

    @property
    def messages(self) -> int:
        """How many different messages different nodes can receive; 0 where it could not be measured."""
        return int(self["addressability"].value or 0)

    def raise_for_broken(self) -> None:
        """Raise :class:`BrokenInvariantError` naming every broken invariant, or return."""
        if self.broken:
            lines = "".join(f"\n  {f.name}: {f.verdict} (worst: {f.worst_case}; {f.explanation})" for f in self.broken)
            raise BrokenInvariantError(
                f"{self.module} breaks {len(self.broken)} of {len(self.findings)} invariants:{lines}"
            )

    def to_record(self) -> dict[str, Any]:
        """Return the card as JSON-able values."""
        return {
            "schema": 1,
            "kind": "audit",
            "module": self.module,
            "called_as": self.kind,
            "channels": self.channels,
            "seed": self.seed,
            "notes": list(self.notes),
            "versions": dict(self.versions),
            "broken": [finding.name for finding in self.broken],
            "findings": [finding.to_record() for finding in self.findings],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Card:
        """Rebuild a card from :meth:`to_record`."""
        if record.get("kind") != "audit" or record.get("schema") != 1:
            raise ValueError(
                f"audit: expected a record of kind 'audit', schema 1; got kind {record.get('kind')!r}, schema "
                f"{record.get('schema')!r}. Write it again with this version."
            )
        return cls(
            module=record["module"],
            kind=record["called_as"],
            channels=record["channels"],
            findings=tuple(Finding.from_record(finding) for finding in record["findings"]),
            seed=record["seed"],
            notes=tuple(record["notes"]),
            versions=record["versions"],
        )

    def render(self) -> Panel:
        """Return the card as a panel for ``rich.print``."""
        table = Table(box=None, padding=(0, 1), show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(ratio=1)
        table.add_column(justify="right", no_wrap=True)
        for finding in self.findings:
            value = "" if finding.value is None else f"{finding.value:.3g}"
            mark = Text(finding.verdict, style="red" if finding.broken else "")
            table.add_row(finding.name.replace("_", " "), mark, value)
        called = Text(f"{self.kind.replace('_', ' ')} · {self.channels} channels", style="dim")
        foot = [Text(note, style="dim") for note in self.notes]
        end = (
            "no broken invariant"
            if not self.broken
            else f"broken: {', '.join(finding.name for finding in self.broken)}"
        )
        # Only the name stands in the border, where rich cuts what is too long; the rest wraps.
        last = Text(end, style="red" if self.broken else "green")
        border = "red" if self.broken else "green"
        return Panel(Group(called, table, *foot, last), title=Text(self.module), border_style=border)
