"""The sizes of a memory under measurement."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.nn.fold import folds_keys


@dataclass(frozen=True)
class Setting:
    """Width of the features, slots and heads; the defaults are those of the published tables."""

    dim: int = 128
    slots: int = 16
    heads: int = 4

    def __post_init__(self) -> None:
        if min(self.dim, self.slots, self.heads) < 1 or self.dim % self.heads:
            raise ValueError(
                f"bench: dim={self.dim}, slots={self.slots}, heads={self.heads} but positive sizes were expected, "
                "and heads that divide dim."
            )

    @property
    def rows(self) -> int:
        """Slot queries of all heads."""
        return self.slots * self.heads

    @property
    def folded(self) -> bool:
        """Whether projections folded into the slots are the cheaper order."""
        return folds_keys(self.slots, self.heads, self.dim)
