"""Methods of a module beside its forward, if FSDP has sharded its parameters."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn


def is_sharded(module: nn.Module) -> bool:
    """Return whether the parameters are whole only while the module is called: it was given to ``fully_shard``."""
    fsdp = None if torch.compiler.is_compiling() else sys.modules.get("torch.distributed.fsdp")
    return isinstance(module, getattr(fsdp, "FSDPModule", ()))


def gathered(module: nn.Module, method: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method with the parameters of the module gathered, as FSDP gathers them for its forward."""
    if is_sharded(module) and method not in vars(module):
        sys.modules["torch.distributed.fsdp"].register_fsdp_forward_method(module, method)
    return getattr(module, method)(*args, **kwargs)
