"""The options of a slot module as one value, for configs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from mooring.nn.addresses import ADDRESS_NORMS, AddressNorm
from mooring.nn.checks import check_choice, check_finite, check_positive, check_share, check_width_or_none
from mooring.nn.integrate import IntegrationName, default_options
from mooring.nn.slot_update import (
    MASS_FEATURES,
    MASS_MAPS,
    UPDATE_NORMS,
    MassFeature,
    MassMap,
    UpdateNorm,
    idle_options,
)
from mooring.ops.checks import check_count, check_flag, described


@dataclass(frozen=True)
class MemoryOptions:
    """Options of a global memory for any task. A module ignores the options that do not concern it.

    They are arguments of :class:`~mooring.nn.SlotVirtualNode`, except ``anchored`` (which selects the model), ``merge``
    (a function) and ``graph_channels`` (no task has graph features). ``mooring run`` reports the options that were set
    and that a model ignores.

    Args:
        slots, heads, temperature, mass, split, integrate, update_channels, anchor_init, mass_map, update_norm,
            content_dropout, dropout, competition: as in :class:`~mooring.nn.SlotVirtualNode`.
        routing: likewise, if the task has no addresses.
        address_norm: likewise; it has an effect with self-addressing only.
        init_std: likewise, but 1e-3 by default for every integration.
        hidden_channels: hidden width of all MLPs, including FiLM; if None, the width of the nodes, as in the paper.
            :func:`mooring.zoo.matched` sets it.

    >>> MemoryOptions(slots=4).at(channels=16).slots
    4
    """

    slots: int = 16
    heads: int = 4
    temperature: float = 1.0
    routing: Literal["self", "free"] = "free"
    address_norm: AddressNorm = "layer"
    init_std: float = 1e-3
    mass: MassFeature = "softplus"
    split: bool = True
    integrate: IntegrationName = "film"
    anchor_init: float = 0.0
    hidden_channels: int | None = None
    update_channels: int | None = None
    mass_map: MassMap = "mlp"
    update_norm: UpdateNorm = "layer"
    content_dropout: float = 0.0
    dropout: float = 0.0
    competition: bool = False

    def at(self, channels: int, address_channels: int | None = None) -> MemorySpec:
        """Return the options with the widths of a task."""
        options = {item.name: getattr(self, item.name) for item in fields(MemoryOptions)}
        return MemorySpec(channels=channels, address_channels=address_channels, **options)


@dataclass(frozen=True, kw_only=True)
class MemorySpec(MemoryOptions):
    """Options and widths: the argument of every builder of :mod:`mooring.zoo`.

    Args:
        channels: width of the node features, in and out.
        address_channels: width of the addresses; None if the task has none.
    """

    channels: int = field()
    address_channels: int | None = None

    @property
    def hidden(self) -> int:
        """Return the hidden width of all MLPs."""
        return self.channels if self.hidden_channels is None else self.hidden_channels

    def __post_init__(self) -> None:
        """Check every option, since a module checks only the options that concern it."""
        who = type(self).__name__
        for name in ("slots", "heads"):
            check_count(who, name, getattr(self, name))
        for name in ("hidden_channels", "update_channels", "address_channels"):
            check_width_or_none(who, name, getattr(self, name), 1)
        for name in ("split", "competition"):
            check_flag(who, name, getattr(self, name))
        for name in ("init_std", "anchor_init"):
            check_finite(who, name, getattr(self, name))
        for name in ("dropout", "content_dropout"):
            check_share(who, name, getattr(self, name))
        check_positive(who, "temperature", self.temperature)
        check_choice(who, "routing", self.routing, ("self", "free"))
        check_choice(who, "address_norm", self.address_norm, ADDRESS_NORMS)
        words = {"mass": MASS_FEATURES, "mass_map": MASS_MAPS, "update_norm": UPDATE_NORMS}
        for name, options in {**words, "integrate": get_args(IntegrationName)}.items():
            check_choice(who, name, getattr(self, name), options)

    def arguments(self, **changes: Any) -> dict[str, Any]:
        """Return the arguments of :class:`~mooring.nn.SlotVirtualNode`, some of them changed or added.

        Options of the spec that have no effect are left out, since the module would raise an error.
        """
        arguments = {**{item.name: getattr(self, item.name) for item in fields(self)}, **changes}
        if arguments["address_channels"] is not None:
            arguments["routing"] = "given"
        if arguments["routing"] != "self" and "address_norm" not in changes:
            del arguments["address_norm"]
        idle = set(idle_options(anchored=arguments.get("anchored", True), split=arguments["split"]))
        hidden, std = default_options(arguments["integrate"], arguments["channels"])
        idle |= {name for name, default in (("hidden_channels", hidden), ("init_std", std)) if default is None}
        if arguments["hidden_channels"] is None and hidden is not None:
            arguments["hidden_channels"] = arguments["channels"]
        return {name: value for name, value in arguments.items() if name in changes or name not in idle}


def check_spec(who: str, spec: Any) -> None:
    """Raise TypeError if ``spec`` is not a :class:`MemorySpec`."""
    if not isinstance(spec, MemorySpec):
        width = spec if type(spec) is int else 64
        raise TypeError(
            f"{who}: spec is {described(spec)} but a MemorySpec was expected. Pass MemorySpec(channels={width})."
        )
