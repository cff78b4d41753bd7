"""Permutation-valued Two-Radius: labels alone, for questions of capacity."""

from dataclasses import dataclass

import numpy as np

from .batch import TwoRadiusBatch
from .counted import CountedTask


@dataclass(frozen=True)
class PermutationTask:
    """Maps a random generator to a batch of graphs whose labels form a uniformly random permutation.

    Source ``i`` occurs once and carries ``π(i)``; target ``j`` must give ``π(j)``. The state between them has to tell
    ``n!`` assignments apart, so ``L_eff d b >= log2 n!``.

    Paper: ``sec:background``, ``thm:lower``, ``thm:upper``.

    Departs: edges run from sources to centres to targets, as in the paper's counted task.

    Args:
        num_identifiers: ``n``, sources and targets per graph.
        num_centres: Centres per graph.

    Example:
        >>> from mooring.suite.two_radius.data import stream
        >>> batch = PermutationTask(5).batch(1, stream(0, "train"))
        >>> sorted(batch.y_label.tolist())
        [0, 1, 2, 3, 4]
    """

    num_identifiers: int
    num_centres: int = 1

    def __post_init__(self) -> None:
        self._counted()

    @property
    def labels(self) -> int:
        """Number of labels; ``labels`` itself is the null label of centres and targets."""
        return self.num_identifiers

    def batch(self, graphs: int, rng: np.random.Generator) -> TwoRadiusBatch:
        """Draw ``graphs`` independent graphs."""
        return self._counted().batch(graphs, rng)

    def _counted(self) -> CountedTask:
        return CountedTask(
            num_identifiers=self.num_identifiers, max_base_count=1, scales=(1,), num_centres=self.num_centres
        )
