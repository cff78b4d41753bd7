"""The two sufficient statistics of a write, and what can be made of them without seeing the nodes again."""

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

_NOTHING = nullcontext()


def statistics_dtype(dtype: torch.dtype) -> torch.dtype:
    """Half precision is for storage; sums over many nodes are kept in float32 or better."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def in_forward_mode() -> bool:
    """Whether tangents may be about, which our own operators do not have; a traced graph is guarded by it."""
    return forward_ad._current_level >= 0


def full_precision(device: torch.device) -> AbstractContextManager[None]:
    """Autocast off: it reaches into our ops and would take the products behind the statistics in half precision."""
    if device.type == "meta" or not (torch.compiler.is_compiling() or torch.is_autocast_enabled(device.type)):
        return _NOTHING
    return torch.autocast(device.type, enabled=False)


def nothing_as_zero(log_mass: Tensor) -> Tensor:
    """Zero where nothing was written, so that ``-inf - -inf`` is never formed."""
    return torch.where(log_mass.isneginf(), 0.0, log_mass)


def weightless(log_weight: Tensor) -> Tensor:
    """``[nodes]``, True where every weight of a node is zero, of ``[nodes]`` or ``[nodes, ...]`` logarithms."""
    gone = log_weight.isneginf()
    return gone if gone.dim() == 1 else gone.flatten(1).all(dim=1)


class SlotState(NamedTuple):
    r"""What a slot keeps of a set of nodes: ``content`` :math:`\mu` and ``log_mass`` :math:`\log Z`.

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
        r"""The unnormalised weighted sum :math:`Z \mu`, what ACAM and CPA keep; overflows where :math:`Z` does."""
        return self.log_mass.exp().unsqueeze(-1) * self.content


def _check_tensors(who: str, **tensors: Any) -> None:
    """Floating, and on one device."""
    for name, tensor in tensors.items():
        checks.check_tensor(who, name, tensor)
    checks.check_floating(who, **tensors)
    checks.check_device(who, **tensors)


def check_state(who: str, name: str, state: Any, hint: str = "Pass what a write returns.") -> None:
    """A state of floating tensors on one device."""
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
    r"""States of disjoint node sets -> the state of their union, exactly.

    .. math::
        \log Z = \operatorname{logaddexp}(\log Z_1, \log Z_2), \qquad
        \mu = \frac{Z_1}{Z} \mu_1 + \frac{Z_2}{Z} \mu_2

    Empty sets: merging with the identity changes nothing, merging identities gives the identity, and gradients
    stay finite in both cases.

    Cost: ``O(states * graphs * slots * heads * dim)``, whatever the number of nodes.

    >>> left = SlotState(torch.ones(1, 1, 1, 2), torch.zeros(1, 1, 1))
    >>> right = SlotState(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1))
    >>> merge(left, right).content.flatten().tolist()
    [0.5, 0.5]
    """
    if not states:
        raise ValueError("merge: got no states. Pass at least one SlotState.")
    for place, state in enumerate(states):
        check_state("merge", f"states[{place}]", state, "Pass what writes return, as in merge(one, other).")
    checks.check_device("merge", **{f"states[{place}].content": state.content for place, state in enumerate(states)})
    # A traced graph may not know the number of graphs, and cannot compare it.
    if not torch.compiler.is_compiling() and len({(state.content.shape, state.log_mass.shape) for state in states}) > 1:
        listed = ", ".join(str(tuple(state.content.shape)) for state in states)
        raise ValueError(
            f"merge: contents have shapes {listed} but states of one memory share one shape. "
            "Write every part with the same num_graphs, query and value width."
        )
    log_masses = torch.stack([state.log_mass for state in states])
    contents = torch.stack([state.content for state in states])
    # Relative to the largest mass and not to -inf: exp(-inf - -inf) would be NaN where every part is empty.
    largest = nothing_as_zero(log_masses.amax(dim=0).detach())
    masses = (log_masses - largest).exp()
    total = masses.sum(dim=0)
    empty = total == 0
    shares = masses / torch.where(empty, 1.0, total)
    content = (shares.unsqueeze(-1) * contents).sum(dim=0)
    # log(where(...)) and not where(log(...)): the second has a NaN gradient through the branch not taken.
    log_mass = torch.where(empty, float("-inf"), torch.where(empty, 1.0, total).log() + largest)
    return SlotState(content, log_mass)


def anchor_weight(state: SlotState, anchor_logit: Float[Tensor, "slots heads"]) -> Float[Tensor, "graphs slots heads"]:
    r"""State and private anchor logit -> the anchor's share of the softmax, :math:`\alpha_0 = \sigma(s_0 - \log Z)`.

    Paper: ``prop:mass``. An empty set gives exactly one.
    """
    check_anchor("anchor_weight", state, anchor_logit)
    return torch.sigmoid(anchor_logit - state.log_mass)


def anchored(
    state: SlotState,
    anchor_logit: Float[Tensor, "slots heads"],
    anchor_value: Float[Tensor, "slots heads dim"],
) -> Float[Tensor, "graphs slots heads dim"]:
    r"""State and private anchor -> softmax attention over the nodes *and* the anchor.

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
            "Give every slot and head an anchor of its own."
        )
    odds = (state.log_mass - anchor_logit).unsqueeze(-1)
    # Two sigmoids and not one minus the other: a small share would be lost to rounding, and its gradient with it.
    return torch.sigmoid(-odds) * anchor_value + torch.sigmoid(odds) * state.content


def check_anchor(who: str, state: SlotState, anchor_logit: Tensor) -> None:
    """A state, and one logit for each of its slots and heads."""
    check_state(who, "state", state)
    _check_tensors(who, state=state.content, anchor_logit=anchor_logit)
    shape = tuple(state.log_mass.shape[1:])
    if tuple(anchor_logit.shape) != shape:
        raise ValueError(
            f"{who}: anchor_logit has shape {tuple(anchor_logit.shape)} but the state has (slots, heads) = {shape}. "
            "Give every slot and head an anchor of its own."
        )


def log_odds(state: SlotState, anchor_logit: Float[Tensor, "slots heads"]) -> Float[Tensor, "graphs slots heads"]:
    r"""The paper's mass feature :math:`\log(1-\alpha_0) - \log\alpha_0 = \log Z - s_0`; ``-inf`` for an empty set.

    Paper: ``app:protocol``. Computed as the difference on the right: the one on the left cancels in float32.
    """
    check_anchor("log_odds", state, anchor_logit)
    return state.log_mass - anchor_logit


def softplus_odds(state: SlotState, anchor_logit: Float[Tensor, "slots heads"]) -> Float[Tensor, "graphs slots heads"]:
    r"""The softplus of the log-odds, finite everywhere: :math:`-\log\alpha_0 = \log(1 + Z e^{-s_0})`; zero for an
    empty set.

    With node logits equal to the anchor's this is ``log(1 + count)``; for large masses it meets :func:`log_odds`.
    """
    check_anchor("softplus_odds", state, anchor_logit)
    return softplus(state.log_mass - anchor_logit)


def softplus(odds: Tensor) -> Tensor:
    """Return the softplus of log-odds."""
    # softplus(-inf) has a NaN gradient (0 * inf). Far below any mass that counts, a bound has none.
    return torch.nn.functional.softplus(odds.clamp(min=-1e4), threshold=80.0)


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


def in_mode() -> bool:
    """Return whether new tensors cannot be kept for later: they belong to a transform, a mode or inference mode."""
    if torch.compiler.is_dynamo_compiling():  # Dynamo traces what follows like any other code
        return False
    return (
        torch.is_inference_mode_enabled()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
    )


def untransformed(make: Callable[[], Made]) -> Made:
    """Return what ``make`` returns outside all modes; everything it uses must come from outside them too."""
    if not in_mode():
        return make()
    with ExitStack() as stack:
        if torch._C._are_functorch_transforms_active():
            stack.enter_context(torch._C._DisableFuncTorch())
        if torch._C._len_torch_dispatch_stack():
            stack.enter_context(dispatch._disable_current_modes())
        return lasting(make)
