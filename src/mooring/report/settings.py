"""Settings of a run by name, wherever its configuration keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.report.paper import References, references
from mooring.report.records import Record, RecordError

_NEEDED = object()


def setting(run: Record, name: str, default: Any = _NEEDED) -> Any:
    """A field of the run's configuration, at its top or in one of its parts (`config.task.num_identifiers`)."""
    config = run.mapping("config")
    for part in (config, *(value for value in config.values() if isinstance(value, Mapping))):
        if part.get(name) is not None:
            return part[name]
    if default is _NEEDED:
        raise RecordError(
            f"{run.path}: field 'config.{name}' is missing. Write the record again with `mooring run {run.task}`."
        )
    return default


def reference_lines(run: Record) -> References:
    """What a blind model reaches under the run's own settings; the paper's where the record does not say."""
    identifiers = int(setting(run, "num_labels", setting(run, "num_identifiers", 12)))
    scales = [int(scale) for scale in setting(run, "scales", (1, 2, 3))]
    return references(identifiers, int(setting(run, "max_base_count", 4)), scales)
