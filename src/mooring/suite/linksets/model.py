"""Nodes meet only in a global memory; then pairs are judged one by one."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from mooring import zoo
from mooring.suite.linksets.batch import LinkBatch
from mooring.suite.linksets.config import LinkConfig
from mooring.suite.linksets.decoder import PairDecoder
from mooring.suite.linksets.features import NodeFeatures

# The model whose size the others are given.
MATCHED = "anchored"


class LinkNet(nn.Module):
    r"""Candidate pairs -> link logits.

    .. math::
        h \leftarrow \operatorname{Memory}_b(h), \quad
        h_i \leftarrow \operatorname{LN}(h_i + \operatorname{MLP}_b(h_i)), \qquad b = 1 \dots B

    Nodes never exchange messages along pairs, so a node learns about its competitors through the memory or not at all.

    Paper: ``sec:external-validation`` ("we remove the local MPNN and compare virtual-node readouts directly").

    Args:
        config: Widths and rules.
        memory: Name of the global module in :mod:`mooring.zoo`; ``"none"`` leaves it out.
        hidden: Hidden width of the node MLPs, see :func:`matched_hidden`.
    """

    def __init__(self, config: LinkConfig, memory: str, hidden: int) -> None:
        super().__init__()
        channels = config.channels
        spec = zoo.MemorySpec(
            channels,
            config.slots,
            config.heads,
            temperature=config.temperature,
            init_std=config.init_std,
            anchor_init=config.anchor_init,
        )
        modules = [zoo.build(memory, spec) for _ in range(config.blocks)]
        self.features = NodeFeatures(config.sectors, config.reach, config.waves)
        self.encoder = nn.Sequential(
            nn.Linear(self.features.out_channels, 2 * channels),
            nn.SiLU(),
            nn.Linear(2 * channels, channels),
            nn.LayerNorm(channels),
        )
        self.memory = nn.ModuleList(module for module in modules if module is not None)
        self.mlps = nn.ModuleList(_mlp(channels, hidden) for _ in range(config.blocks))
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(config.blocks))
        self.decoder = PairDecoder(channels, config.sectors, channels)

    def forward(self, batch: LinkBatch) -> Float[Tensor, " pairs"]:
        h = self.encoder(self.features(batch))
        for block, (mlp, norm) in enumerate(zip(self.mlps, self.norms, strict=True)):
            if self.memory:
                h = self.memory[block](h, batch.batch, num_graphs=batch.num_graphs)
            h = norm(h + mlp(h))
        return self.decoder(h, batch)


def matched_hidden(config: LinkConfig, memory: str) -> int:
    """Return the hidden width of the node MLPs that gives a model as many parameters as the ``anchored`` one has.

    Everything else is the same in all models, so what a smaller memory saves goes into the node MLPs. One unit of
    hidden width costs ``blocks * (2 * channels + 1)`` parameters; the width is the nearest whole number, at least 1.
    """
    if memory == MATCHED:
        return config.hidden
    # Per block, since both grow with their number.
    surplus = _memory_size(config, MATCHED) - _memory_size(config, memory)
    return max(1, config.hidden + round(surplus / (2 * config.channels + 1)))


def _memory_size(config: LinkConfig, memory: str) -> int:
    module = zoo.build(memory, zoo.MemorySpec(config.channels, config.slots, config.heads))
    return 0 if module is None else sum(parameter.numel() for parameter in module.parameters())


def _mlp(channels: int, hidden: int) -> nn.Module:
    return nn.Sequential(nn.Linear(channels, hidden), nn.SiLU(), nn.Linear(hidden, channels))
