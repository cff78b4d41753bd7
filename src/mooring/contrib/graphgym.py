"""GraphGym, as in PyG, GraphGPS and their forks: the network ``mooring`` puts a memory after every layer of another.

Importing this module registers the network and the configuration group ``mooring``::

    model:
      type: mooring
    mooring:
      network: gnn        # the network whose layers are followed: gnn, or GPSModel and custom_gnn in GraphGPS
      slots: 8            # this and every further entry is an argument of mooring.nn.SlotVirtualNode
"""

from __future__ import annotations

import inspect
from operator import attrgetter
from typing import Any

try:  # before GraphGym, which only warns without it and then has no configuration
    from yacs.config import CfgNode
except ImportError as error:
    raise ImportError("mooring.contrib.graphgym: GraphGym needs yacs. Run pip install 'mooring[graphgym]'.") from error

from torch import nn
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import cfg

from mooring.named import suggest
from mooring.nn import SlotVirtualNode

GROUP = "mooring"
# Where networks keep their layers: PyG's own, GraphGPS's GPSModel, its custom_gnn.
PLACES = ("mp", "layers", "gnn_layers")


def set_cfg(config: CfgNode) -> None:
    """Add the group ``mooring`` with its defaults to a configuration."""
    config[GROUP] = CfgNode(new_allowed=True)
    config[GROUP].network = "gnn"
    config[GROUP].layers = ""  # the attribute that holds the layers; found by itself in the networks named above
    config[GROUP].slots = 8
    config[GROUP].heads = 4


class BatchMemory(nn.Module):
    """A virtual node as a layer of GraphGym: batch -> batch with its nodes updated.

    Args:
        memory: anything with the forward of :class:`~mooring.nn.SlotVirtualNode`.
    """

    def __init__(self, memory: nn.Module) -> None:
        super().__init__()
        self.memory = memory

    def forward(self, batch: Any) -> Any:
        batch.x = self.memory(batch.x, batch.batch, num_graphs=getattr(batch, "num_graphs", None))
        return batch


def follow_layers(model: nn.Module, layers: str = "", **options: Any) -> nn.Module:
    """Put a memory after every layer of a network, in place, and return the network.

    The memories are added after the network has set its weights, so they start near the identity.

    Args:
        model: a network whose layers map a batch to a batch.
        layers: the attribute that holds the layers, dots reaching into parts; if empty, one of :data:`PLACES`.
        options: arguments of :class:`~mooring.nn.SlotVirtualNode`; its width is ``cfg.gnn.dim_inner``.
    """
    known = inspect.signature(SlotVirtualNode.__init__).parameters
    for name in options:
        if name not in known:
            raise ValueError(f"mooring: unknown entry {name!r}; {suggest(name, known, 'see SlotVirtualNode.')}")
    places = [layers] if layers else [place for place in PLACES if hasattr(model, place)]
    if len(places) != 1:
        raise ValueError(
            f"mooring: {type(model).__name__} has {' and '.join(places) or 'none of ' + ', '.join(PLACES)}. Set "
            "mooring.layers to the attribute that holds its layers."
        )
    parts = attrgetter(places[0])(model)
    for name, layer in list(parts.named_children()):
        memory = SlotVirtualNode(cfg.gnn.dim_inner, **options)
        setattr(parts, name, nn.Sequential(layer, BatchMemory(memory)))
    return model


@register.register_network(GROUP)
def build(dim_in: int, dim_out: int) -> nn.Module:
    """Build ``cfg.mooring.network`` with a memory after every layer."""
    options = dict(cfg[GROUP])
    name, layers = options.pop("network"), options.pop("layers")
    networks = register.network_dict
    if name == GROUP or name not in networks:
        others = sorted(set(networks) - {GROUP})
        hint = suggest(name, others, f"there are {', '.join(others)}.")
        raise ValueError(f"mooring.network is {name!r} but the name of another network was expected; {hint}")
    return follow_layers(networks[name](dim_in=dim_in, dim_out=dim_out), layers, **options)


register.register_config(GROUP, set_cfg)
# GraphGym reads the registered groups when it sets the defaults, which importing it has done already.
if GROUP not in cfg:
    set_cfg(cfg)
