"""Benchmarks of speed and memory against peers and against the bare matrix products, gated on the oracle."""

from mooring.suite.bench.compare import WrongResult
from mooring.suite.bench.run import bench
from mooring.suite.bench.shapes import Setting

__all__ = ["Setting", "WrongResult", "bench"]
