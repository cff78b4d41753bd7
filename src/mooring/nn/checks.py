"""Checks that every virtual node makes of its input, in its own name."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mooring.ops import checks


def check_build(who: str, channels: int, slots: int, heads: int) -> None:
    for name, count in (("channels", channels), ("slots", slots), ("heads", heads)):
        if count < 1:
            raise ValueError(f"{who}: {name} is {count} but at least 1 was expected.")
    if channels % heads:
        raise ValueError(
            f"{who}: channels={channels} cannot be split over heads={heads}. Pick heads that divide channels."
        )


def check_input(
    module: nn.Module,
    channels: int,
    x: Tensor,
    batch: Tensor | None,
    sources: Tensor | None,
    targets: Tensor | None,
    log_weight: Tensor | None,
    num_graphs: int | None,
) -> int:
    """Check everything but the address, and return the number of graphs."""
    who = type(module).__name__
    checks.check_rank(who, "x", x, "nodes channels")
    checks.check_floating(who, x=x)
    check_width(who, "x", x, "channels", channels)
    parameter = next(module.parameters())
    if parameter.device != x.device:
        raise ValueError(
            f"{who}: x is on {x.device} but the module is on {parameter.device}. "
            "Move one of them, e.g. module.to(x.device)."
        )
    if parameter.dtype != x.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(
            f"{who}: x has dtype {checks.short(x.dtype)} but the module has {checks.short(parameter.dtype)}. "
            "Convert one of them, e.g. module.to(x.dtype)."
        )
    checks.check_device(who, x=x, batch=batch, sources=sources, targets=targets, log_weight=log_weight)
    checks.check_mask(who, "sources", sources, x.size(0))
    checks.check_mask(who, "targets", targets, x.size(0))
    checks.check_log_weight(who, log_weight, x.size(0))
    return checks.check_index(who, "batch", batch, x.size(0), num_graphs)


def check_width(who: str, name: str, tensor: Tensor, argument: str, width: int) -> None:
    if tensor.size(-1) != width:
        raise ValueError(
            f"{who}: {name} has width {tensor.size(-1)} but {argument}={width}. "
            f"Build it with {argument}={tensor.size(-1)} or project {name} first."
        )


def check_address(who: str, address: Tensor | None, x: Tensor, address_channels: int | None) -> None:
    if address_channels is None:
        if address is not None:
            raise ValueError(
                f"{who}: got an address but routes by content. Build it with address_channels={address.size(-1)}."
            )
        return
    if address is None:
        raise ValueError(
            f"{who}: routes by address (address_channels={address_channels}) but got none. "
            "Pass address=[nodes, address_channels]."
        )
    checks.check_rank(who, "address", address, "nodes address_channels")
    checks.check_floating(who, address=address)
    check_width(who, "address", address, "address_channels", address_channels)
    checks.check_rows(who, "address", address, x.size(0), "x")
    checks.check_device(who, x=x, address=address)
