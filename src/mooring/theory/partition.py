"""The public partition of identifiers into groups, and the sign codes that address the groups."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

# Half the smallest gap between a matching and a mismatched logit: exp(-2000) is exactly 0 in float64, so a softmax
# over such logits is a hard selection and the proofs' disjoint blocks stay disjoint to the last bit.
SHARPNESS = 1000.0


@dataclass(frozen=True)
class Partition:
    """Balanced groups ``I_1..I_M`` of ``range(n)``: identifier i is number ``r(i)`` of group ``g(i)``.

    Paper: the construction of thm:upper.

    Example:
        >>> partition = Partition(n=7, slots=3)
        >>> partition.group(torch.arange(7)).tolist(), partition.sizes.tolist()
        ([0, 1, 2, 0, 1, 2, 0], [3, 2, 2])
    """

    n: int
    slots: int

    def __post_init__(self) -> None:
        if not 1 <= self.slots <= self.n:
            raise ValueError(
                f"Partition: slots={self.slots} for n={self.n} identifiers, but groups may not be empty. "
                "Use between 1 and n slots."
            )

    def group(self, identifier: Int64[Tensor, " nodes"]) -> Int64[Tensor, " nodes"]:
        return identifier % self.slots

    def position(self, identifier: Int64[Tensor, " nodes"]) -> Int64[Tensor, " nodes"]:
        return identifier // self.slots

    @property
    def capacity(self) -> int:
        """``ceil(n / M)``, the blocks of one slot."""
        return -(-self.n // self.slots)

    @property
    def sizes(self) -> Int64[Tensor, " slots"]:
        return torch.bincount(torch.arange(self.n) % self.slots, minlength=self.slots)


def sign_code(number: Int64[Tensor, " count"], total: int) -> Float64[Tensor, "count dim"]:
    """The binary digits of each number as +-1, in ``max(1, ceil(log2 total))`` dimensions.

    Two different codes disagree somewhere, so their product is at most ``dim - 2``.
    """
    dim = max(1, (total - 1).bit_length())
    return ((number.unsqueeze(1) >> torch.arange(dim)) & 1).double() * 2 - 1


def slot_query(code: Float64[Tensor, "slots dim"]) -> Float64[Tensor, "slots 1 extended"]:
    """Queries whose score is 0 on their own code's key and at most ``-2 SHARPNESS`` on any other sign code's."""
    offset = -code.square().sum(dim=1, keepdim=True)
    return (SHARPNESS * torch.cat([code, offset], dim=1)).unsqueeze(1)


def node_key(code: Float64[Tensor, "nodes dim"]) -> Float64[Tensor, "nodes 1 extended"]:
    """Keys that meet :func:`slot_query`; reading exchanges the two roles and the scores stay as they are."""
    return torch.cat([code, torch.ones(len(code), 1, dtype=code.dtype)], dim=1).unsqueeze(1)
