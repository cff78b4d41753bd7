"""Integrations: modules that bring the context into the nodes and start at, or near, the identity."""

from __future__ import annotations

from typing import Any, Literal, Protocol, cast, get_args, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mooring import ops
from mooring.nn.checks import check_choice, check_finite, check_width, check_width_or_none, shown
from mooring.nn.slot_write import is_hooked, is_plain
from mooring.ops import Plan, checks
from mooring.ops.checks import check_count, check_flag

IntegrationName = Literal["film", "linear_film", "residual", "global_film"]


@runtime_checkable
class Integration(Protocol):
    r"""Interface of a module that brings the context into the nodes of :class:`~mooring.nn.SlotVirtualNode`.

    A method ``residual_gain() -> Tensor | None`` is optional. If it returns a gain :math:`g` per channel, the read
    computes :math:`h_j + g \odot O_j` without a pass over the nodes, and the module is not called.
    """

    @property
    def context_channels(self) -> int:
        """Return the width of the context; 0 if the module uses the slots and no context."""

    def __call__(
        self,
        x: Float[Tensor, "nodes channels"],
        context: Float[Tensor, "nodes context_channels"] | None,
        memory: Float[Tensor, "graphs slots channels"],
        batch: Int[Tensor, " nodes"] | None,
    ) -> Float[Tensor, "nodes channels"]:
        """Return the updated nodes. Only nodes that read are passed in; ``batch`` is the graph of each."""


def as_integration(who: str, module: nn.Module) -> Integration:
    """Return a custom module after checking that it is an integration."""
    width = getattr(module, "context_channels", None)
    if width is None:
        raise TypeError(
            f"{who}: integrate is a {type(module).__name__} without context_channels. Give it that attribute: "
            "the width of the context, or 0 for none. See mooring.nn.Integration."
        )
    check_count(f"{who}: {type(module).__name__}", "context_channels", width, least=0)
    return cast(Integration, module)


class SlotFiLM(nn.Module):
    r"""Nodes and their contexts -> modulated nodes.

    .. math::
        [\hat\gamma_j, \hat\beta_j] = \operatorname{MLP}([h_j, O_j]), \qquad
        h_j^+ = (1 + \tfrac12 \tanh \hat\gamma_j) \odot h_j + \tanh \hat\beta_j

    The first layer of the MLP is split, :math:`W [h, O] = W_h h + W_O O`. Its second half is the output projection of
    the read, so the context already has the hidden width.

    Paper: ``eq:slot-film``; the bounds are those of ``app:protocol``.

    Args:
        channels: width of the node features.
        hidden_channels: hidden width of the MLP; channels if None.
        linear: add :math:`W O_j`, an unbounded path for counts beyond the training range.
        init_std: standard deviation of the final weights. Zero is the identity, and the routing then has no gradient
            at the first step; the paper's 1e-3 is close to the identity and passes gradients.
    """

    def __init__(
        self, channels: int, hidden_channels: int | None = None, *, linear: bool = False, init_std: float = 1e-3
    ) -> None:
        super().__init__()
        check_count(type(self).__name__, "channels", channels)
        check_finite(type(self).__name__, "init_std", init_std, least=0.0)
        linear = check_flag(type(self).__name__, "linear", linear)
        self.channels = channels
        self.hidden_channels = hidden_channels
        self.context_channels = check_width_or_none(type(self).__name__, "hidden_channels", hidden_channels, channels)
        self.init_std = init_std
        self.lin_node = nn.Linear(channels, self.context_channels)
        self.lin_film = nn.Linear(self.context_channels, 2 * channels)
        self.lin_linear = nn.Linear(self.context_channels, channels, bias=False) if linear else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.lin_node.reset_parameters()
        nn.init.normal_(self.lin_film.weight, std=self.init_std)
        nn.init.zeros_(self.lin_film.bias)
        if self.lin_linear is not None:
            nn.init.normal_(self.lin_linear.weight, std=self.init_std)

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        context: Float[Tensor, "nodes context_channels"],
        memory: Float[Tensor, "graphs slots width"],
        batch: Int[Tensor, " nodes"] | Plan | None = None,
    ) -> Float[Tensor, "nodes channels"]:
        check_node_and_context(self, x, context)
        out = self._modulated(x, context)
        return out if self.lin_linear is None else out + self.lin_linear(context).to(x.dtype)

    def _modulated(self, x: Tensor, context: Tensor) -> Tensor:
        weights = self.plain_weights()
        if weights is None:
            return modulate(x, self.lin_film(nn.functional.gelu(self.lin_node(x) + context)))
        dtype = weights[0].dtype
        return ops.film(x.to(dtype), context.to(dtype), *weights).to(x.dtype)

    def plain_weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
        """Return the weights and biases of both maps; None if a map is more than a linear one with a bias."""
        node, film = self.lin_node, self.lin_film
        if not (is_plain(node, bias=True) and is_plain(film, bias=True)) or node.bias is None or film.bias is None:
            return None
        return node.weight, node.bias, film.weight, film.bias

    def __repr__(self) -> str:
        return shown(self, SlotFiLM, self.channels, "linear", linear=self.lin_linear is not None)


class ResidualAdd(nn.Module):
    r"""Node plus context, :math:`h_j^+ = h_j + g \odot O_j`, with one learned gain per channel.

    The cheapest integration: the read computes the sum, see :meth:`residual_gain`.

    Args:
        channels: width of the node features and of the context.
        init_scale: the initial gain; zero is the identity.
    """

    def __init__(self, channels: int, *, init_scale: float = 0.1) -> None:
        super().__init__()
        check_count(type(self).__name__, "channels", channels)
        check_finite(type(self).__name__, "init_scale", init_scale)
        self.channels = self.context_channels = channels
        self.init_scale = init_scale
        self.gain = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.gain, self.init_scale)

    def residual_gain(self) -> Float[Tensor, " channels"] | None:
        """Return the gain; None if ``forward`` is overridden or hooked, and must therefore be called."""
        return None if type(self).forward is not ResidualAdd.forward or is_hooked(self) else self.gain

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        context: Float[Tensor, "nodes channels"],
        memory: Float[Tensor, "graphs slots channels"],
        batch: Int[Tensor, " nodes"] | Plan | None = None,
    ) -> Float[Tensor, "nodes channels"]:
        check_node_and_context(self, x, context)
        return torch.addcmul(x, context, self.gain.to(x.dtype))

    def __repr__(self) -> str:
        return shown(self, ResidualAdd, self.channels)


class GlobalFiLM(nn.Module):
    r"""All slots of a graph -> one modulation shared by all its nodes.

    .. math::
        [\gamma, \beta] = \Phi(Z_1, \dots, Z_M), \qquad h_j^+ = (1 + \gamma) \odot h_j + \beta

    Nodes do not select slots: a target-dependent read must be synthesised from the product with :math:`h_j`.

    Paper: ``eq:global-slot-film``; bounded as in :class:`SlotFiLM`.
    """

    context_channels = 0

    def __init__(
        self, channels: int, slots: int, hidden_channels: int | None = None, *, init_std: float = 1e-3
    ) -> None:
        super().__init__()
        who = type(self).__name__
        check_count(who, "channels", channels)
        check_count(who, "slots", slots)
        check_finite(who, "init_std", init_std, least=0.0)
        hidden = check_width_or_none(who, "hidden_channels", hidden_channels, channels)
        self.channels = channels
        self.slots = slots
        self.hidden_channels = hidden_channels
        self.init_std = init_std
        self.lin_slots = nn.Linear(slots * channels, hidden)
        self.lin_film = nn.Linear(hidden, 2 * channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.lin_slots.reset_parameters()
        nn.init.normal_(self.lin_film.weight, std=self.init_std)
        nn.init.zeros_(self.lin_film.bias)

    def forward(
        self,
        x: Float[Tensor, "nodes channels"],
        context: Tensor | None,
        memory: Float[Tensor, "graphs slots channels"],
        batch: Int[Tensor, " nodes"] | Plan | None = None,
    ) -> Float[Tensor, "nodes channels"]:
        who = type(self).__name__
        checks.check_rank(who, "x", x, "nodes channels")
        check_width(who, "x", x, "channels", self.channels)
        checks.check_rank(who, "memory", memory, "graphs slots channels")
        batch = batch.batch if isinstance(batch, Plan) else batch
        if batch is None and memory.size(0) != 1 and not torch.compiler.is_compiling():
            raise ValueError(
                f"{who}: memory has {memory.size(0)} graphs but no batch says which node belongs to which. Pass batch."
            )
        film = self.lin_film(nn.functional.gelu(self.lin_slots(memory.flatten(1))))
        return modulate(x, film[batch] if batch is not None else film)

    def __repr__(self) -> str:
        return shown(self, GlobalFiLM, self.channels)


def default_options(integrate: Any, channels: int) -> tuple[int | None, float | None]:
    """Return the default hidden width and ``init_std`` of an integration; None for an option it does not have."""
    if integrate == "residual":
        return None, 0.1
    if not isinstance(integrate, str):
        return None, None
    return channels if integrate == "global_film" else max(channels // 4, 16), 1e-3


def build_integration(
    who: str,
    integrate: IntegrationName | nn.Module,
    channels: int,
    slots: int,
    hidden_channels: int | None,
    init_std: float | None,
) -> Integration:
    """Build an integration by name, or check a custom one."""
    if not isinstance(integrate, nn.Module):
        check_choice(who, "integrate", integrate, get_args(IntegrationName), "a module")
    hidden, std = default_options(integrate, channels)
    kind = f"integrate={integrate!r}" if isinstance(integrate, str) else "an integration that is built already"
    for name, value, default in (("hidden_channels", hidden_channels, hidden), ("init_std", init_std, std)):
        if value is not None and default is None:
            raise ValueError(f"{who}: {name}={value!r} has no effect with {kind}. Leave it out.")
    if isinstance(integrate, nn.Module):
        return as_integration(who, integrate)
    if init_std is not None:
        check_finite(who, "init_std", init_std, least=None if integrate == "residual" else 0.0)
        std = init_std
    if integrate == "residual":
        return ResidualAdd(channels, init_scale=cast(float, std))
    hidden = check_width_or_none(who, "hidden_channels", hidden_channels, cast(int, hidden))
    if integrate == "global_film":
        return GlobalFiLM(channels, slots, hidden, init_std=cast(float, std))
    return SlotFiLM(channels, hidden, linear=integrate == "linear_film", init_std=cast(float, std))


def check_node_and_context(module: SlotFiLM | ResidualAdd, x: Tensor, context: Tensor) -> None:
    """Check the shapes that a call of the module gets."""
    who = type(module).__name__
    if not isinstance(x, Tensor) or x.shape[1:] != (module.channels,):
        checks.check_rank(who, "x", x, "nodes channels")
        check_width(who, "x", x, "channels", module.channels)
    if not isinstance(context, Tensor) or tuple(context.shape) != (x.size(0), module.context_channels):
        checks.check_rank(who, "context", context, "nodes context_channels")
        raise ValueError(
            f"{who}: context has shape {tuple(context.shape)} but {(x.size(0), module.context_channels)} was expected. "
            "Pass one context for each node, as wide as context_channels."
        )


def modulate(x: Tensor, film: Tensor) -> Tensor:
    """Compute ``(1 + tanh(gamma) / 2) * x + tanh(beta)`` for ``film = [gamma, beta]``."""
    gamma, beta = film.tanh().to(x.dtype).chunk(2, dim=-1)
    return torch.addcmul(x, gamma, x, value=0.5) + beta
