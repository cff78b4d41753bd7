"""Small modules, each built to have or to lack one property."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.utils import scatter, softmax, to_dense_batch


class SumReadout(nn.Module):
    """Counts, is invariant, handles everything."""

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        return scatter(x, batch, dim_size=num_graphs, reduce="sum")


class Broadcast(nn.Module):
    """h + g(mean): homogeneous, separable, blind."""

    def __init__(self, channels: int, pool: str = "mean") -> None:
        super().__init__()
        self.lin = nn.Linear(channels, channels)
        self.pool = pool

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        return x + self.lin(scatter(x, batch, dim_size=num_graphs, reduce=self.pool))[batch]


class GatedBroadcast(Broadcast):
    """h * g(mean) through a rectifier: still one shared state, but what arrives depends on the node."""

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        shared = self.lin(scatter(x, batch, dim_size=num_graphs, reduce=self.pool))[batch]
        return torch.relu(x + shared) + x * shared


class Slots(nn.Module):
    """M states written and read by attention, with no normalisation in between: M messages."""

    def __init__(self, channels: int, slots: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(slots, channels))
        self.address = nn.Parameter(torch.randn(slots, channels))

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        weight = softmax(x @ self.query.T, batch, num_nodes=num_graphs)
        state = scatter(weight.unsqueeze(-1) * x.unsqueeze(1), batch, dim_size=num_graphs, reduce="sum")
        return x + torch.einsum("nm,nmc->nc", (x @ self.address.T).softmax(-1), state[batch])


class NodewiseOnly(nn.Module):
    """Nothing travels."""

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        return x.tanh()


class Positional(nn.Module):
    """Depends on the order of the nodes."""

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        return x + torch.arange(x.size(0)).unsqueeze(-1)


class WholeBatchMean(nn.Module):
    """Leaks across graphs: the mean is taken over the batch."""

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        return x + x.mean(0, keepdim=True)


class PaddedMean(nn.Module):
    """Divides by the padded size; assumes a sorted batch. Same-size mates do no harm."""

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        dense, _ = to_dense_batch(x, batch)
        return x + dense.mean(1)[batch]


class NeighbourInBatch(nn.Module):
    """Right for sorted batches only: takes the first node of a run of equal ids as the graph's own."""

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        starts = torch.cat([torch.tensor([True]), batch[1:] != batch[:-1]])
        run = starts.cumsum(0) - 1
        return x + scatter(x, run, reduce="sum")[run]


class RefusesUnsorted(SumReadout):
    """Says so when the batch is not sorted."""

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        if bool((batch[1:] < batch[:-1]).any()):
            raise ValueError("sort the batch first\nand then call again")
        return super().forward(x, batch, num_graphs)


class Parity(nn.Module):
    """Sees copies, but only whether there is an even number of nodes."""

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        count = scatter(torch.ones_like(x), batch, dim_size=num_graphs, reduce="sum")
        return scatter(x, batch, dim_size=num_graphs, reduce="mean") + count % 2


class NaiveMean(nn.Module):
    """Zero over zero for a graph without nodes."""

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        count = scatter(torch.ones_like(x), batch, dim_size=num_graphs, reduce="sum")
        return scatter(x, batch, dim_size=num_graphs, reduce="sum") / count


class HiddenNaN(NaiveMean):
    """The value is repaired, the gradient is not."""

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        return (super().forward(x, batch, num_graphs) * x.sum()).nan_to_num()


class NaiveSoftmax(nn.Module):
    """Exponentiates without subtracting the largest score."""

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        weight = x.exp()
        total, content = (scatter(v, batch, dim_size=num_graphs, reduce="sum") for v in (weight, weight * x))
        return content / total


class SmallSetsOnly(SumReadout):
    """Gives NaN for a graph of more than 500 nodes."""

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        return super().forward(x, batch, num_graphs) * (float("nan") if x.size(0) > 500 else 1.0)


class Cancelling(nn.Module):
    """Loses its digits in float32."""

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        return scatter((x + 1e6) - 1e6, batch, dim_size=num_graphs, reduce="sum")


class OnlyFloat32(SumReadout):
    """Refuses every other precision."""

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        if x.dtype != torch.float32:
            raise TypeError(f"float32 expected, got {x.dtype}")
        return super().forward(x, batch, num_graphs)


class AllPairs(nn.Module):
    """Dense attention over one batch of nodes: quadratic in n."""

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        same = batch.unsqueeze(0) == batch.unsqueeze(1)
        return x + (x @ x.T).masked_fill(~same, float("-inf")).softmax(-1) @ x


class Crashes(nn.Module):
    """Runs on the first few nodes only."""

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        if x.size(0) > 5:
            raise RuntimeError("five nodes at most\nsecond line")
        return x


class WithDropout(nn.Module):
    """Random in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        return self.dropout(x)


class IdentityAtFirst(nn.Module):
    """A global path behind a zero weight."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(channels, channels)
        nn.init.zeros_(self.lin.weight)

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        return x + self.lin(scatter(x, batch, dim_size=num_graphs, reduce="sum"))[batch]


class Elsewhere(SumReadout):
    """Stands for a module on an accelerator: it raises until it is moved to the CPU."""

    place = "cuda"

    def to(self, *args: object, **kwargs: object) -> Elsewhere:
        if "cpu" in map(str, (*args, *kwargs.values())):
            self.place = "cpu"
        return super().to(*args, **kwargs)  # type: ignore[no-any-return,call-overload]

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        if self.place != "cpu":
            raise RuntimeError("Expected all tensors to be on the same device")
        return super().forward(x, batch, num_graphs)
