"""Everything a slot module is built from, as one value that configs hold and hand on."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from mooring.nn.slot_update import MassFeature, MassMap, UpdateNorm


@dataclass(frozen=True)
class MemoryOptions:
    """What a user may choose about a global memory, whatever task it serves; a module ignores what it does not need.

    Each is an argument of :class:`~mooring.nn.SlotVirtualNode` and documented there. ``anchored`` is not among them,
    since it decides which model this is, nor is ``merge``, which is code and not a value. ``mooring run`` says which of
    the options that were set a model ignores.

    Args:
        slots, heads, temperature, mass, split, integrate, update_channels, anchor_init, mass_map, update_norm,
            content_dropout, dropout, competition: as there.
        init_std: as there, with the paper's deviation for FiLM as the default of every integration.
        hidden_channels: hidden width of a module's own MLPs, FiLM's among them; None is as wide as the nodes, as in the
            paper. :func:`mooring.zoo.matched` sets it.

    >>> MemoryOptions(slots=4).at(channels=16).slots
    4
    """

    slots: int = 16
    heads: int = 4
    temperature: float = 1.0
    init_std: float = 1e-3
    mass: MassFeature = "softplus"
    split: bool = True
    integrate: Literal["film", "linear_film", "residual", "global_film"] = "film"
    anchor_init: float = 0.0
    hidden_channels: int | None = None
    update_channels: int | None = None
    mass_map: MassMap = "mlp"
    update_norm: UpdateNorm = "layer"
    content_dropout: float = 0.0
    dropout: float = 0.0
    competition: bool = False

    def at(self, channels: int, address_channels: int | None = None) -> MemorySpec:
        """The same options at the widths of a task."""
        options = {item.name: getattr(self, item.name) for item in fields(MemoryOptions)}
        return MemorySpec(channels=channels, address_channels=address_channels, **options)


@dataclass(frozen=True, kw_only=True)
class MemorySpec(MemoryOptions):
    """Options and widths: all that a builder of :mod:`mooring.zoo` is given.

    Args:
        channels: width of the node features, in and out.
        address_channels: width of the addresses, or None where a task has none.
    """

    channels: int = field()
    address_channels: int | None = None

    @property
    def hidden(self) -> int:
        """The hidden width of a module's own MLPs."""
        return self.channels if self.hidden_channels is None else self.hidden_channels

    def arguments(self, **changes: Any) -> dict[str, Any]:
        """The arguments of :class:`~mooring.nn.SlotVirtualNode`, some of them changed or added."""
        given = {**{item.name: getattr(self, item.name) for item in fields(self)}, **changes}
        hidden = given["hidden_channels"]
        return {**given, "hidden_channels": given["channels"] if hidden is None else hidden}
