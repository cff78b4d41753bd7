"""HydraGNN's place for global attention: its signature, its two streams, its invariances."""

import inspect

import pytest
import torch
from torch import Tensor, nn

from mooring.contrib.hydragnn import SlotGlobalAttention
from support import assert_close

# hydragnn/globalAtt/gps.py, HydraGPSConv, in the order of its arguments.
BUILT_WITH = ["channels", "conv", "heads", "dropout", "act", "act_kwargs", "norm", "norm_kwargs", "attn_type"]
CALLED_WITH = ["inv_node_feat", "equiv_node_feat", "graph_batch", "kwargs"]
BATCH = torch.tensor([0, 1, 0, 1, 1, 0, 0])


class TwoStreams(nn.Module):
    """A local layer as HydraGNN's have it: both streams by name, both returned."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(channels, channels)

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()

    def forward(self, inv_node_feat: Tensor, equiv_node_feat: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        source, target = edge_index
        message = torch.zeros_like(inv_node_feat).index_add(0, target, self.lin(inv_node_feat)[source])
        return message, equiv_node_feat + equiv_node_feat.mean(0)


def streams() -> tuple[Tensor, Tensor, Tensor]:
    edges = torch.tensor([[0, 2, 5, 1, 3], [2, 5, 6, 3, 4]])
    return torch.randn(7, 12), torch.randn(7, 3), edges


def parameters(function: object) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_the_signature_is_that_of_hydragnn() -> None:
    assert parameters(SlotGlobalAttention.__init__) == [*BUILT_WITH, "attn_kwargs"]
    assert parameters(SlotGlobalAttention.forward) == CALLED_WITH


def test_the_signature_is_that_of_the_installed_hydragnn() -> None:
    gps = pytest.importorskip("hydragnn.globalAtt.gps", reason="HydraGNN is installed from its repository")
    for method in ("__init__", "forward"):
        assert parameters(getattr(SlotGlobalAttention, method)) == parameters(getattr(gps.HydraGPSConv, method))


@pytest.mark.parametrize("norm", ["layer_norm", "graph_norm", None])
def test_it_is_called_as_hydragnn_calls_its_attention(norm: str | None) -> None:
    x, v, edges = streams()
    layer = SlotGlobalAttention(12, TwoStreams(12), heads=3, dropout=0.2, attn_type="multihead", norm=norm).eval()
    out, moved = layer(inv_node_feat=x, equiv_node_feat=v, graph_batch=BATCH, edge_index=edges)
    assert out.shape == x.shape
    torch.testing.assert_close(moved, v + v.mean(0))
    alone = layer(x[BATCH == 1], v[BATCH == 1], None, edge_index=torch.tensor([[0, 1], [1, 2]]))[0]
    assert_close(out[BATCH == 1], alone)


def test_nodes_hear_of_nodes_without_an_edge_only_through_the_slots() -> None:
    x, v, edges = streams()
    layer = SlotGlobalAttention(12, TwoStreams(12), heads=3, attn_kwargs={"slots": 2, "init_std": 1.0})
    x.requires_grad_()
    out, _ = layer(x, v, BATCH, edge_index=edges)
    (grad,) = torch.autograd.grad(out[0].sum() + out[0].square().sum(), x)
    assert float(grad[BATCH == 1].abs().max()) == 0.0
    assert float(grad[5].abs().max()) > 0.0


def test_reset_starts_again() -> None:
    x, v, edges = streams()
    layer = SlotGlobalAttention(12, TwoStreams(12), heads=3)
    torch.manual_seed(3)
    layer.reset_parameters()
    first = layer(x, v, BATCH, edge_index=edges)[0]
    torch.manual_seed(3)
    layer.reset_parameters()
    torch.testing.assert_close(layer(x, v, BATCH, edge_index=edges)[0], first)


def test_options_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match=r"SlotGlobalAttention: norm_kwargs is \{'eps': 0.1\}.*Leave it out"):
        SlotGlobalAttention(12, None, norm_kwargs={"eps": 0.1})
