"""Batch layouts of several node types with a common number of graphs."""

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
    """Return the plan of each type, all with the same number of graphs.

    Args:
        who: module named in error messages.
        x_dict: features of each type.
        batch_dict, ptr_dict, plan_dict: graph ids, offsets or plan of each type. Nodes of a type with none of them are
            in the first graph, which must be the only one.
        num_graphs: inferred from all types if None.
    """
    batch_dict = dict(batch_dict)
    for name, plan in plan_dict.items():
        others = {"batch": batch_dict.get(name), "ptr": ptr_dict.get(name)}
        batch_dict[name] = sole_plan(f"{who}, type {name!r}", plan, **others)
    one_graph = num_graphs is None and not batch_dict and not ptr_dict
    count = _count_graphs(who, x_dict, batch_dict, ptr_dict) if num_graphs is None else num_graphs
    plans = {}
    for name, x in x_dict.items():
        batch, ptr = batch_dict.get(name), ptr_dict.get(name)
        if isinstance(batch, Plan) or ptr is not None:
            plan = make_plan(who, batch, ptr, x.size(0), device=x.device)
            if checks_values() and plan.num_graphs > count:
                raise ValueError(f"{who}: num_graphs is {count} but {name!r} has {plan.num_graphs}. Raise num_graphs.")
            if plan.batch is None:
                _check_one_graph(who, name, x, count)
            plans[name] = plan.with_graphs(count)
        elif batch is not None:
            plans[name] = make_plan(who, batch, None, x.size(0), count, device=x.device, name=f"batch of {name!r}")
        else:
            _check_one_graph(who, name, x, count)
            ids = None if one_graph else torch.zeros(x.size(0), dtype=torch.long, device=x.device)
            plans[name] = Plan(x.size(0), count, ids, None, x.device)
    return plans


def _check_one_graph(who: str, name: str, x: Tensor, count: int) -> None:
    """Raise if a node type has no batch vector but there is more than one graph."""
    if not torch.compiler.is_compiling() and count > 1 and x.size(0):
        raise ValueError(
            f"{who}: {name!r} has {x.size(0)} nodes and no batch but there are {count} graphs. "
            f"Pass batch_dict[{name!r}] or ptr_dict[{name!r}], or a plan made from one of them."
        )


def _count_graphs(
    who: str, x_dict: Mapping[str, Tensor], batch_dict: Mapping[str, Tensor | Plan], ptr_dict: Mapping[str, Tensor]
) -> int:
    """Return the number of graphs of all types. Ids are concatenated, so that tracing gets one symbolic size."""
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
        all_ids = torch.cat(ids)
        number = num_graphs_of(who, "batch_dict", all_ids, all_ids.numel(), None)
        if torch.compiler.is_compiling() and len(counts) == 1:
            return number
        counts.append(number)
    return max(counts)
