"""Tensors that outlive the mode of PyTorch in which they are first needed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

import torch
from torch.utils import _python_dispatch as dispatch

Made = TypeVar("Made")


def lasting(make: Callable[[], Made]) -> Made:
    """Return what ``make`` returns, usable in training too: no gradient may pass a tensor made in inference mode."""
    if torch.compiler.is_compiling() or not torch.is_inference_mode_enabled():
        return make()
    with torch.inference_mode(False):
        return make()


def is_transformed() -> bool:
    """Return whether new tensors belong to ``torch.func`` or to a mode such as ``FakeTensorMode``, and end with it."""
    if torch.compiler.is_dynamo_compiling():
        return False
    return torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack() > 0


def untransformed(make: Callable[[], Made]) -> Made:
    """Return what ``make`` returns outside all modes; everything it uses must come from outside them too.

    Dynamo traces ``make`` like any other code.
    """
    if torch.compiler.is_dynamo_compiling():
        return make()
    with ExitStack() as stack:
        if torch._C._are_functorch_transforms_active():
            stack.enter_context(torch._C._DisableFuncTorch())
        if torch._C._len_torch_dispatch_stack():
            stack.enter_context(dispatch._disable_current_modes())
        return lasting(make)
