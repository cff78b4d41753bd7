"""Settings of a run by name, wherever its configuration keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.suite.report.paper import References, references
from mooring.suite.report.records import Record

LARGEST_COUNT = 10**9
# Products of scales and base counts; the published task has twelve.
MOST_COUNTS = 1000
_NEEDED = object()


def setting(run: Record, name: str, default: Any = _NEEDED) -> Any:
    """A field of the run's configuration, at its top or in one of its parts (`config.task.num_identifiers`)."""
    config = run.mapping("config")
    for part in (config, *(value for value in config.values() if isinstance(value, Mapping))):
        if part.get(name) is not None:
            return part[name]
    if default is _NEEDED:
        raise run.error(f"field 'config.{name}' is missing.")
    return default


def whole_setting(run: Record, name: str, default: Any = _NEEDED) -> int:
    """A setting that is a number of things: whole, at least one and not beyond what fits on an axis."""
    return _counted(run, name, setting(run, name, default))


def reference_lines(run: Record) -> References:
    """What a blind model reaches under the run's own settings; the paper's where the record does not say."""
    identifiers = whole_setting(run, "num_labels", whole_setting(run, "num_identifiers", 12))
    base, scales = whole_setting(run, "max_base_count", 4), setting(run, "scales", (1, 2, 3))
    if not isinstance(scales, list | tuple) or not 1 <= len(scales) * base <= MOST_COUNTS:
        got = f"{scales!r:.40} with max_base_count {base}"
        raise run.error(f"field 'config.scales' is {got}, expected a list that gives 1 to {MOST_COUNTS} counts.")
    return references(identifiers, base, [_counted(run, "scales", scale) for scale in scales])


def _counted(run: Record, name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST_COUNT:
        raise run.error(f"field 'config.{name}' is {value!r:.80}, expected a whole number from 1 to {LARGEST_COUNT:,}.")
    return value
