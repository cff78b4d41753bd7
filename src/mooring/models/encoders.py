"""Encoders: raw features of a data set -> vectors of a network's width; a network's arguments from plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from mooring.named import suggest
from mooring.nn import SlotVirtualNode
from mooring.nn.checks import check_placed, check_width
from mooring.ops.checks import check_count, check_flag, check_floating, check_rank, checks_values, readable
from mooring.ops.state import outside_inference_mode

#: Number of values of each of OGB's nine atom features: atomic number, chirality, degree, formal charge, hydrogens,
#: radical electrons, hybridisation, aromatic, in a ring.
ATOMS = (119, 5, 12, 12, 10, 6, 6, 2, 2)
#: The same for its three bond features: type, stereo, conjugated.
BONDS = (5, 6, 2)


class CategoryEncoder(nn.Module):
    r"""Integer features -> the sum of one learned vector per feature, :math:`\sum_k E_k[x_k]`.

    All tables are stored as one, so that a row costs one lookup for any number of features.

    Args:
        sizes: number of values of each feature.
        channels: width of the vectors.

    Shapes: x ``[rows, features]`` -> ``[rows, channels]``.

    >>> CategoryEncoder((3, 2), 8)(torch.tensor([[2, 1], [0, 0]])).shape
    torch.Size([2, 8])
    """

    def __init__(self, sizes: Sequence[int], channels: int) -> None:
        super().__init__()
        who = type(self).__name__
        self.sizes = tuple(check_count(who, "sizes", size) for size in sizes)
        if not self.sizes:
            raise ValueError(f"{who}: sizes is empty but one number of values per feature was expected, e.g. (5, 3).")
        self.channels = check_count(who, "channels", channels)
        # Not a buffer: weight averaging would include a buffer, and deferred initialisation leaves it undefined.
        self._starts: dict[torch.device, Tensor] = {}
        self.weight = nn.Parameter(torch.empty(sum(self.sizes), channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=len(self.sizes) ** -0.5)

    def forward(self, x: Int[Tensor, "rows features"]) -> Float[Tensor, "rows channels"]:
        self._check(x)
        return nn.functional.embedding_bag(x.long() + self._offsets(x.device), self.weight, mode="sum")

    def _offsets(self, device: torch.device) -> Int[Tensor, " features"]:
        """Return the first row of each feature's table."""
        if device in self._starts and not torch.compiler.is_compiling():
            return self._starts[device]
        starts = outside_inference_mode(lambda: torch.tensor([0, *accumulate(self.sizes[:-1])], device=device))
        if readable(starts):
            self._starts[device] = starts
        return starts

    def _check(self, x: Tensor) -> None:
        who, features = type(self).__name__, len(self.sizes)
        if x.dim() != 2 or x.size(1) != features:
            raise ValueError(
                f"{who}: x has shape {tuple(x.shape)} but [rows, {features}] was expected, one column per feature. "
                "For a single feature pass x.unsqueeze(1)."
            )
        if x.is_floating_point():
            raise TypeError(f"{who}: x is {x.dtype} but whole numbers were expected. Use a Linear for real features.")
        if not checks_values() or not readable(x):
            return
        # A too large value would select a row of the next feature's table.
        wrong = (x < 0) | (x >= torch.tensor(self.sizes, device=x.device))
        if bool(wrong.any()):
            row, column = wrong.nonzero()[0].tolist()
            raise ValueError(
                f"{who}: feature {column} is {int(x[row, column])} in row {row} but a value from 0 to "
                f"{self.sizes[column] - 1} was expected. Build it with the sizes of your data."
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self.sizes))} -> {self.channels})"


def check_linear(module: nn.Module, lin: nn.Linear, argument: str, name: str, x: Tensor) -> None:
    """Check the input of a linear layer; ``argument`` and ``name`` are its width and its input in error messages."""
    who = type(module).__name__
    check_rank(who, name, x, "rows width")
    check_floating(who, **{name: x})
    check_width(who, name, x, argument, lin.in_features)
    check_placed(module, x, name)


class AtomEncoder(CategoryEncoder):
    """OGB's nine atom features -> vectors.

    >>> AtomEncoder(8)(torch.zeros(3, 9, dtype=torch.long)).shape
    torch.Size([3, 8])
    """

    def __init__(self, channels: int) -> None:
        super().__init__(ATOMS, channels)


class BondEncoder(CategoryEncoder):
    """OGB's three bond features -> vectors.

    >>> BondEncoder(8)(torch.zeros(4, 3, dtype=torch.long)).shape
    torch.Size([4, 8])
    """

    def __init__(self, channels: int) -> None:
        super().__init__(BONDS, channels)


class PositionEncoder(nn.Module):
    r"""Positional encoding by a PyG transform -> vectors to add to the nodes' vectors.

    ``AddRandomWalkPE`` and ``AddLaplacianEigenvectorPE`` write the encoding into the data; here it is normalised over
    the batch and mapped by one linear layer.

    Args:
        in_channels: steps of the walk, or number of eigenvectors.
        channels: width of the vectors.
        flip: in training, flip the sign of every column at random, because the sign of an eigenvector is arbitrary.

    Shapes: pe ``[nodes, in_channels]`` -> ``[nodes, channels]``.

    >>> PositionEncoder(4, 8)(torch.rand(5, 4)).shape
    torch.Size([5, 8])
    """

    def __init__(self, in_channels: int, channels: int, *, flip: bool = False) -> None:
        super().__init__()
        who = type(self).__name__
        self.in_channels = check_count(who, "in_channels", in_channels)
        self.flip = check_flag(who, "flip", flip)
        # Eigenvectors are already normalised, and sign flips would cancel a mean.
        self.norm = nn.Identity() if self.flip else nn.BatchNorm1d(in_channels)
        self.lin = nn.Linear(in_channels, check_count(who, "channels", channels))

    def reset_parameters(self) -> None:
        reset(self.norm)
        reset(self.lin)

    def forward(self, pe: Float[Tensor, "nodes in_channels"]) -> Float[Tensor, "nodes channels"]:
        check_linear(self, self.lin, "in_channels", "pe", pe)
        if self.flip and self.training:
            pe = pe * (torch.randint(0, 2, (self.in_channels,), device=pe.device) * 2 - 1)
        return self.lin(self.norm(pe))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.lin.out_features}, flip={self.flip})"


def plain_arguments(**config: Any) -> dict[str, Any]:
    """Return the arguments of :class:`~mooring.models.GNN` for a configuration that JSON can hold.

    Args:
        config: arguments of the network. ``encoder`` and ``edge_encoder`` may be ``"atoms"`` and ``"bonds"``, or a list
            of the sizes of categories (:class:`CategoryEncoder`); ``memory`` is a dictionary of the arguments of
            :class:`~mooring.nn.SlotVirtualNode`, e.g. ``{"slots": 8}``.

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
                "network with custom modules is saved by torch.save(model.state_dict(), ...)."
            )
    arguments = dict(config)
    named = {"atoms": AtomEncoder, "bonds": BondEncoder}
    for name in ("encoder", "edge_encoder"):
        kind = config.get(name)
        if isinstance(kind, str):
            if kind not in named:
                hint = suggest(kind, named, f"the names are {', '.join(named)}.")
                raise ValueError(f"GNN: {name} is {kind!r} but a width or a name was expected; {hint}")
            arguments[name] = named[kind](config["channels"])
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
