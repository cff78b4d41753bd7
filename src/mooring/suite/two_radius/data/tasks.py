"""Two-Radius tasks: counted, permutation-valued and original."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from mooring.suite.two_radius.data.batch import Sources, Split, TwoRadiusBatch, lay_out, shuffled_rows, stream

Rendering = Literal["full", "collapsed"]


@dataclass(frozen=True)
class CountedTask:
    """Random generator -> batch of counted Two-Radius graphs.

    An assignment is a labelling ``π`` and base counts ``a_i ~ Unif{1..A}``. At scale ``r`` its graph has
    ``c_i = r a_i`` identical sources ``(i, π(i))``, linked to every centre, and one target per identifier, linked from
    every centre. Target ``i`` must answer ``(π(i), c_i)``. The graphs of one assignment are paired: they differ only in
    ``r``, and no feature reveals the number of nodes.

    Paper: ``sec:benchmarks`` A, ``app:protocol``.

    Departs: graphs are ragged, not padded to the largest.

    Args:
        num_identifiers: ``n``, source types and targets per graph.
        max_base_count: ``A``.
        scales: scales ``r`` at which every assignment is rendered.
        num_labels: number of labels; by default as many as identifiers.
        num_counts: largest count that a model can predict; by default the largest that occurs.
        num_centres: centres per graph.
        distinct_labels: draw labels without repetition (a permutation when there are ``n``) or independently.
        rendering: ``"full"`` gives every copy a node; ``"collapsed"`` stores identical copies once, with their
            multiplicity. Both renderings of one stream have the same assignments and the same order of targets.

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
                f"num_labels={self.num_labels}. Raise num_labels or lower num_identifiers."
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
        """Largest count that has a class."""
        return self.max_base_count * max(self.scales) if self.num_counts is None else self.num_counts

    def batch(self, assignments: int, rng: np.random.Generator) -> TwoRadiusBatch:
        """Draw ``assignments``, each rendered at every scale: graph ``b * len(scales) + s`` is assignment ``b``."""
        n, num_scales = self.num_identifiers, len(self.scales)
        label = np.repeat(self._draw_labels(assignments, rng), num_scales, axis=0)
        base = rng.integers(1, self.max_base_count, (assignments, n), endpoint=True)
        scale = np.tile(np.array(self.scales), assignments)
        count = np.repeat(base, num_scales, axis=0) * scale[:, None]
        # Draw the order of targets first: the number of draws for the sources depends on the rendering.
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
        # Adding a fraction to the graph number shuffles within graphs and keeps the graphs in order.
        kind = kind[np.argsort(graph + rng.random(len(kind)))]
        multiplicity = np.ones_like(kind) if self.rendering == "full" else count.reshape(-1)[kind]
        return Sources(graph, kind % self.num_identifiers, label.reshape(-1)[kind], multiplicity)


@dataclass(frozen=True)
class PermutationTask:
    """Random generator -> batch of graphs whose labels form a uniformly random permutation.

    Source ``i`` occurs once and has label ``π(i)``; target ``j`` must answer ``π(j)``. The state between them has to
    distinguish ``n!`` assignments, so ``L_eff d b >= log2 n!``.

    Paper: ``sec:background``, ``thm:lower``, ``thm:upper``.

    Departs: edges run from sources to centres to targets, as in the paper's counted task.

    Args:
        num_identifiers: ``n``, sources and targets per graph.
        num_centres: centres per graph.

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


@dataclass(frozen=True)
class OriginalSplit:
    """One split as compact tables, one row per graph; graphs are laid out per batch."""

    task: "OriginalTask"
    label: Int[np.ndarray, "graphs identifiers"]
    source_identifier: Int[np.ndarray, "graphs identifiers"]
    target_identifier: Int[np.ndarray, "graphs identifiers"]

    def __len__(self) -> int:
        return len(self.label)

    def batch(self, rows: Int[np.ndarray, " rows"] | slice) -> TwoRadiusBatch:
        """Return the graphs of the given rows, in that order."""
        label, source, target = self.label[rows], self.source_identifier[rows], self.target_identifier[rows]
        ones = np.ones_like(label)
        sources = Sources(
            graph=np.repeat(np.arange(len(label)), self.task.num_identifiers),
            identifier=source.reshape(-1),
            label=np.take_along_axis(label, source, axis=1).reshape(-1),
            multiplicity=ones.reshape(-1),
        )
        return lay_out(
            sources,
            target,
            label,
            ones,
            ones[:, 0],
            num_centres=self.task.num_centres,
            centre_label=0,
            target_label=self.task.num_classes - 1,
            reverse_edges=True,
        )


@dataclass(frozen=True)
class OriginalTask:
    """Seed -> the three splits of the original task.

    A graph has ``n`` sources, ``K`` centres and ``n`` targets; every source and every target is linked to every centre
    in both directions. Labels are independent and uniform over the classes; target ``j`` must answer the label of
    source ``j``. Features are a one-hot identifier over ``n + K`` and a one-hot label over the classes.

    Paper: Mishayev et al., arXiv 2511.20406. As in its published code there is no null label: centres have class 0 and
    targets the last class. A source and its target have the same identifier, and no feature reveals the role.

    Args:
        num_identifiers: ``n``, sources and targets per graph.
        num_classes: labels.
        num_centres: ``K``.
        sizes: graphs in the training, validation and test split.

    Example:
        >>> task = OriginalTask(5, sizes=(7, 3, 2))
        >>> batch = task.split(seed=0, split="train").batch(slice(0, 2))
        >>> batch.num_nodes, tuple(task.features(batch).shape)
        (22, (22, 16))
    """

    num_identifiers: int
    num_classes: int = 10
    num_centres: int = 1
    sizes: tuple[int, int, int] = (7000, 700, 700)

    def __post_init__(self) -> None:
        if self.num_identifiers < 2:
            raise ValueError(
                f"two-radius: num_identifiers={self.num_identifiers}, expected at least 2: "
                "with one source there is nothing to address."
            )
        if self.num_classes < 2:
            raise ValueError(f"two-radius: num_classes={self.num_classes}, expected at least 2.")
        if self.num_centres < 1:
            raise ValueError(f"two-radius: num_centres={self.num_centres}, expected at least 1.")
        if len(self.sizes) != 3 or min(self.sizes) < 1:
            raise ValueError(
                f"two-radius: sizes={self.sizes}, expected three sizes of at least 1 (training, validation, test)."
            )

    def split(self, seed: int, split: Split) -> OriginalSplit:
        """Draw one split, a pure function of the seed and the split."""
        names: tuple[Split, ...] = ("train", "validation", "test")
        if split not in names:
            raise ValueError(f"two-radius: unknown split {split!r}. Choose one of {', '.join(names)}.")
        rng = stream(seed, split)
        graphs = self.sizes[names.index(split)]
        return OriginalSplit(
            task=self,
            label=rng.integers(self.num_classes, size=(graphs, self.num_identifiers)),
            source_identifier=shuffled_rows(rng, graphs, self.num_identifiers),
            target_identifier=shuffled_rows(rng, graphs, self.num_identifiers),
        )

    def features(self, batch: TwoRadiusBatch) -> Float[Tensor, "nodes features"]:
        """Return the one-hot identifier concatenated with the one-hot label."""
        identifier = one_hot(batch.identifier, self.num_identifiers + self.num_centres)
        return torch.cat([identifier, one_hot(batch.label, self.num_classes)], dim=1).float()
