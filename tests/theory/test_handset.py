import numpy as np
import pytest
import torch

from mooring.nn import SlotVirtualNode
from mooring.suite.two_radius.data import CountedTask, TwoRadiusBatch
from mooring.theory import HandSetMemory
from mooring.theory.partition import Partition


def batch_of(n: int, rendering: str) -> TwoRadiusBatch:
    return CountedTask(n, rendering=rendering).batch(3, np.random.default_rng(0))


@pytest.mark.parametrize("rendering", ["full", "collapsed"])
def test_module_recovers_payload_and_mass_through_its_layer_norms(rendering: str) -> None:
    batch = batch_of(5, rendering)
    memory = HandSetMemory(Partition(5, 5), block=3, anchored=True)
    module = memory.build()
    assert isinstance(module, SlotVirtualNode)
    payload = torch.randn(5, 3, dtype=torch.float64)[batch.identifier.clamp(max=4)]
    found, mass = memory.recall(module, batch, payload)
    torch.testing.assert_close(found, payload[batch.targets], atol=1e-8, rtol=0)
    torch.testing.assert_close(mass, batch.y_count.double(), atol=1e-8, rtol=0)


def test_without_anchors_the_mass_channel_is_silent() -> None:
    batch = batch_of(5, "full")
    memory = HandSetMemory(Partition(5, 5), block=3, anchored=False)
    payload = torch.randn(5, 3, dtype=torch.float64)[batch.identifier.clamp(max=4)]
    _, mass = memory.recall(memory.build(), batch, payload)
    torch.testing.assert_close(mass, torch.zeros_like(mass), atol=1e-12, rtol=0)


def test_every_weight_is_the_librarys_own_and_frozen() -> None:
    memory = HandSetMemory(Partition(7, 2), block=1, anchored=True)
    fresh = SlotVirtualNode(memory.channels, 2, heads=1, address_channels=2, integrate="residual").double()
    fresh.load_state_dict(memory.build().state_dict())
    assert not any(parameter.requires_grad for parameter in memory.build().parameters())
