"""The compared memories, with one budget of parameters: modules of the zoo, OGB's virtual nodes, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from mooring import zoo
from mooring.models import OGBVirtualNode
from mooring.nn import MemoryOptions, MemorySpec
from mooring.suite.train.experiment import describe

#: Models that are not modules of the zoo, as tables call them, in their order there.
TITLES: Mapping[str, str] = {
    "plain": "No memory, fewer parameters",
    "none": "No memory",
    "ogb-vn-mean": "OGB VN, mean",
    "ogb-vn": "OGB VN, sum",
}


class Nothing(nn.Module):
    """The absence of a memory, with the forward of one: what :func:`mooring.zoo.filled` puts its MLP behind."""

    def forward(self, x: Tensor, batch: Any = None, **options: Any) -> Any:
        return (x, None) if options.get("return_state") else x

    def reset_parameters(self) -> None:
        """There is nothing to reset."""


def check_model(model: str) -> None:
    """Raise ValueError for a model that does not exist."""
    if model not in TITLES:
        zoo.entry(model)


def describe_model(model: str) -> dict[str, Any]:
    """What a record tells tables of the model."""
    return describe(model, TITLES)


def memory_of(
    model: str, options: MemoryOptions, *, one_graph: bool = False, budget: int | None = None
) -> Callable[[int], nn.Module] | None:
    """What builds the memory of a model from the width of its nodes; None for the network alone.

    All but ``"plain"`` have the parameters of the budget, ``"none"`` in an MLP that sees one node at a time.

    Args:
        model: a name of the zoo, or of :data:`TITLES`.
        options: of the memory.
        one_graph: batches are one graph, over which OGB's batch norm is not defined; it gets layer norm.
        budget: parameters of each memory; None is those of the anchored module with the same options.
    """
    if model == "plain":
        return None

    def build(channels: int) -> nn.Module:
        spec: MemorySpec = options.at(channels)
        if model == "none":
            return zoo.filled(Nothing(), spec, budget)
        if model in TITLES:
            pool: Any = "mean" if model.endswith("mean") else "sum"
            own = OGBVirtualNode(channels, pool, norm="layer" if one_graph else "batch", dropout=spec.dropout)
            return zoo.filled(own, spec, budget)
        module = zoo.matched(model, spec, budget)
        assert module is not None, "only 'none' is None"
        return module

    return build
