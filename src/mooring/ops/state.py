"""The two sufficient statistics of a write, and functions of them that need no access to the nodes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils import _python_dispatch as dispatch

from mooring.ops import checks

_NO_CHANGE = nullcontext()


def statistics_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of sums over nodes: float32 for inputs in half precision, else the dtype itself."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def in_forward_mode() -> bool:
    """Return whether forward-mode AD is active (our custom ops have no jvp). Dynamo guards on this."""
    return forward_ad._current_level >= 0


def full_precision(device: torch.device) -> AbstractContextManager[None]:
    """Disable autocast, which would compute the matrix products inside our ops in half precision."""
    if device.type == "meta" or not (torch.compiler.is_compiling() or torch.is_autocast_enabled(device.type)):
        return _NO_CHANGE
    return torch.autocast(device.type, enabled=False)


def finite_or_zero(log_mass: Tensor) -> Tensor:
    """Replace ``-inf`` by 0, so that ``-inf - -inf``, which is NaN, is never computed."""
    return torch.where(log_mass.isneginf(), 0.0, log_mass)


def all_neginf(log_weight: Tensor) -> Tensor:
    """Return a mask ``[nodes]`` of the nodes whose log weights, ``[nodes]`` or ``[nodes, ...]``, are all ``-inf``."""
    is_zero = log_weight.isneginf()
    return is_zero if is_zero.dim() == 1 else is_zero.flatten(1).all(dim=1)


class SlotState(NamedTuple):
    r"""The state of a slot after a write: ``content`` :math:`\mu` and ``log_mass`` :math:`\log Z`.

    .. math::
        \log Z = \log \sum_i e^{s_i}, \qquad \mu = \frac{1}{Z} \sum_i e^{s_i} v_i

    States of disjoint node sets form a commutative monoid under :func:`merge`. Its identity is the state of the
    empty set, ``content = 0`` and ``log_mass = -inf``.

    Paper: ``prop:mass``, ``prop:replication``.

    Shapes: content ``[graphs, slots, heads, dim]``, log_mass ``[graphs, slots, heads]``.
    """

    content: Tensor
    log_mass: Tensor

    @property
    def total(self) -> Tensor:
        r"""Return the unnormalised sum :math:`Z \mu`, as in ACAM and CPA; it overflows whenever :math:`Z` does."""
        return self.log_mass.exp().unsqueeze(-1) * self.content


def _check_tensors(who: str, **tensors: Any) -> None:
    """Check that all tensors are floating and on one device."""
    for name, tensor in tensors.items():
        checks.check_tensor(who, name, tensor)
    checks.check_floating(who, **tensors)
    checks.check_device(who, **tensors)


def check_state(who: str, name: str, state: Any, hint: str = "Pass what a write returns.") -> None:
    """Check that ``state`` is a SlotState of floating tensors on one device."""
    if not isinstance(state, SlotState):
        raise TypeError(f"{who}: {name} is {checks.described(state)} but a SlotState was expected. {hint}")
    _check_tensors(who, **{f"{name}.content": state.content, f"{name}.log_mass": state.log_mass})
    if state.log_mass.dim() != state.content.dim() - 1:
        raise ValueError(
            f"{who}: {name}.content has shape {tuple(state.content.shape)} and {name}.log_mass "
            f"{tuple(state.log_mass.shape)} but [graphs, slots, heads, dim] and [graphs, slots, heads] were expected. "
            f"{hint}"
        )


def merge(*states: SlotState) -> SlotState:
    r"""Merge states of disjoint node sets into the state of their union, exactly.

    .. math::
        \log Z = \operatorname{logaddexp}(\log Z_1, \log Z_2), \qquad
        \mu = \frac{Z_1}{Z} \mu_1 + \frac{Z_2}{Z} \mu_2

    Empty sets: merging with the identity changes nothing, and merging identities gives the identity. Gradients are
    finite in both cases.

    Cost: ``O(states * graphs * slots * heads * dim)``, independent of the number of nodes.

    >>> left = SlotState(torch.ones(1, 1, 1, 2), torch.zeros(1, 1, 1))
    >>> right = SlotState(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1))
    >>> merge(left, right).content.flatten().tolist()
    [0.5, 0.5]
    """
    if not states:
        raise ValueError("merge: got no states. Pass at least one SlotState.")
    for position, state in enumerate(states):
        check_state("merge", f"states[{position}]", state, "Pass what writes return, as in merge(one, other).")
    checks.check_device("merge", **{f"states[{i}].content": state.content for i, state in enumerate(states)})
    # Under tracing the number of graphs may be symbolic and cannot be compared.
    if not torch.compiler.is_compiling() and len({(state.content.shape, state.log_mass.shape) for state in states}) > 1:
        shapes = ", ".join(str(tuple(state.content.shape)) for state in states)
        raise ValueError(
            f"merge: contents have shapes {shapes} but states of one memory share one shape. "
            "Write every part with the same num_graphs, query and value width."
        )
    log_masses = torch.stack([state.log_mass for state in states])
    contents = torch.stack([state.content for state in states])
    # If all states are empty the largest log-mass is -inf, and exp(-inf - -inf) would be NaN.
    largest = finite_or_zero(log_masses.amax(dim=0).detach())
    masses = (log_masses - largest).exp()
    total = masses.sum(dim=0)
    empty = total == 0
    shares = masses / torch.where(empty, 1.0, total)
    content = (shares.unsqueeze(-1) * contents).sum(dim=0)
    # log(where(...)), because where(..., log(...)) has a NaN gradient through the branch that is not selected.
    log_mass = torch.where(empty, float("-inf"), torch.where(empty, 1.0, total).log() + largest)
    return SlotState(content, log_mass)


def anchor_weight(state: SlotState, anchor_logit: Float[Tensor, "slots heads"]) -> Float[Tensor, "graphs slots heads"]:
    r"""Return the anchor's share of the softmax, :math:`\alpha_0 = \sigma(s_0 - \log Z)`.

    Paper: ``prop:mass``. An empty set gives exactly one.
    """
    check_anchor("anchor_weight", state, anchor_logit)
    return torch.sigmoid(anchor_logit - state.log_mass)


def anchored(
    state: SlotState,
    anchor_logit: Float[Tensor, "slots heads"],
    anchor_value: Float[Tensor, "slots heads dim"],
) -> Float[Tensor, "graphs slots heads dim"]:
    r"""Return softmax attention over the nodes *and* a private anchor of each slot and head.

    .. math::
        z = \frac{e^{s_0} a + \sum_i e^{s_i} v_i}{e^{s_0} + \sum_i e^{s_i}} = \alpha_0 a + (1 - \alpha_0) \mu

    Paper: ``eq:anchored``. An empty set gives the anchor value.

    >>> state = SlotState(torch.ones(1, 1, 1, 1), torch.full((1, 1, 1), 3.0).log())
    >>> round(anchored(state, torch.zeros(1, 1), torch.zeros(1, 1, 1)).item(), 6)  # three nodes and one anchor
    0.75
    """
    check_state("anchored", "state", state)
    _check_tensors("anchored", state=state.content, anchor_logit=anchor_logit, anchor_value=anchor_value)
    shape = tuple(state.content.shape[1:])
    if tuple(anchor_logit.shape) != shape[:-1] or tuple(anchor_value.shape) != shape:
        raise ValueError(
            f"anchored: anchor_logit has shape {tuple(anchor_logit.shape)} and anchor_value "
            f"{tuple(anchor_value.shape)} but the state has (slots, heads, dim) = {shape}. "
            "Give every slot and head a separate anchor."
        )
    odds = (state.log_mass - anchor_logit).unsqueeze(-1)
    # Two sigmoids: 1 - sigmoid would round a small share, and its gradient, to zero.
    return torch.sigmoid(-odds) * anchor_value + torch.sigmoid(odds) * state.content


def check_anchor(who: str, state: SlotState, anchor_logit: Tensor) -> None:
    """Check a state and an anchor logit per slot and head."""
    check_state(who, "state", state)
    _check_tensors(who, state=state.content, anchor_logit=anchor_logit)
    shape = tuple(state.log_mass.shape[1:])
    if tuple(anchor_logit.shape) != shape:
        raise ValueError(
            f"{who}: anchor_logit has shape {tuple(anchor_logit.shape)} but the state has (slots, heads) = {shape}. "
            "Give every slot and head a separate anchor."
        )


def log_odds(state: SlotState, anchor_logit: Float[Tensor, "slots heads"]) -> Float[Tensor, "graphs slots heads"]:
    r"""Return the mass feature :math:`\log(1-\alpha_0) - \log\alpha_0 = \log Z - s_0`; ``-inf`` for an empty set.

    Paper: ``app:protocol``. Computed by the right-hand side, because the left-hand side cancels in float32.
    """
    check_anchor("log_odds", state, anchor_logit)
    return state.log_mass - anchor_logit


def softplus_odds(state: SlotState, anchor_logit: Float[Tensor, "slots heads"]) -> Float[Tensor, "graphs slots heads"]:
    r"""Return the softplus of the log-odds, :math:`-\log\alpha_0 = \log(1 + Z e^{-s_0})`; zero for an empty set.

    If the scores equal the anchor logit this is ``log(1 + count)``; for large masses it approaches :func:`log_odds`.
    """
    check_anchor("softplus_odds", state, anchor_logit)
    return softplus(state.log_mass - anchor_logit)


def softplus(odds: Tensor) -> Tensor:
    # The gradient of softplus at -inf is NaN (0 * inf). Below -1e4 softplus is zero, so clamping changes no value.
    return torch.nn.functional.softplus(odds.clamp(min=-1e4), threshold=80.0)


T = TypeVar("T")


def outside_inference_mode(make: Callable[[], T]) -> T:
    """Call ``make`` outside inference mode, so that the tensors it returns can also be used in training."""
    if torch.compiler.is_compiling() or not torch.is_inference_mode_enabled():
        return make()
    with torch.inference_mode(False):
        return make()


def is_transformed() -> bool:
    """Return whether ``torch.func`` or a dispatch mode such as ``FakeTensorMode`` is active."""
    if torch.compiler.is_dynamo_compiling():
        return False
    return torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack() > 0


def in_mode() -> bool:
    """Return whether new tensors must not be cached: a transform, a dispatch mode or inference mode is active."""
    if torch.compiler.is_dynamo_compiling():  # Dynamo traces the cached values like any other code
        return False
    return (
        torch.is_inference_mode_enabled()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
    )


def untransformed(make: Callable[[], T]) -> T:
    """Call ``make`` outside all modes; the tensors that it uses must come from outside them too."""
    if not in_mode():
        return make()
    with ExitStack() as stack:
        if torch._C._are_functorch_transforms_active():
            stack.enter_context(torch._C._DisableFuncTorch())
        if torch._C._len_torch_dispatch_stack():
            stack.enter_context(dispatch._disable_current_modes())
        return outside_inference_mode(make)
