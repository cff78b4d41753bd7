"""The tile back end: write and read over a few thousand nodes at a time, with gradients of their own.

Eager code calls an autograd function that shares the plan's tiles between forward, backward and layers. A traced graph
must not look at the data and calls a registered op instead, which makes its tiles when it runs. A second derivative, a
batched backward and the tangent of a backward are taken through :mod:`mooring.ops.plain`.
"""

from mooring.ops.tiles.function import read, write
from mooring.ops.tiles.read_tiles import scores

__all__ = ["read", "scores", "write"]
