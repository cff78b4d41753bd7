"""Speed and memory against peers and against the bare matrix products, gated on the oracle."""

from mooring.bench.gate import WrongResult
from mooring.bench.run import bench
from mooring.bench.setting import Setting

__all__ = ["Setting", "WrongResult", "bench"]
