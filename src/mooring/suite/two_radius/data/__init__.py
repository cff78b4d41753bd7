"""Two-Radius data: every target must recover label and number of the sources that share its identifier."""

from mooring.suite.two_radius.data.batch import CENTRE, ROLES, SOURCE, TARGET, Split, TwoRadiusBatch, stream
from mooring.suite.two_radius.data.tasks import CountedTask, OriginalSplit, OriginalTask, PermutationTask

__all__ = [
    "CENTRE", "ROLES", "SOURCE", "TARGET", "CountedTask", "OriginalSplit", "OriginalTask", "PermutationTask", "Split",
    "TwoRadiusBatch", "stream",
]  # fmt: skip
