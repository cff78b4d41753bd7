"""Which node of which type is in which graph."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mooring.nn.checks import sole_plan
from mooring.ops import Plan
from mooring.ops.checks import check_ids, checks_values, num_graphs_of
from mooring.ops.plan import make_plan


def plans_by_type(
    who: str,
    x_dict: Mapping[str, Tensor],
    batch_dict: Mapping[str, Tensor | Plan],
    ptr_dict: Mapping[str, Tensor],
    plan_dict: Mapping[str, Plan],
    num_graphs: int | None,
) -> dict[str, Plan]:
    """The plan of each type's batch, all with one number of graphs.

    Args:
        who: the module, for its messages.
        x_dict: features of each type.
        batch_dict, ptr_dict, plan_dict: graph ids, offsets or a plan of a type; one with none of them is in the first
            graph, which must then be the only one.
        num_graphs: if None, as many as the types tell of together.
    """
    told = dict(batch_dict)
    for name, plan in plan_dict.items():
        others = {"batch": batch_dict.get(name), "ptr": ptr_dict.get(name)}
        told[name] = sole_plan(f"{who}, type {name!r}", plan, **others)
    one_graph = num_graphs is None and not told and not ptr_dict
    count = _count(who, x_dict, told, ptr_dict) if num_graphs is None else num_graphs
    found = {}
    for name, x in x_dict.items():
        batch, ptr, called = told.get(name), ptr_dict.get(name), f"batch of {name!r}"
        if isinstance(batch, Plan) or ptr is not None:
            plan = make_plan(who, batch, ptr, x.size(0), device=x.device)
            if checks_values() and plan.num_graphs > count:
                raise ValueError(f"{who}: num_graphs is {count} but {name!r} has {plan.num_graphs}. Raise num_graphs.")
            if plan.batch is None:
                _check_alone(who, name, x, count)
            found[name] = plan.with_graphs(count)
        elif batch is not None:
            found[name] = make_plan(who, batch, None, x.size(0), count, device=x.device, name=called)
        else:
            _check_alone(who, name, x, count)
            first = None if one_graph else torch.zeros(x.size(0), dtype=torch.long, device=x.device)
            found[name] = Plan(x.size(0), count, first, None, x.device)
    return found


def _check_alone(who: str, name: str, x: Tensor, count: int) -> None:
    """Nodes that say nothing of their graph must be those of the only one."""
    if not torch.compiler.is_compiling() and count > 1 and x.size(0):
        raise ValueError(
            f"{who}: {name!r} has {x.size(0)} nodes and no batch but there are {count} graphs. "
            f"Pass batch_dict[{name!r}] or ptr_dict[{name!r}], or a plan made from one of them."
        )


def _count(
    who: str, x_dict: Mapping[str, Tensor], batch_dict: Mapping[str, Tensor | Plan], ptr_dict: Mapping[str, Tensor]
) -> int:
    """The number of graphs of all types. Ids are counted together, so that a traced graph learns one number."""
    ids, counts = [], [1]
    for name, x in x_dict.items():
        batch, ptr = batch_dict.get(name), ptr_dict.get(name)
        if isinstance(batch, Plan):
            counts.append(batch.num_graphs)
        elif ptr is not None:
            counts.append(ptr.numel() - 1)
        elif batch is not None:
            check_ids(who, f"batch of {name!r}", batch, x.size(0))
            ids.append(batch.long())
    if ids:
        together = torch.cat(ids)
        number = num_graphs_of(who, "batch_dict", together, together.numel(), None)
        if torch.compiler.is_compiling() and len(counts) == 1:
            return number
        counts.append(number)
    return max(counts)
