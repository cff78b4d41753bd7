"""Table of the paper's claims as checked by `mooring verify`."""

from __future__ import annotations

from mooring.suite.report.records import Record, Records
from mooring.suite.report.tables import ABSENT, Column, Table


def claims(records: Records) -> list[Record]:
    """Every claim of every verify record, in the order it was checked."""
    return [claim for record in records.kind("verify") for claim in record.parts("claims")]


def checks(records: Records) -> Table:
    """One row per label: what is claimed, whether it held, by what margin, and whether the control was caught."""
    rows = []
    alarms = set()
    for place, claim in enumerate(claims(records)):
        passed, caught = claim.flag("passed"), claim.flag("control_failed")
        margin = claim.find("margin")
        rows.append(
            (
                claim.text("label"),
                claim.text("statement"),
                "yes" if passed else "NO",
                f"{claim.whole('instances'):,}",
                ABSENT if margin is None else f"{claim.number('margin'):.3g}",
                claim.text("margin_means"),
                claim.text("control"),
                "yes" if caught else "NO",
            )
        )
        alarms |= {(place, column) for column, fine in ((2, passed), (7, caught)) if not fine}
    columns = (
        Column("Label", left=True),
        Column("Claim", left=True, wide=True),
        Column("Holds"),
        Column("Instances"),
        Column("Margin"),
        Column("which is the", left=True, wide=True),
        Column("Control", left=True, wide=True),
        Column("Caught"),
    )
    notes = ("Every check also runs on a control that breaks a premise, and must reject it.",)
    return Table("verify", "The claims, checked", columns, tuple(rows), notes, frozenset(alarms))
