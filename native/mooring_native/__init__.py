"""C++ operators for mooring on a CPU, in ``torch.ops.mooring_native``. mooring uses them when this can be imported."""

from __future__ import annotations

import importlib.util

import torch

__version__ = "0.1.0"

_spec = importlib.util.find_spec("mooring_native._C")
if _spec is None or _spec.origin is None:
    raise ImportError("mooring_native: the library of operators is missing. Build it with pip install ./native.")
torch.ops.load_library(_spec.origin)
