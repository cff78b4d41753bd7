"""Parameter budgets: every module with as many parameters as the anchored one."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from mooring.nn import MemorySpec
from mooring.nn.checks import check_return_state
from mooring.nn.masks import hide, readers, sound_nodes, writers
from mooring.zoo.registry import build

REFERENCE = "anchored"
# A module below the budget by at most this share is unchanged.
CLOSE = 0.05
# A module above the budget by more than this share cannot be matched.
TOO_LARGE = 0.1


class WithNodeMLP(nn.Module):
    r"""Global module with a residual MLP on its targets, :math:`h + \operatorname{MLP}(h)`, to add parameters.

    The MLP sees one node at a time, so it changes neither the information about the graph, nor counting or addressing.

    Args:
        module: a module with the forward of :class:`~mooring.nn.SlotVirtualNode`.
        channels: width of the nodes.
        hidden: hidden width of the MLP.
        init_std: standard deviation of the last weights of the MLP, as in :class:`~mooring.nn.SlotFiLM`.
    """

    def __init__(self, module: nn.Module, channels: int, hidden: int, init_std: float = 1e-3) -> None:
        super().__init__()
        self.module: Any = module
        self.init_std = init_std
        self.lin_in = nn.Linear(channels, hidden)
        self.lin_out = nn.Linear(hidden, channels)
        self._init_output()

    def _init_output(self) -> None:
        nn.init.normal_(self.lin_out.weight, std=self.init_std)
        nn.init.zeros_(self.lin_out.bias)

    def reset_parameters(self) -> None:
        self.module.reset_parameters()
        self.lin_in.reset_parameters()
        self._init_output()

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,
        *,
        targets: Tensor | None = None,
        return_state: bool | Literal["slots"] = False,
        **options: Any,
    ) -> Any:
        """Run the module, then the MLP on the rows that the module updated."""
        return_state = check_return_state(type(self).__name__, return_state)
        out = self.module(x, batch, targets=targets, return_state=return_state, **options)
        out, memory = out if return_state else (out, None)
        # Recompute which rows the module updated, from the same arguments.
        address = options.get("address") if getattr(self.module, "address_channels", None) is not None else None
        reads = readers(sound_nodes(x, address, writers(options.get("sources"), options.get("log_weight"))), targets)
        more = out + self.lin_out(nn.functional.gelu(self.lin_in(hide(out, reads))))
        out = more if reads is None else torch.where(reads.unsqueeze(-1), more, out)
        return (out, memory) if return_state else out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.module}, hidden={self.lin_in.out_features})"


def size(name: str, spec: MemorySpec) -> int:
    """Return the number of parameters of a module; the caller's random state is unchanged.

    >>> size("none", MemorySpec(channels=16)), size("vn", MemorySpec(channels=16)) > 0
    (0, True)
    """
    with torch.random.fork_rng(devices=[]):
        module = build(name, spec)
    return 0 if module is None else count(module)


def count(module: nn.Module) -> int:
    """Return the number of parameters of a built module."""
    return sum(parameter.numel() for parameter in module.parameters())


def matched(name: str, spec: MemorySpec, budget: int | None = None) -> nn.Module | None:
    """Build the module called ``name`` with about as many parameters as ``budget``.

    The same rule holds for all modules. If a module is too large, it gets the largest ``hidden_channels`` that fits. If
    it is then more than 5 % below the budget, it gets a residual MLP on its targets (:class:`WithNodeMLP`) of the width
    that fills the budget. ``"none"`` stays None.

    Args:
        name: as in :func:`~mooring.zoo.build`.
        spec: see :class:`~mooring.nn.MemorySpec`; ``hidden_channels`` is lowered if it is too large.
        budget: number of parameters; that of the anchored module if None.

    >>> spec = MemorySpec(channels=16, slots=4)
    >>> count(matched("vn", spec)) > 0.95 * size("anchored", spec)
    True
    """
    budget = size(REFERENCE, spec) if budget is None else budget
    spec = fitting(name, spec, budget)
    module = build(name, spec)
    return None if module is None else filled(module, spec, budget)


def fitting(name: str, spec: MemorySpec, budget: int | None = None) -> MemorySpec:
    """Return the spec with the largest ``hidden_channels`` that keeps the module called ``name`` within the budget.

    Arguments as in :func:`matched`; the spec is unchanged if the module is small enough.
    """
    budget = size(REFERENCE, spec) if budget is None else budget
    if size(name, spec) <= budget:
        return spec
    smallest = size(name, replace(spec, hidden_channels=1))
    if smallest > (1 + TOO_LARGE) * budget:
        raise ValueError(
            f"zoo: {name!r} has at least {smallest} parameters, more than the budget of {budget} allows. "
            "Raise the budget, or compare it with fewer slots."
        )
    # The size grows with the width.
    widths = range(1, 2 * spec.channels + 1)
    fits = bisect_right(widths, budget, key=lambda hidden: size(name, replace(spec, hidden_channels=hidden)))
    return replace(spec, hidden_channels=max(1, fits))


def filled(module: nn.Module, spec: MemorySpec, budget: int | None = None) -> nn.Module:
    """Add a residual MLP on the targets to a built module that is more than 5 % below the budget.

    Args:
        module: a module with the forward of :class:`~mooring.nn.SlotVirtualNode`.
        spec: widths, and ``init_std`` of the MLP.
        budget: as in :func:`matched`.
    """
    budget = size(REFERENCE, spec) if budget is None else budget
    missing = budget - count(module)
    hidden = round((missing - spec.channels) / (2 * spec.channels + 1))
    if missing <= CLOSE * budget or hidden < 1:
        return module
    return WithNodeMLP(module, spec.channels, hidden, spec.init_std)
