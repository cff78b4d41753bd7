"""Multiplicity-aware Two-Radius: paired graphs that differ only in how often each source is repeated."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Int

from .batch import Sources, TwoRadiusBatch, lay_out, shuffled_rows

Rendering = Literal["full", "collapsed"]


@dataclass(frozen=True)
class CountedTask:
    """Maps a random generator to a batch of counted Two-Radius graphs.

    An assignment is a labelling ``π`` and base counts ``a_i ~ Unif{1..A}``. At scale ``r`` its graph has
    ``c_i = r a_i`` identical sources ``(i, π(i))``, linked to every centre, and one target per identifier, linked from
    every centre. Target ``i`` must give ``(π(i), c_i)``. The graphs of one assignment are paired: they differ in ``r``
    only, and no feature tells the number of nodes.

    Paper: ``sec:benchmarks`` A, ``app:protocol``.

    Departs: graphs are ragged, not padded to the largest.

    Args:
        num_identifiers: ``n``, source types and targets per graph.
        max_base_count: ``A``.
        scales: Scales ``r`` at which every assignment is rendered.
        num_labels: Labels to draw from; the number of identifiers unless told.
        num_counts: Largest count a model can name; the largest there is unless told.
        num_centres: Centres per graph.
        distinct_labels: Draw labels without repetition (a permutation when there are ``n``) or independently.
        rendering: ``"full"`` gives every copy a node; ``"collapsed"`` stores identical copies once, with their
            multiplicity. Both renderings of one stream hold the same assignments and the same order of targets.

    Example:
        >>> from mooring.suite.two_radius.data import stream
        >>> batch = CountedTask(rendering="collapsed").batch(32, stream(0, "train"))
        >>> batch.num_graphs, batch.num_nodes, int(batch.y_count.max())
        (96, 2400, 12)
    """

    num_identifiers: int = 12
    max_base_count: int = 4
    scales: tuple[int, ...] = (1, 2, 3)
    num_labels: int | None = None
    num_counts: int | None = None
    num_centres: int = 1
    distinct_labels: bool = True
    rendering: Rendering = "full"

    def __post_init__(self) -> None:
        for name in ("num_identifiers", "max_base_count", "num_centres"):
            if getattr(self, name) < 1:
                raise ValueError(f"two-radius: {name}={getattr(self, name)}, expected at least 1.")
        if not self.scales or min(self.scales) < 1:
            raise ValueError(f"two-radius: scales={self.scales}, expected one or more scales of at least 1.")
        if len(set(self.scales)) < len(self.scales):
            raise ValueError(f"two-radius: scales={self.scales} names a scale twice. Drop the repetition.")
        if self.rendering not in get_args(Rendering):
            raise ValueError(f"two-radius: rendering={self.rendering!r}, expected 'full' or 'collapsed'.")
        if self.labels < 1:
            raise ValueError(f"two-radius: num_labels={self.num_labels}, expected at least 1.")
        if self.distinct_labels and self.labels < self.num_identifiers:
            raise ValueError(
                f"two-radius: {self.num_identifiers} identifiers need as many distinct labels, but "
                f"num_labels={self.num_labels}. Raise num_labels or set distinct_labels=False."
            )
        for scale in sorted(self.scales):
            if scale * self.max_base_count > self.counts:
                raise ValueError(
                    f"two-radius: base count {self.max_base_count} at scale {scale} gives "
                    f"{scale * self.max_base_count}, above num_counts={self.num_counts}. "
                    "Raise num_counts or drop a scale."
                )

    @property
    def labels(self) -> int:
        """Number of labels; ``labels`` itself is the null label of centres and targets."""
        return self.num_identifiers if self.num_labels is None else self.num_labels

    @property
    def counts(self) -> int:
        """Largest count there is a class for."""
        return self.max_base_count * max(self.scales) if self.num_counts is None else self.num_counts

    def batch(self, assignments: int, rng: np.random.Generator) -> TwoRadiusBatch:
        """Draw ``assignments`` and render each at every scale: graph ``b * len(scales) + s`` is assignment ``b``."""
        n, num_scales = self.num_identifiers, len(self.scales)
        label = np.repeat(self._draw_labels(assignments, rng), num_scales, axis=0)
        base = rng.integers(1, self.max_base_count, (assignments, n), endpoint=True)
        scale = np.tile(np.array(self.scales), assignments)
        count = np.repeat(base, num_scales, axis=0) * scale[:, None]
        # Targets are ordered before sources: only the latter use a stream whose length depends on the rendering.
        target_identifier = shuffled_rows(rng, len(scale), n)
        return lay_out(
            self._sources(label, count, rng),
            target_identifier,
            label,
            count,
            scale,
            num_centres=self.num_centres,
            centre_label=self.labels,
            target_label=self.labels,
        )

    def _draw_labels(self, assignments: int, rng: np.random.Generator) -> Int[np.ndarray, "assignments identifiers"]:
        if self.distinct_labels:
            return shuffled_rows(rng, assignments, self.labels)[:, : self.num_identifiers]
        return rng.integers(self.labels, size=(assignments, self.num_identifiers))

    def _sources(
        self,
        label: Int[np.ndarray, "graphs identifiers"],
        count: Int[np.ndarray, "graphs identifiers"],
        rng: np.random.Generator,
    ) -> Sources:
        copies = count.reshape(-1) if self.rendering == "full" else np.ones(count.size, np.int64)
        kind = np.repeat(np.arange(count.size), copies)
        graph = kind // self.num_identifiers
        # A fraction added to the graph number shuffles inside graphs and keeps the graphs in order.
        kind = kind[np.argsort(graph + rng.random(len(kind)))]
        multiplicity = np.ones_like(kind) if self.rendering == "full" else count.reshape(-1)[kind]
        return Sources(graph, kind % self.num_identifiers, label.reshape(-1)[kind], multiplicity)
