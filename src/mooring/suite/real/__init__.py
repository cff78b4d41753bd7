"""Real graphs: molecules, peptides and large heterophilous graphs, with one model and any global module of the zoo."""

from mooring.suite import late

#: The tasks of this package, and the module that registers each.
TASKS = {"molecules": "molecules", "peptides": "molecules", "nodes": "nodes"}

__getattr__ = late(
    __name__,
    {
        "GraphConfig": "molecules",
        "MoleculeExperiment": "molecules",
        "NodeConfig": "nodes",
        "NodeExperiment": "nodes",
        "PeptideExperiment": "molecules",
        "RealConfig": "config",
        "draw": "pictures",
        "score": "metrics",
    },
)
