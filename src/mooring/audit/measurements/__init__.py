"""The measurements: each a function of (adapter, seed, trials) that returns a finding."""

from collections.abc import Callable

from mooring.audit.adapters import Adapter
from mooring.audit.finding import Finding
from mooring.audit.measurements.addressability import addressability
from mooring.audit.measurements.batching import batch_mates, padding
from mooring.audit.measurements.cost import cost_growth
from mooring.audit.measurements.dtypes import dtypes
from mooring.audit.measurements.empty_set import empty_set
from mooring.audit.measurements.numeric_range import numeric_range
from mooring.audit.measurements.permutation import permutation, unsorted_index
from mooring.audit.measurements.replication import replication
from mooring.audit.measurements.separability import separability

Measurement = Callable[[Adapter, int, int], Finding]

MEASUREMENTS: dict[str, Measurement] = {
    "replication": replication,
    "addressability": addressability,
    "separability": separability,
    "permutation": permutation,
    "unsorted_index": unsorted_index,
    "batch_mates": batch_mates,
    "padding": padding,
    "empty_set": empty_set,
    "numeric_range": numeric_range,
    "dtypes": dtypes,
    "cost_growth": cost_growth,
}

__all__ = ["MEASUREMENTS", "Measurement", *MEASUREMENTS]
