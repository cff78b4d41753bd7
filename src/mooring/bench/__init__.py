"""Speed and memory against peers and against the bare matrix products, gated on the oracle."""

from mooring.bench.run import bench

__all__ = ["bench"]
