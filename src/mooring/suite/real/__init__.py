"""Real graphs: molecules, peptides and large heterophilous graphs, with one model and any global module of the zoo."""

from mooring.suite import late

#: The tasks of this package, and the module that registers each.
TASKS = {"molecules": "experiment", "peptides": "experiment", "nodes": "nodes"}

__getattr__ = late(
    __name__,
    {
        **dict.fromkeys(("GraphConfig", "MoleculeExperiment", "PeptideExperiment", "RealConfig"), "experiment"),
        **dict.fromkeys(("NodeConfig", "NodeExperiment"), "nodes"),
        "draw": "pictures",
        "score": "metrics",
    },
)
