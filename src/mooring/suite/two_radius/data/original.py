"""The original Two-Radius task of Mishayev et al.: a finite data set with links in both directions."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from .batch import Sources, TwoRadiusBatch, lay_out, shuffled_rows
from .streams import Split, stream


@dataclass(frozen=True)
class OriginalSplit:
    """One split as compact tables, one row a graph; graphs are laid out only when a batch is asked for."""

    task: "OriginalTask"
    label: Int[np.ndarray, "graphs identifiers"]
    source_identifier: Int[np.ndarray, "graphs identifiers"]
    target_identifier: Int[np.ndarray, "graphs identifiers"]

    def __len__(self) -> int:
        return len(self.label)

    def batch(self, rows: Int[np.ndarray, " rows"] | slice) -> TwoRadiusBatch:
        """The graphs of the given rows, in that order."""
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
    """Maps a seed to the three splits of the original task.

    A graph has ``n`` sources, ``K`` centres and ``n`` targets; every source and every target is linked to every centre
    in both directions. Labels are independent and uniform over the classes, target ``j`` must give the label of source
    ``j``. Features are a one-hot identifier over ``n + K`` and a one-hot label over the classes.

    Paper: Mishayev et al., arXiv 2511.20406. As in its published code there is no null label: centres carry class 0
    and targets the last class; the identifier of a source and of its target is the same, and no feature tells the role.

    Args:
        num_identifiers: ``n``, sources and targets per graph.
        num_classes: Labels.
        num_centres: ``K``.
        sizes: Graphs in the training, validation and test split.

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
        """One split: a pure function of the seed, whichever splits were drawn before."""
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
        """One-hot identifier beside one-hot label."""
        identifier = one_hot(batch.identifier, self.num_identifiers + self.num_centres)
        return torch.cat([identifier, one_hot(batch.label, self.num_classes)], dim=1).float()
