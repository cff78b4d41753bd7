"""Real graphs: catalogue of the sets, their files, and batches."""

from mooring.suite.real.data.catalogue import GRAPH_SETS, NODE_SETS, Source, source
from mooring.suite.real.data.files import MissingData, data_folder, load_graphs, load_nodes
from mooring.suite.real.data.graphs import GraphBatch, GraphSet, NodeSet, collate, generated_graphs, generated_nodes

__all__ = [
    "GRAPH_SETS", "NODE_SETS", "GraphBatch", "GraphSet", "MissingData", "NodeSet", "Source", "collate", "data_folder",
    "generated_graphs", "generated_nodes", "load_graphs", "load_nodes", "source",
]  # fmt: skip
