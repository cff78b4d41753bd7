"""The networks of the original task: PyG's convolutions, with or without a global memory."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import leaky_relu
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv

from mooring.suite.two_radius.data import TwoRadiusBatch

from .model import Answer, two_layers

GAT_HEADS = 2

CONVS: dict[str, Callable[[int], nn.Module]] = {
    "gcn": lambda channels: GCNConv(channels, channels),
    "gin": lambda channels: GINConv(two_layers(channels, channels, channels)),
    "sage": lambda channels: SAGEConv(channels, channels),
    "gat": lambda channels: GATConv(channels, channels // GAT_HEADS, heads=GAT_HEADS),
}


class OriginalNet(nn.Module):
    """Maps a batch of the original task to the label logits of its targets.

    One-hot identifier and label -> linear map -> residual convolutions, each followed by LayerNorm and leaky ReLU, with
    a global memory after each of the first ones -> linear map. Every node writes and every node reads: the features do
    not tell sources from targets, so neither does the memory.

    Paper: Mishayev et al., arXiv 2511.20406, whose published code has the residuals, norms, activation and two
    attention heads in GAT.

    Departs: the one-hot features meet a linear map of their own (a sum of two embeddings) before the first convolution.

    Args:
        num_identifiers: Identifiers including those of the centres.
        num_classes: Labels.
        conv: ``gcn``, ``gin``, ``sage`` or ``gat``.
        memories: Global modules with the forward of ``SlotVirtualNode``, one after each of the first convolutions.
        channels: Width.
        layers: Convolutions.
    """

    def __init__(
        self,
        num_identifiers: int,
        num_classes: int,
        conv: str,
        memories: list[nn.Module],
        *,
        channels: int = 256,
        layers: int = 4,
    ) -> None:
        super().__init__()
        self.identifier = nn.Embedding(num_identifiers, channels)
        self.label = nn.Embedding(num_classes, channels)
        self.convs = nn.ModuleList(CONVS[conv](channels) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(layers))
        self.memory = nn.ModuleList(memories)
        self.head = nn.Linear(channels, num_classes)

    def forward(self, batch: TwoRadiusBatch) -> Answer:
        address: Float[Tensor, "nodes channels"] = self.identifier(batch.identifier)
        x = address + self.label(batch.label)
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = leaky_relu(norm(x + conv(x, batch.edge_index)))
            if i < len(self.memory):
                x = self.memory[i](x, batch.batch, address=address, num_graphs=batch.num_graphs)
        return Answer(self.head(x.index_select(0, batch.targets.nonzero().squeeze(1))), None, None)
