"""chemprop 2: slots as its readout, a memory inside its message passing, weights of atoms.

Importing this module adds ``"slots"`` to chemprop's ``AggregationRegistry``. ``python -m mooring.contrib.chemprop`` is
chemprop's command with that name known to it: ``... train --data-path FILE.csv --aggregation slots``.
"""

from __future__ import annotations

from typing import Any

import torch
from chemprop import nn as chemprop_nn
from chemprop.conf import DEFAULT_HIDDEN_DIM
from chemprop.data import BatchMolGraph
from chemprop.models import MPNN
from torch import Tensor, nn

from mooring import ops
from mooring.nn import SlotAggregation, SlotVirtualNode


@chemprop_nn.AggregationRegistry.register("slots")
class SlotReadout(chemprop_nn.Aggregation):
    """Atoms -> one vector per molecule: :class:`mooring.nn.SlotAggregation` as an aggregation of chemprop.

    Args:
        dim: as in chemprop, where it is always 0.
        output_size: width of the atoms, ``message_passing.output_dim``; chemprop's default width if left out.
        slots, heads, options: as in :class:`~mooring.nn.SlotAggregation`.

    A molecule without atoms gives what an empty set gives, and not zeros.

    >>> SlotReadout(output_size=8, slots=2)(torch.randn(3, 8), torch.tensor([0, 0, 1])).shape
    torch.Size([2, 8])
    """

    def __init__(
        self, dim: int = 0, *, output_size: int = DEFAULT_HIDDEN_DIM, slots: int = 8, heads: int = 4, **options: Any
    ) -> None:
        super().__init__(dim)
        self.hparams.update(output_size=output_size, slots=slots, heads=heads, **options)
        self.aggr = SlotAggregation(output_size, slots, heads, **options)

    def forward(self, H: Tensor, batch: Tensor, weights: Tensor | None = None) -> Tensor:
        """
        Args:
            H, batch: atoms and the molecule of each, as in chemprop.
            weights: how often each atom counts, ``[atoms]``: its share in a mixture, the degree of polymerisation of
                its repeat unit. An atom of weight 3 reads as three atoms; one of weight 0 is left out.
        """
        if weights is None:
            return self.aggr(H, batch)
        _check_weights(type(self).__name__, weights, len(H))
        plan = ops.plan(batch)
        state = self.aggr.write(H, plan, log_weight=weights.to(H.dtype).log())
        return self.aggr.lin(self.aggr.update(state, self.aggr.write.identity()).flatten(1))


class _SlotMessages:
    """A memory of the directed bonds of a molecule: to each message it adds what it changes in the bond's state.

    Passing the changed state on instead would lose it on the way: a bond's own state is no part of its next message.
    """

    memory: SlotVirtualNode

    def __init__(self, *, slots: int = 8, heads: int = 4, memory: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        block: Any = self
        block.memory = SlotVirtualNode(block.W_h.out_features, slots, heads, **(memory or {}))
        # chemprop builds the block again from them.
        block.hparams.update(slots=slots, heads=heads, memory=memory)

    def message(self, H: Tensor, bmg: BatchMolGraph) -> Tensor:
        change = self.memory(H, bmg.batch[bmg.edge_index[0]], num_graphs=len(bmg)) - H
        message = super().message(H, bmg)  # type: ignore[misc]
        # Messages along atoms also have the features of bonds, in their last columns.
        return message + nn.functional.pad(change, (0, message.size(1) - H.size(1)))


class SlotBondMessagePassing(_SlotMessages, chemprop_nn.BondMessagePassing):
    r"""chemprop's message passing along bonds, where bonds also exchange what they hold through slots.

    .. math::
        m_{vw} = \sum_{u \in N(v) \setminus w} h_{uv} + \operatorname{memory}(h)_{vw} - h_{vw}

    Args:
        slots, heads, memory: the memory's slots and heads, and further arguments of
            :class:`~mooring.nn.SlotVirtualNode`.
        kwargs: of ``BondMessagePassing``. The memory is used ``depth - 1`` times, with the same weights.
    """


class SlotAtomMessagePassing(_SlotMessages, chemprop_nn.AtomMessagePassing):
    """The same for chemprop's message passing along atoms, which also keeps one state for each directed bond.

    Args:
        slots, heads, memory: as in :class:`SlotBondMessagePassing`.
        kwargs: of ``AtomMessagePassing``.
    """


class WeightedMPNN(MPNN):
    """chemprop's model for weighted atoms: the last column of ``V_d`` is how often each atom counts in the readout.

    Build it as chemprop's ``MPNN``, with a :class:`SlotReadout`; pass ``V_d=weights[:, None]`` to each
    ``MoleculeDatapoint``. Further columns before the last remain descriptors of atoms.
    """

    def fingerprint(self, bmg: BatchMolGraph, V_d: Tensor | None = None, X_d: Tensor | None = None) -> Tensor:
        who = type(self).__name__
        if V_d is None:
            raise ValueError(
                f"{who}: V_d is missing, its last column being the weights of atoms. Pass V_d to every "
                "MoleculeDatapoint, or use chemprop's MPNN."
            )
        if not isinstance(self.agg, SlotReadout):
            raise TypeError(f"{who}: agg is a {type(self.agg).__name__} but only a SlotReadout takes weights.")
        descriptors = V_d[:, :-1] if V_d.size(1) > 1 else None
        H = self.bn(self.agg(self.message_passing(bmg, descriptors), bmg.batch, V_d[:, -1]))
        return H if X_d is None else torch.cat((H, self.X_d_transform(X_d)), dim=1)


def _check_weights(who: str, weights: Tensor, atoms: int) -> None:
    if tuple(weights.shape) != (atoms,):
        raise ValueError(
            f"{who}: weights has shape {list(weights.shape)} but H has {atoms} atoms. Pass one weight per atom."
        )
    if not bool((weights >= 0).all()):
        raise ValueError(f"{who}: weights has entries that are negative or NaN. Pass multiplicities of 0 or more.")


if __name__ == "__main__":
    from chemprop.cli.main import main

    from mooring.contrib import chemprop as importable

    # Run as a script this file is a second module; checkpoints must name the class of the first.
    chemprop_nn.AggregationRegistry["slots"] = importable.SlotReadout
    main()
