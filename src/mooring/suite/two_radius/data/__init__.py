"""Two-Radius: every target must recover the label, and the number, of the sources that share its identifier."""

from .batch import CENTRE, ROLES, SOURCE, TARGET, TwoRadiusBatch
from .counted import CountedTask
from .original import OriginalSplit, OriginalTask
from .permutation import PermutationTask
from .streams import Split, stream

__all__ = [
    "CENTRE",
    "ROLES",
    "SOURCE",
    "TARGET",
    "CountedTask",
    "OriginalSplit",
    "OriginalTask",
    "PermutationTask",
    "Split",
    "TwoRadiusBatch",
    "stream",
]
