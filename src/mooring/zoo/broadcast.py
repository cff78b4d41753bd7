"""How one global state reaches all nodes: added, or through a joint MLP of node and state."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from mooring.zoo.base import Rows


class AddedBroadcast(nn.Module):
    r"""Separable: :math:`h_j + \epsilon \operatorname{MLP}(z)`, the same for every node.

    Paper: ``eq:separable-broadcast``; by ``prop:separable`` no lookup can be built on it.

    Args:
        channels: width of the nodes. state_channels: width of the state. hidden: hidden width. scale: the paper's 0.2.
    """

    def __init__(self, channels: int, state_channels: int, hidden: int, scale: float = 0.2) -> None:
        super().__init__()
        self.scale = scale
        self.mlp = nn.Sequential(nn.Linear(state_channels, hidden), nn.GELU(), nn.Linear(hidden, channels))

    def reset_parameters(self) -> None:
        reset(self.mlp)

    def forward(self, readers: Rows, state: Tensor) -> Tensor:
        return readers.x + self.scale * self.mlp(state)[readers.index]


class JointBroadcast(nn.Module):
    r"""Not separable: :math:`h_j + \epsilon \operatorname{MLP}([h_j, z])`.

    The decoder of :class:`~mooring.nn.VirtualNode`, for a state of any width.

    Args: as :class:`AddedBroadcast`.
    """

    def __init__(self, channels: int, state_channels: int, hidden: int, scale: float = 0.2) -> None:
        super().__init__()
        self.scale = scale
        self.lin_node = nn.Linear(channels, hidden)
        self.lin_state = nn.Linear(state_channels, hidden, bias=False)
        self.lin_out = nn.Linear(hidden, channels)

    def reset_parameters(self) -> None:
        for lin in (self.lin_node, self.lin_state, self.lin_out):
            lin.reset_parameters()

    def forward(self, readers: Rows, state: Tensor) -> Tensor:
        hidden = nn.functional.gelu(self.lin_node(readers.x) + self.lin_state(state)[readers.index])
        return readers.x + self.scale * self.lin_out(hidden)
