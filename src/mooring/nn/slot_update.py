"""The update: the computation of each slot between write and read."""

from __future__ import annotations

import inspect
import math
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mooring import ops
from mooring.named import suggest
from mooring.nn.checks import check_build, check_choice, check_finite, check_share, check_width_or_none, shown
from mooring.nn.masked_batch_norm import MaskedBatchNorm
from mooring.ops import SlotState
from mooring.ops.checks import check_flag
from mooring.ops.state import check_state, softplus

MassFeature = Literal["softplus", "log_odds"]
MassMap = Literal["mlp", "linear"]
UpdateNorm = Literal["layer", "batch"]
MASS_FEATURES, MASS_MAPS, UPDATE_NORMS = get_args(MassFeature), get_args(MassMap), get_args(UpdateNorm)

# Arguments of the update that its container has too, perhaps with another meaning.
SHARED_ARGUMENTS = frozenset({"channels", "slots", "heads", "anchored", "hidden_channels"})

# The paper's log-odds is -inf for an empty set. At this floor the mass is e^-20 times that of the anchor.
LOG_ODDS_FLOOR = -20.0


class SlotUpdate(nn.Module):
    r"""Slot states -> slots: project, normalise, feed forward, normalise, *then* add the mass.

    .. math::
        Z = \operatorname{LN}(u + \operatorname{FF}(u)) + \operatorname{MLP}(\text{mass}), \qquad
        u = \operatorname{LN}(S + \mu W_O)

    The mass is added after both LayerNorms, so that they cannot erase it. Without an anchor there is no mass channel,
    and the memory is blind to replication.

    Paper: ``eq:slotread``, ``app:protocol``. Departs: an empty slot holds its anchor value, the limit of
    ``eq:anchored``; the paper does not define this case.

    Args:
        channels, slots, heads: as in :class:`SlotWrite`.
        anchored: give each slot and head a private anchor, a logit and a value.
        mass: ``"softplus"`` is :math:`\log(1 + Z e^{-s_0})`, finite for an empty set and equal to ``log(1 + count)``
            for equal logits. ``"log_odds"`` is the paper's :math:`\log Z - s_0`, with a floor of -20, because it is
            ``-inf`` for an empty set.
        split: keep content and mass in separate channels. If False, the content is the mixture of ``eq:anchored``,
            which LayerNorm normalises.
        hidden_channels: hidden width of both MLPs; channels if None.
        anchor_init: initial logit of the anchors. Zero suits slots that a few nodes write to. For many nodes, the log
            of their number keeps the initial mass near one.
        mass_map: ``"mlp"`` fits any function of the mass within the training range; ``"linear"`` extrapolates linearly
            in the log of the count.
        norm: ``"layer"`` normalises over the channels of a slot. ``"batch"`` normalises each channel over the graphs of
            a batch: writes of many nodes are nearly equal in all graphs, and only this norm enlarges the difference. It
            makes graphs depend on their batch in training, as batch norm does, and does not suit one large graph.
        content_dropout: in training, hide the content of this share of the sets. Otherwise a model may infer counts
            from proportions and mass together, which does not generalise to larger sets.

    Shapes: content ``[graphs, slots, heads, channels / heads]``, identity ``[slots, channels]``, the residual of
    ``eq:slotread``, or None if slots have addresses -> ``[graphs, slots, channels]``.
    """

    def __init__(
        self,
        channels: int,
        slots: int,
        heads: int = 4,
        *,
        anchored: bool = True,
        mass: MassFeature = "softplus",
        split: bool = True,
        hidden_channels: int | None = None,
        anchor_init: float = 0.0,
        mass_map: MassMap = "mlp",
        norm: UpdateNorm = "layer",
        content_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        check_build(who, channels, slots, heads)
        anchor: dict[str, Any] = {"mass": mass, "split": split, "anchor_init": anchor_init, "mass_map": mass_map}
        anchored, split = check_update(who, anchored=anchored, content_dropout=content_dropout, **anchor)
        check_choice(who, "norm", norm, UPDATE_NORMS)
        hidden = check_width_or_none(who, "hidden_channels", hidden_channels, channels)
        self.state_shape = (slots, heads, channels // heads)
        self.hidden_channels = hidden_channels
        self.mass_map = mass_map
        self.anchored = anchored
        self.mass = mass
        self.split = split
        self.anchor_init = anchor_init
        self.content_dropout = content_dropout
        self.norm = norm
        self.lin_out = nn.Linear(channels, channels)
        self.norm_in: Any = self._norm(slots, channels)
        self.feed_forward = nn.Sequential(nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, channels))
        self.norm_out: Any = self._norm(slots, channels)
        if anchored:
            self.anchor_logit = nn.Parameter(torch.empty(slots, heads))
            self.anchor_value = nn.Parameter(torch.empty(slots, heads, channels // heads))
            if split:
                self.mass_mlp = (
                    nn.Linear(heads, channels)
                    if mass_map == "linear"
                    else nn.Sequential(nn.Linear(heads, hidden), nn.GELU(), nn.Linear(hidden, channels))
                )
        self.reset_parameters()

    def _norm(self, slots: int, channels: int) -> nn.Module:
        return nn.LayerNorm(channels) if self.norm == "layer" else MaskedBatchNorm(slots, channels)

    def reset_parameters(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.LayerNorm | MaskedBatchNorm):
                module.reset_parameters()
        if self.anchored:
            nn.init.constant_(self.anchor_logit, self.anchor_init)
            nn.init.normal_(self.anchor_value)

    def forward(
        self, state: SlotState, identity: Float[Tensor, "*graphs slots channels"] | None = None
    ) -> Float[Tensor, "graphs slots channels"]:
        self._check(state)
        shape, dtype = state.log_mass.shape[:2], self.norm_in.weight.dtype
        # The slots of all graphs are the rows of one matrix, so that a linear map is one call instead of four.
        u = self.lin_out(self._content(state).reshape(-1, math.prod(self.state_shape[1:])).to(dtype))
        if identity is not None:
            u = (u.unflatten(0, shape) + identity).flatten(0, 1)
        u = self._normalised(self.norm_in, u, state)
        u = self._normalised(self.norm_out, u + self.feed_forward(u), state)
        if self.training and self.content_dropout:
            visible = torch.rand(shape[0], 1, 1, device=u.device) >= self.content_dropout
            u = (u.unflatten(0, shape) * visible).flatten(0, 1)
        if self.anchored and self.split:
            u = u + self.mass_mlp(self.mass_feature(state).flatten(0, 1).to(dtype))
        return u.unflatten(0, shape)

    def _normalised(self, norm: nn.Module, u: Tensor, state: SlotState) -> Tensor:
        if self.norm == "layer":
            return norm(u)
        written = ~state.log_mass.isneginf().flatten(1).all(dim=1)
        return norm(u.unflatten(0, state.log_mass.shape[:2]), written).flatten(0, 1)

    def _check(self, state: SlotState) -> None:
        content, log_mass = state if isinstance(state, SlotState) else (None, None)
        if not (
            isinstance(content, Tensor)
            and isinstance(log_mass, Tensor)
            and content.is_floating_point()
            and log_mass.is_floating_point()
            and content.device == log_mass.device
            and content.shape[1:] == self.state_shape
            and content.shape[:-1] == log_mass.shape
        ):
            who = type(self).__name__
            check_state(who, "state", state)
            raise ValueError(
                f"{who}: content has shape {tuple(state.content.shape)} and log_mass {tuple(state.log_mass.shape)} but "
                f"(slots, heads, dim) = {self.state_shape} was expected. Build it with the numbers of the write."
            )

    def mass_feature(self, state: SlotState) -> Float[Tensor, "graphs slots heads"]:
        """Return how much was written, relative to the anchor."""
        odds = state.log_mass - self.anchor_logit
        return softplus(odds) if self.mass == "softplus" else odds.clamp(min=LOG_ODDS_FLOOR)

    def anchor_weight(self, state: SlotState) -> Float[Tensor, "graphs slots heads"]:
        """Return the share of the anchors in the softmax, see :func:`mooring.ops.anchor_weight`."""
        return ops.anchor_weight(state, self.anchor_logit)

    def _content(self, state: SlotState) -> Tensor:
        if not self.anchored:
            return state.content
        if not self.split:
            return ops.anchored(state, self.anchor_logit, self.anchor_value)
        return torch.where(state.log_mass.isneginf().unsqueeze(-1), self.anchor_value, state.content)

    def __repr__(self) -> str:
        slots, heads, dim = self.state_shape
        return shown(self, SlotUpdate, heads * dim, "heads", "anchored", slots=slots, heads=heads)


def idle_options(*, anchored: bool, split: bool) -> tuple[str, ...]:
    """Return the names of the options of an update that have no effect."""
    if not anchored:
        return "mass", "split", "anchor_init", "mass_map"
    return () if split else ("mass", "mass_map")


def check_update(who: str, *, anchored: Any, **options: Any) -> tuple[bool, bool]:
    """Check the options of anchor and mass; return ``anchored`` and ``split``."""
    parameters = inspect.signature(SlotUpdate).parameters
    defaults = {name: item.default for name, item in parameters.items() if name not in SHARED_ARGUMENTS}
    for name in options.keys() - defaults.keys():
        hint = suggest(name, defaults, f"those of the update are {', '.join(defaults)}.")
        raise TypeError(f"{who}: unknown argument {name!r}; {hint}")
    options = {**defaults, **options}
    anchored, split = check_flag(who, "anchored", anchored), check_flag(who, "split", options["split"])
    check_choice(who, "mass", options["mass"], MASS_FEATURES)
    check_choice(who, "mass_map", options["mass_map"], MASS_MAPS)
    check_finite(who, "anchor_init", options["anchor_init"])
    check_share(who, "content_dropout", options["content_dropout"])
    lacking, remedy = ("split channels", "split=True") if anchored else ("an anchor", "anchored=True")
    if options["content_dropout"] and not (anchored and split):
        raise ValueError(
            f"{who}: content_dropout={options['content_dropout']} would hide all there is, since without {lacking} "
            "there is no mass beside the content. Set it to 0."
        )
    for name in idle_options(anchored=anchored, split=split):
        if options[name] != defaults[name]:
            raise ValueError(
                f"{who}: {name}={options[name]!r} has no effect without {lacking}. Leave it out, or pass {remedy}."
            )
    return anchored, split
