"""Every target attends to every source: full attention, and its linear approximation."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor, nn
from torch_geometric.nn import GPSConv
from torch_geometric.nn.attention.performer import generalized_kernel, linear_attention

from mooring.nn import MemorySpec
from mooring.zoo.base import GlobalModule, Locate, Rows
from mooring.zoo.latents import Padding
from mooring.zoo.registry import register


class Sources(NamedTuple):
    """The sources as padded keys and values, and their log-weights, -inf where there are none."""

    x: Tensor
    log_weight: Tensor


@register(
    "transformer",
    title="dense self-attention, as in GPS",
    paper="Vaswani et al. 2017; Rampášek et al. 2022",
    label="Transformer",
)
class DenseAttention(GlobalModule):
    """The global half of a GPS layer: attention, residual, norm, MLP, norm. Quadratic in the nodes of a graph.

    Weights and layers are those of PyG's ``GPSConv`` without a local convolution, which gives the same numbers where
    all nodes write and read.

    Paper: Vaswani et al. 2017; Rampášek et al. 2022 (GPS, arXiv 2205.12454).
    Departs: norms are per node rather than per batch, which keeps graphs independent. A graph without sources has one
    source of zeros.
    """

    attention = "multihead"

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec, address=True)
        self.locate = Locate(spec)
        self.block = GPSConv(
            spec.channels,
            None,
            spec.heads,
            norm="layer_norm",
            norm_kwargs={"mode": "node"},
            attn_type=self.attention,
            attn_kwargs=self.options(spec),
        )
        # It belongs to the local half, which is absent.
        self.block.norm1 = None

    def options(self, spec: MemorySpec) -> dict[str, Any]:
        """Further arguments of the attention."""
        return {}

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if isinstance(self.block.attn, nn.MultiheadAttention):
            # torch's own reset omits the output weights.
            self.block.attn.out_proj.reset_parameters()
            nn.init.zeros_(self.block.attn.out_proj.bias)

    def gather(self, writers: Rows) -> Sources:
        padding = Padding(writers)
        log_weight = padding.pad(writers.log_weight, fill=float("-inf"))
        stand_in = padding.present_or_stand_in() & ~padding.present
        return Sources(padding.pad(self.locate(writers)), log_weight.masked_fill(stand_in, 0.0))

    def spread(self, readers: Rows, gathered: Sources) -> Tensor:
        padding = Padding(readers)
        x = self.locate(readers)
        block = self.block
        h = block.norm2(x + padding.unpad(self.attend(padding.pad(x), gathered)))
        out: Tensor = block.norm3(h + block.mlp(h))
        return out

    def attend(self, x: Tensor, sources: Sources) -> Tensor:
        """Queries ``[graphs, longest, channels]`` -> what each gets; a weight adds its logarithm to the score."""
        out: Tensor = self.block.attn(
            x, sources.x, sources.x, key_padding_mask=sources.log_weight.to(x.dtype), need_weights=False
        )[0]
        return out


class LinearAttention(DenseAttention):
    """The same layer with PyG's Performer in place of softmax attention: linear in the nodes.

    Paper: Choromanski et al. 2021 (arXiv 2009.14794).
    Departs: from PyG, whose padded keys stay in the denominator, so that its output depends on batch mates; here they
    are left out, and weights count as copies. PyG's ReLU kernel is kept; PyG does not have the paper's softmax kernel.
    """

    attention = "performer"

    def options(self, spec: MemorySpec) -> dict[str, Any]:
        return {"head_channels": spec.channels // spec.heads}

    def attend(self, x: Tensor, sources: Sources) -> Tensor:
        attn = self.block.attn
        q, k, v = (
            lin(of).unflatten(-1, (attn.heads, -1)).transpose(1, 2)
            for lin, of in ((attn.q, x), (attn.k, sources.x), (attn.v, sources.x))
        )
        q, k = (generalized_kernel(part, attn.fast_attn.projection_matrix, attn.kernel) for part in (q, k))
        k = k * sources.log_weight.exp()[:, None, :, None]
        out: Tensor = attn.attn_out(linear_attention(q, k, v).transpose(1, 2).flatten(-2))
        return out


@register("performer", title="linear attention", paper="Choromanski et al. 2021")
def performer(spec: MemorySpec) -> nn.Module:
    return LinearAttention(spec)
