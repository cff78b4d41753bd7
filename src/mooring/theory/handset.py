"""The proofs' weights inside a real SlotVirtualNode: every layer that training would shape, set by hand."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn

from mooring.nn import SlotVirtualNode
from mooring.suite.two_radius.data import TwoRadiusBatch
from mooring.theory.partition import Partition, node_key, sign_code, slot_query


@dataclass(frozen=True)
class HandSetMemory:
    """A SlotVirtualNode whose weights copy payloads to the slots and back, with the codes that go with it.

    Node features are ``[payload, 1, 0, 0]``. The slots' LayerNorms turn content into ``scale * content + shift``; the
    two constant coordinates reveal scale and shift, so a target can undo them. The last coordinate receives the mass.
    The mass MLP passes its input through, since ``gelu(x) - gelu(-x) = x``.

    Paper: the constructions of thm:upper and cor:countedwl. Departs: two reference coordinates, part of the O(1) of
    eq:upper, pay for the LayerNorms; the address lies in the module's address table, not in the slot's content.

    Args:
        partition: which slot and block belongs to which identifier.
        block: payload coordinates of one identifier.
        anchored: build the anchored virtual node, or the Cross-Attn one without a mass channel.
        addressed: give slots different addresses; False makes the memory homogeneous.
    """

    partition: Partition
    block: int
    anchored: bool
    addressed: bool = True

    @property
    def payload(self) -> int:
        return self.partition.capacity * self.block

    @property
    def channels(self) -> int:
        """Width: payload, two references and the mass, or what the address needs if that is more."""
        return max(self.payload + 3, self._code(torch.arange(1)).shape[1])

    def build(self) -> SlotVirtualNode:
        """The module, in float64, untrained."""
        slots = self.partition.slots
        code = self._code(torch.arange(slots))
        module = SlotVirtualNode(
            self.channels,
            slots,
            heads=1,
            anchored=self.anchored,
            address_channels=code.shape[1],
            integrate="residual",
        ).double()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.zero_()
            addresses, update = module.write.addresses, module.update
            assert addresses is not None
            assert module.read is not None
            query = slot_query(sign_code(torch.arange(slots), slots))
            # The module divides scores by the square root of the head width.
            addresses.slot[:, :, : code.shape[1]] = query * self.channels**0.5 if self.addressed else 0.0
            addresses.weight[0, : code.shape[1]] = torch.eye(code.shape[1])
            for linear in (module.write.lin_value, update.lin_out, module.read.lin_value, module.read.lin_out):
                nn.init.eye_(linear.weight)
            for norm in (update.norm_in, update.norm_out):
                norm.weight.fill_(1.0)
            module.integrate.gain.fill_(1.0)
            if self.anchored:
                assert isinstance(update.mass_mlp, nn.Sequential)
                up, down = update.mass_mlp[0], update.mass_mlp[2]
                assert isinstance(up, nn.Linear)
                assert isinstance(down, nn.Linear)
                up.weight[:2, 0] = torch.tensor([1.0, -1.0])
                down.weight[self.payload + 2, :2] = torch.tensor([1.0, -1.0])
        return module.requires_grad_(False)

    def features(self, batch: TwoRadiusBatch, payload: Float64[Tensor, "nodes block"]) -> Float64[Tensor, "nodes dim"]:
        """Source features with each payload in its identifier's block; everything else is zero."""
        nodes = batch.sources.nonzero().squeeze(1)
        features = torch.zeros(batch.num_nodes, self.channels, dtype=torch.float64)
        blocks = torch.zeros(len(nodes), self.partition.capacity, self.block, dtype=torch.float64)
        blocks[torch.arange(len(nodes)), self.partition.position(batch.identifier[nodes])] = payload[nodes]
        features[nodes, : self.payload] = blocks.flatten(1)
        features[nodes, self.payload] = 1.0
        return features

    def recall(
        self, module: SlotVirtualNode, batch: TwoRadiusBatch, payload: Float64[Tensor, "nodes block"]
    ) -> tuple[Float64[Tensor, "targets block"], Float64[Tensor, " targets"]]:
        """What each target finds in its own block, and the mass of its slot (zero without anchors)."""
        code = self._code(self.partition.group(batch.identifier))
        output = module(
            self.features(batch, payload),
            batch.batch,
            address=code,
            sources=batch.sources,
            targets=batch.targets,
            log_weight=batch.log_weight,
            num_graphs=batch.num_graphs,
        )
        assert isinstance(output, Tensor)
        found = output[batch.targets]
        one, zero, mass = found[:, self.payload : self.payload + 3].T
        content = (found[:, : self.payload] - zero.unsqueeze(1)) / (one - zero).unsqueeze(1)
        blocks = content.view(len(found), self.partition.capacity, self.block)
        position = self.partition.position(batch.identifier[batch.targets])
        return blocks[torch.arange(len(found)), position], (mass - zero).expm1()

    def _code(self, group: Int64[Tensor, " count"]) -> Float64[Tensor, "count dim"]:
        return node_key(sign_code(group, self.partition.slots))[:, 0]
