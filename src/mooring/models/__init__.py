"""Ready graph neural network with an optional global memory, and its parts."""

from mooring.models.adjacency import Adjacency
from mooring.models.encoders import ATOMS, BONDS, AtomEncoder, BondEncoder, CategoryEncoder, PositionEncoder
from mooring.models.gnn import GNN
from mooring.models.layers import GatedGCN, Layer, MeshGraphNetConv
from mooring.models.ogb_virtual_node import OGBVirtualNode
from mooring.models.readout import Readout

__all__ = [
    "ATOMS",
    "BONDS",
    "GNN",
    "Adjacency",
    "AtomEncoder",
    "BondEncoder",
    "CategoryEncoder",
    "GatedGCN",
    "Layer",
    "MeshGraphNetConv",
    "OGBVirtualNode",
    "PositionEncoder",
    "Readout",
]
