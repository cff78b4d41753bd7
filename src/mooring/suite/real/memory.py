"""Compared memories with one budget of parameters: modules of the zoo, OGB's virtual nodes, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from mooring import zoo
from mooring.models import OGBVirtualNode
from mooring.nn import MemoryOptions, MemorySpec
from mooring.suite.train.experiment import describe

#: Titles of models outside the zoo, in the order of tables.
TITLES: Mapping[str, str] = {
    "plain": "No memory, fewer parameters",
    "none": "No memory",
    "ogb-vn-mean": "OGB VN, mean",
    "ogb-vn": "OGB VN, sum",
}


class NoMemory(nn.Module):
    """Identity with the interface of a memory; :func:`mooring.zoo.filled` adds the parameter-matched MLP."""

    def forward(self, x: Tensor, batch: Any = None, **options: Any) -> Any:
        return (x, None) if options.get("return_state") else x

    def reset_parameters(self) -> None:
        """Do nothing: there are no parameters."""


def check_model(model: str) -> None:
    """Raise ValueError if the model does not exist."""
    if model not in TITLES:
        zoo.entry(model)


def describe_model(model: str) -> dict[str, Any]:
    """Return title and order of the model for its record."""
    return describe(model, TITLES)


def memory_of(model: str, options: MemoryOptions, *, one_graph: bool = False) -> Callable[[int], nn.Module] | None:
    """Return a builder of the model's memory, a function of the node width; None for the network alone.

    All models but ``"plain"`` have as many parameters as the anchored module; ``"none"`` has them in a node-wise MLP.

    Args:
        model: a name of the zoo, or of :data:`TITLES`.
        options: options of the memory.
        one_graph: whether a batch is one graph, for which OGB's batch norm is undefined and replaced by layer norm.
    """
    if model == "plain":
        return None

    def build(channels: int) -> nn.Module:
        spec: MemorySpec = options.at(channels)
        if model == "none":
            return zoo.filled(NoMemory(), spec)
        if model in TITLES:
            pool: Any = "mean" if model.endswith("mean") else "sum"
            virtual_node = OGBVirtualNode(channels, pool, norm="layer" if one_graph else "batch", dropout=spec.dropout)
            return zoo.filled(virtual_node, spec)
        module = zoo.matched(model, spec)
        assert module is not None, "only 'none' is None"
        return module

    return build
