"""A network from plain values: what a file can hold, so that a trained network can be built again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from mooring.models.encoders import AtomEncoder, BondEncoder, CategoryEncoder
from mooring.named import suggest
from mooring.nn import SlotVirtualNode

#: Encoders that have a name: of the atoms and bonds of molecules, with the features of OGB.
NAMED = {"atoms": AtomEncoder, "bonds": BondEncoder}


def plain_arguments(**config: Any) -> dict[str, Any]:
    """Return the arguments of :class:`~mooring.models.GNN` for a configuration that JSON can hold.

    Args:
        config: arguments of the network, where ``encoder`` and ``edge_encoder`` may be ``"atoms"`` and ``"bonds"``, or
            a list of the sizes of categories (:class:`~mooring.models.CategoryEncoder`), and ``memory`` is a dictionary
            of the arguments of :class:`~mooring.nn.SlotVirtualNode`, e.g. ``{"slots": 8}``.

    >>> from mooring.models import GNN
    >>> GNN(**plain_arguments(encoder="atoms", channels=16, out_channels=1, memory={"slots": 4})).memory["0"]
    SlotVirtualNode(16, slots=4, heads=4, anchored=True)
    """
    for name, value in config.items():
        try:
            same = json.loads(json.dumps(value)) == value
        except (TypeError, ValueError):
            same = False
        if not same:
            raise TypeError(
                f"GNN: {name} is {value!r}, which a file cannot hold. Pass numbers, names or a dictionary of them; a "
                "network with modules of your own is saved by torch.save(model.state_dict(), ...)."
            )
    arguments = dict(config)
    for name in ("encoder", "edge_encoder"):
        kind = config.get(name)
        if isinstance(kind, str):
            if kind not in NAMED:
                meant = suggest(kind, NAMED, f"the names are {', '.join(NAMED)}.")
                raise ValueError(f"GNN: {name} is {kind!r} but a width or a name was expected; {meant}")
            arguments[name] = NAMED[kind](config["channels"])
        elif isinstance(kind, list):
            arguments[name] = CategoryEncoder(kind, config["channels"])
    memory = config.get("memory")
    if memory is not None:
        if not isinstance(memory, Mapping):
            raise TypeError(
                f"GNN: memory is {memory!r} but a dictionary of the arguments of SlotVirtualNode was expected, e.g. "
                "{'slots': 8}."
            )
        arguments["memory"] = partial(SlotVirtualNode, **memory)
    return arguments
