"""Checks of constructor and call arguments; ``who`` is the module that error messages name."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal

import torch
from torch import Tensor, nn

from mooring.ops import checks
from mooring.ops.checks import check_count
from mooring.ops.plan import Plan, make_plan


def check_build(who: str, channels: int, slots: int, heads: int, name: str = "channels") -> None:
    """Check that width, slots and heads are counts, and that heads divide the width, which is called ``name``."""
    for argument, count in ((name, channels), ("slots", slots), ("heads", heads)):
        check_count(who, argument, count)
    if channels % heads:
        raise ValueError(f"{who}: {name}={channels} cannot be split over heads={heads}. Pick heads that divide {name}.")


def check_return_state(who: str, value: Any) -> bool | Literal["slots"]:
    """Check that ``return_state`` is True, False or ``"slots"``, since any other string would act as True."""
    if value is True or value is False:
        return value
    if isinstance(value, str) and value == "slots":
        return "slots"
    if isinstance(value, str):
        raise ValueError(
            f"{who}: return_state is {value!r} but True, False or 'slots' was expected. Pass 'slots' to leave out the "
            "weights."
        )
    return checks.check_flag(who, "return_state", value)


def check_width_or_none(who: str, name: str, width: int | None, default: int) -> int:
    """Return a checked width, or ``default`` if it is None. Zero is an error."""
    return default if width is None else check_count(who, name, width)


def check_finite(who: str, name: str, value: Any, *, least: float | None = None) -> None:
    """Check that a value is a finite number, and at least ``least``."""
    _check_real(who, name, value)
    if not math.isfinite(value) or (least is not None and value < least):
        bound = "" if least is None else f" of at least {least}"
        raise ValueError(f"{who}: {name} is {value} but a finite number{bound} was expected.")


def check_positive(who: str, name: str, value: Any) -> None:
    """Check that a value is a finite number above zero."""
    _check_real(who, name, value)
    if not 0.0 < value < math.inf:  # also false for NaN
        raise ValueError(f"{who}: {name} is {value} but a positive, finite one was expected.")


def check_share(who: str, name: str, value: Any) -> None:
    """Check that a value is a number in [0, 1)."""
    _check_real(who, name, value)
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{who}: {name} is {value} but a share in [0, 1) was expected.")


def check_choice(who: str, name: str, value: Any, options: Sequence[str], otherwise: str | None = None) -> None:
    """Check that a value is one of a few strings; ``otherwise`` names another accepted value in the message."""
    if isinstance(value, str) and value in options:
        return
    *names, last = [*map(repr, options), *([otherwise] if otherwise else [])]
    raise ValueError(f"{who}: {name} is {checks.described(value)} but {', '.join(names)} or {last} was expected.")


def check_input(
    module: nn.Module,
    channels: int,
    x: Tensor,
    batch: Tensor | Plan | None,
    *,
    ptr: Tensor | None = None,
    plan: Plan | None = None,
    num_graphs: int | None = None,
    sources: Tensor | None = None,
    targets: Tensor | None = None,
    log_weight: Tensor | None = None,
    rows: tuple[int, int] | None = None,
) -> Plan:
    """Check everything but the address and the graph features, and return the plan of the batch.

    Args:
        rows: slots and heads, if ``log_weight`` may have a separate weight for each.
    """
    who = type(module).__name__
    check_features(module, channels, x)
    check_nodes(who, x, sources=sources, targets=targets, batch=batch, log_weight=log_weight, rows=rows)
    if log_weight is not None:
        checks.check_log_weight(who, log_weight, x.size(0), rows)
    batch = batch if plan is None else sole_plan(who, plan, batch=batch, ptr=ptr)
    plan = make_plan(who, batch, ptr, x.size(0), num_graphs, device=x.device)
    if not torch.compiler.is_compiling() and plan.num_graphs > plan.num_nodes:
        checks.check_room(who, "num_graphs", plan.num_graphs, channels * x.element_size(), x.device)
    return plan


def check_plan(
    who: str, x: Tensor, batch: Tensor | Plan | None, ptr: Tensor | None, plan: Any, num_graphs: int | None
) -> Plan:
    """Return the plan of a batch that is passed as ``batch``, ``ptr`` or ``plan``."""
    batch = batch if plan is None else sole_plan(who, plan, batch=batch, ptr=ptr)
    return make_plan(who, batch, ptr, x.size(0), num_graphs, device=x.device)


def sole_plan(who: str, plan: Any, **others: Any) -> Plan:
    """Check a plan, and that none of ``others`` is passed with it; return the plan."""
    for name, value in others.items():
        if value is not None:
            raise ValueError(f"{who}: got plan and {name}. Pass one of them.")
    if not isinstance(plan, Plan):
        raise TypeError(f"{who}: plan is {checks.described(plan)} but a Plan was expected. Make it by ops.plan(batch).")
    return plan


def check_features(module: nn.Module, channels: int, x: Tensor, name: str = "x") -> None:
    """Check shape, dtype and device of the node features, the argument ``name`` of the module."""
    who = type(module).__name__
    checks.reject_jit_trace(who)
    checks.check_rank(who, name, x, "nodes channels")
    if not x.is_floating_point():
        checks.check_floating(who, **{name: x})
    check_width(who, name, x, "channels", channels)
    check_placed(module, x)


def check_placed(module: nn.Module, x: Tensor, name: str = "x") -> None:
    """Check that ``x`` has the device and, without autocast, the dtype of the module."""
    who, parameter = type(module).__name__, next(module.parameters(), None)
    if parameter is None:  # a quantised module has none
        return
    if parameter.device != x.device:
        raise ValueError(
            f"{who}: {name} is on {x.device} but the module is on {parameter.device}. "
            f"Move one of them, e.g. module.to({name}.device)."
        )
    if parameter.dtype != x.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(
            f"{who}: {name} has dtype {checks.short(x.dtype)} but the module has {checks.short(parameter.dtype)}. "
            f"Convert one of them, e.g. module.to({name}.dtype)."
        )


def check_nodes(
    who: str,
    x: Tensor,
    *,
    batch: Tensor | Plan | None = None,
    sources: Tensor | None = None,
    targets: Tensor | None = None,
    log_weight: Tensor | None = None,
    rows: tuple[int, int] | None = None,
) -> None:
    """Check device, dtype and shape of masks, weights and batch; checking values would be a host sync."""
    batch = batch.batch if isinstance(batch, Plan) else batch
    checks.check_device(who, x=x, batch=batch, sources=sources, targets=targets, log_weight=log_weight)
    for name, mask in (("sources", sources), ("targets", targets)):
        if mask is not None:
            checks.check_mask(who, name, mask, x.size(0))
    if log_weight is not None:
        checks.check_log_weight(who, log_weight, x.size(0), rows, values=False)
    if batch is not None:
        checks.check_ids(who, "batch", batch, x.size(0))


def check_like_nodes(who: str, name: str, tensor: Any, x: Tensor) -> None:
    """Check that a floating tensor has the device and, without autocast, the dtype of the nodes."""
    checks.check_tensor(who, name, tensor)
    checks.check_floating(who, **{name: tensor})
    checks.check_device(who, x=x, **{name: tensor})
    if tensor.dtype != x.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(
            f"{who}: {name} has dtype {checks.short(tensor.dtype)} but x has {checks.short(x.dtype)}. Pass "
            f"{name}.to(x.dtype)."
        )


def check_width(who: str, name: str, tensor: Tensor, argument: str, width: int) -> None:
    """Check the last axis of a tensor against the width that a constructor argument has set."""
    if tensor.size(-1) != width:
        raise ValueError(
            f"{who}: {name} has width {tensor.size(-1)} but {argument}={width}. "
            f"Build it with {argument}={tensor.size(-1)} or project {name} first."
        )


def check_address(who: str, address: Any, x: Tensor, address_channels: int | None) -> None:
    """Check the addresses of the nodes; ``address_channels`` is their width, or None if the module takes none."""
    if address_channels is None:
        if address is not None:
            checks.check_tensor(who, "address", address)
            raise ValueError(
                f"{who}: got an address but takes none. Build it with address_channels={address.size(-1)}."
            )
        return
    if address is None:
        raise ValueError(
            f"{who}: routes by address (address_channels={address_channels}) but got none. "
            "Pass address=[nodes, address_channels]."
        )
    checks.check_rank(who, "address", address, "nodes address_channels")
    check_like_nodes(who, "address", address, x)
    check_width(who, "address", address, "address_channels", address_channels)
    checks.check_rows(who, "address", address, x.size(0), "x")


def check_graph_features(who: str, graph_features: Any, x: Tensor, num_graphs: int, width: int | None) -> None:
    """Check the graph features; ``width`` is the ``graph_channels`` of the module."""
    if graph_features is None and width is None:
        return
    if graph_features is None:
        raise ValueError(
            f"{who}: was built with graph_channels={width} but got no graph_features. Pass graph_features=[graphs, "
            f"{width}]."
        )
    checks.check_rank(who, "graph_features", graph_features, "graphs graph_channels")
    if width is None:
        raise ValueError(
            f"{who}: got graph_features but takes none. Build it with graph_channels={graph_features.size(1)}."
        )
    check_like_nodes(who, "graph_features", graph_features, x)
    check_width(who, "graph_features", graph_features, "graph_channels", width)
    if torch.compiler.is_compiling():  # the number of graphs is symbolic
        torch._check(graph_features.size(0) == num_graphs)
    elif graph_features.size(0) != num_graphs:
        raise ValueError(
            f"{who}: graph_features has {graph_features.size(0)} rows but the batch has {num_graphs} graphs. Pass one "
            "row for each graph, and num_graphs if the last graphs have no nodes."
        )


def _check_real(who: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{who}: {name} is {checks.described(value)} but a number was expected. Pass a float.")


def shown(module: nn.Module, kind: type[nn.Module], first: object, *always: str, **values: Any) -> str:
    """Format a module as a call of its constructor: required options, those in ``always``, and those not default.

    Args:
        module: an instance of ``kind`` or of a subclass, whose name is printed.
        kind: the class whose constructor is printed; each of its arguments is an attribute of the same name.
        first: value of the first argument, which is printed without its name.
        values: values printed instead of the attributes.

    >>> from mooring.nn import SlotVirtualNode
    >>> SlotVirtualNode(64, competition=True)
    SlotVirtualNode(64, slots=8, heads=4, anchored=True, competition=True)
    """
    parts = [str(first)]
    for name, parameter in list(inspect.signature(kind).parameters.items())[1:]:
        if parameter.kind is parameter.VAR_KEYWORD:
            parts += [f"{option}={value!r}" for option, value in values.get(name, {}).items()]
            continue
        value = values[name] if name in values else getattr(module, name, parameter.default)
        if name in always or value != parameter.default:
            is_function = callable(value) and not isinstance(value, nn.Module)
            text = getattr(value, "__name__", type(value).__name__) if is_function else repr(value)
            parts.append(f"{name}={text}")
    return f"{type(module).__name__}({', '.join(parts)})"
