"""The tile back end: write and read over a few thousand nodes at a time, with a custom backward.

Eager code calls an autograd function; forward, backward and all layers share the tiles of the plan. Traced code cannot
read the data and calls a custom op instead, which computes its tiles when it runs. Double backward, ``vmap`` of a
backward and its tangents are computed by :mod:`mooring.ops.plain`.
"""

from mooring.ops.tiles.function import read, write
from mooring.ops.tiles.read_tiles import scores

__all__ = ["read", "scores", "write"]
