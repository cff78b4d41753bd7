"""Every module in one table: what it recovers, what it counts, what it costs."""

from __future__ import annotations

from mooring.report import paper
from mooring.report.builders.audit import findings
from mooring.report.groups import Group, group, usual_only
from mooring.report.records import Records
from mooring.report.tables import ABSENT, Column, Table, percent, show

TASK = "two-radius-leaderboard"
# The preset of a sweep, which is drawn and not ranked.
WIDTH = "width"
VERDICTS = {"replication": "Counts", "addressability": "Addressable", "batch_mates": "Batch mates"}


def leaderboard(records: Records, preset: str, motifs: str | None = None) -> Table:
    """Modules by Both, best first, with motif errors and audit verdicts where those records exist.

    Args:
        records: all records.
        preset: preset of the leaderboard's runs.
        motifs: preset of the motif runs; the fullest there is unless told.
    """
    counted = _at_best_rates(group(records.runs(TASK, preset)))
    motifs = motifs or next(iter(records.presets("motifs")), None)
    census = {item.model: item for item in usual_only(group(records.runs("motifs", motifs)))} if motifs else {}
    cards = {card.find("model") or card.text("module"): findings(card) for card in records.kind("audit")}
    verdicts = [name for name in VERDICTS if any(name in card for card in cards.values())]
    rows = []
    for item in sorted(counted.values(), key=lambda item: -item.estimate("metrics", "best", "both").mean):
        card = cards.get(item.model, {})
        rows.append(
            (
                paper.title(item.model),
                *(percent(item.estimate("metrics", "best", name)) for name in ("label", "count", "both")),
                *(_error(census.get(item.model), split) for split in ("iid", "jittered") if census),
                *(card[name].text("verdict").split(":")[0] if name in card else ABSENT for name in verdicts),
                f"{item.first.number('config', 'learning_rate'):g}",
                f"{item.first.whole('parameters', 'memory'):,}",
                str(len(item.runs)),
            )
        )
    columns = (
        Column("Module", left=True),
        *(Column(name, group="two-radius") for name in ("Label", "Count", "Both")),
        *(Column(name, group="motif log-MAE") for name in ("IID", "Jittered") if census),
        *(Column(VERDICTS[name], group="audit", left=True) for name in verdicts),
        Column("Rate"),
        Column("Parameters"),
        Column("Seeds"),
    )
    notes = (
        "Sorted by Both. Accuracies in %, mean ± 95 % interval over seeds; parameters are the module's own. Each "
        "module has the rate with the best validation Both.",
    )
    return Table("leaderboard", f"Every module, preset {preset}", columns, tuple(rows), notes)


def _at_best_rates(groups: list[Group]) -> dict[str, Group]:
    """For each model the configuration that was carried on to most seeds; of several, the one with the best Both."""
    chosen: dict[str, Group] = {}
    for item in sorted(groups, key=lambda item: (len(item.runs), item.estimate("metrics", "best", "both").mean)):
        chosen[item.model] = item
    return chosen


def _error(item: Group | None, split: str) -> str:
    if item is None or not item.has("metrics", "final", f"{split}/log_mae"):
        return ABSENT
    return show(item.estimate("metrics", "final", f"{split}/log_mae"))
