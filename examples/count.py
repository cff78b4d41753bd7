"""Counting: softmax attention does not change when a graph is doubled; the anchored read does."""

import math

import torch

from mooring.ops import anchor_weight, anchored, write

torch.manual_seed(0)
query, x = torch.randn(1, 1, 5), torch.randn(7, 1, 5)  # one slot; seven nodes, keys and values in one

once = write(query, x, x)
twice = write(query, x.repeat(2, 1, 1), x.repeat(2, 1, 1))  # every node twice
logit, value = torch.zeros(1, 1), torch.zeros(1, 1, 5)  # the slot's private anchor

attention = (twice.content - once.content).abs().max().item()
read = (anchored(twice, logit, value) - anchored(once, logit, value)).abs().max().item()
mass = (twice.log_mass - once.log_mass).item()

print(f"softmax attention moves by {attention:.6f}")
print(f"anchored read moves by     {read:.6f}")
print(f"anchor weight              {anchor_weight(once, logit).item():.3f} -> {anchor_weight(twice, logit).item():.3f}")
print(f"log-mass grows by          {mass:.6f} = log 2 = {math.log(2):.6f}")
