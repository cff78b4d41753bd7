"""The boundary between our own backward passes and PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from mooring.ops.state import in_forward_mode


def is_transformed(tensor: Tensor) -> bool:
    """Return whether PyTorch must see every step: the tensor has no data, or it is mapped or has a tangent."""
    if torch.compiler.is_compiling():
        return in_forward_mode()
    if type(tensor) not in (Tensor, nn.Parameter) or tensor.is_meta or torch._C._are_functorch_transforms_active():
        return True
    # is_grads_batched and vectorize=True map without torch.func.
    if torch._C._functorch.is_legacy_batchedtensor(tensor):
        return True
    return in_forward_mode() and forward_ad.unpack_dual(tensor).tangent is not None


def must_trace(grads: Sequence[Tensor]) -> bool:
    """Return whether PyTorch must take a backward: it is differentiated again or mapped, or has a tangent."""
    return torch.is_grad_enabled() or any(is_transformed(grad) for grad in grads)


def gradients(
    function: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor | None], grads: Sequence[Tensor]
) -> list[Tensor | None]:
    """Return the gradient of each input that requires one, by PyTorch's own calls, and None for the others.

    One input may depend on another: competition weighs nodes by their own keys, and a context was read by the nodes
    that it modulates. The function is of aliases, at which its gradients end.
    """
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        aliases = [None if one is None else one.view_as(one) for one in inputs]
        # A mass that depends on no score, as of a plain mean, is a constant.
        pairs = [(out, grad) for out, grad in zip(function(*aliases), grads, strict=True) if out.requires_grad]
    wanted = [one for one in aliases if one is not None and one.requires_grad]
    outputs, slopes = [out for out, _ in pairs], [grad.view_as(out) for out, grad in pairs]
    found = iter(torch.autograd.grad(outputs, wanted, slopes, create_graph=again, allow_unused=True))
    return [next(found) if one is not None and one.requires_grad else None for one in aliases]


def or_nothing(grad: Tensor | None, like: Tensor) -> Tensor:
    """Return an empty tensor in place of None: a registered op returns tensors only."""
    return like.new_empty(0) if grad is None else grad


def blank_gradients(inputs: Sequence[Tensor | None], needed: Sequence[bool], like: Tensor) -> list[Tensor]:
    """Return the gradients of a traced op, of which nothing but the shapes is known."""
    pairs = zip(inputs, needed, strict=True)
    return [or_nothing(None if one is None or not need else torch.empty_like(one), like) for one, need in pairs]


def only_needed(grads: Sequence[Tensor], needed: Sequence[bool]) -> tuple[Tensor | None, ...]:
    """Return None in place of the gradients that were not asked for."""
    return tuple(grad if need else None for grad, need in zip(grads, needed, strict=True))
