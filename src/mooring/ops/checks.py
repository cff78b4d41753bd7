"""Input checks of the public boundary: who, which argument, what it got, what it expected, what to do."""

from __future__ import annotations

import operator
from typing import Any, cast

import torch
from torch import Tensor

# What holds the nodes where it is not called x.
HOLDER = {"write": "key", "read": "query"}


@torch.library.custom_op("mooring::count_graphs", mutates_args=())
def count_graphs(index: Tensor) -> int:
    """One more than the largest graph id, as a number that ``torch.compile`` can carry without looking at it."""
    return int(index.max()) + 1 if index.numel() else 0


@count_graphs.register_fake
def _(index: Tensor) -> int:
    return cast(int, torch.library.get_ctx().new_dynamic_size())


def check_tensor(who: str, name: str, tensor: Any) -> None:
    if isinstance(tensor, Tensor):
        return
    hint = f"Pass {name}." if tensor is None else f"Convert it first, e.g. torch.as_tensor({name})."
    raise TypeError(f"{who}: {name} is {described(tensor)} but a tensor was expected. {hint}")


def check_count(who: str, name: str, count: Any, least: int = 1) -> int:
    """A whole number, as an ``int``: Python's and numpy's integers are, 2.0, True and tensors are not."""
    try:
        if isinstance(count, bool | Tensor):
            raise TypeError
        whole = operator.index(count)
    except TypeError:
        hint = f"int({name})" if isinstance(count, float | Tensor) else "an int"
        raise TypeError(f"{who}: {name} is {described(count)} but a whole number was expected. Pass {hint}.") from None
    if whole < least:
        raise ValueError(
            f"{who}: {name} is {whole} but a count was expected. Pass zero or more."
            if least == 0
            else f"{who}: {name} is {whole} but at least {least} was expected."
        )
    return whole


def check_rank(who: str, name: str, tensor: Tensor, axes: str) -> None:
    """``axes`` names what is expected, as in ``"slots heads dim"``."""
    check_tensor(who, name, tensor)
    if tensor.dim() != len(axes.split()):
        raise ValueError(
            f"{who}: {name} has shape {tuple(tensor.shape)} but [{', '.join(axes.split())}] was expected. "
            "Add or drop an axis."
        )


def check_floating(who: str, **tensors: Tensor | None) -> None:
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        check_tensor(who, name, tensor)
        if not tensor.is_floating_point():
            raise TypeError(
                f"{who}: {name} has dtype {short(tensor.dtype)} but a floating one was expected. Pass {name}.float()."
            )


def check_device(who: str, **tensors: Tensor | None) -> None:
    """All tensors on the device of the first one."""
    present = [(name, tensor) for name, tensor in tensors.items() if tensor is not None]
    first_name, first = present[0]
    for name, tensor in present:
        check_tensor(who, name, tensor)
        if tensor.device != first.device:
            raise ValueError(
                f"{who}: {name} is on {tensor.device} but {first_name} is on {first.device}. "
                f"Move one of them, e.g. {name}.to({first_name}.device)."
            )


def check_rows(who: str, name: str, tensor: Tensor, num_nodes: int, of: str) -> None:
    """One row for each node."""
    if tensor.size(0) != num_nodes:
        raise ValueError(
            f"{who}: {name} has {tensor.size(0)} rows but {of} has {num_nodes} nodes. Pass one row for each node."
        )


def check_mask(who: str, name: str, mask: Tensor | None, num_nodes: int) -> None:
    """A boolean node mask; floats are refused because NaN has no truth value."""
    if mask is None:
        return
    check_tensor(who, name, mask)
    if mask.dtype != torch.bool:
        raise TypeError(
            f"{who}: {name} has dtype {short(mask.dtype)} but a node mask is boolean. Pass {name} > 0, or its like."
        )
    check_node_vector(who, name, mask, num_nodes)


def check_node_vector(who: str, name: str, vector: Tensor, num_nodes: int, of: str | None = None) -> None:
    """One entry for each node of ``of``; if None, of what the caller's user knows the nodes by."""
    if tuple(vector.shape) != (num_nodes,):
        raise ValueError(
            f"{who}: {name} has shape {tuple(vector.shape)} but {of or HOLDER.get(who, 'x')} has {num_nodes} nodes. "
            "Pass one entry for each node."
        )


def check_log_weight(who: str, log_weight: Tensor | None, num_nodes: int, *, values: bool = True) -> None:
    """One weight for each node; -inf leaves a node out. Without ``values`` only dtype and shape are looked at."""
    if log_weight is None:
        return
    check_tensor(who, "log_weight", log_weight)
    check_floating(who, log_weight=log_weight)
    check_node_vector(who, "log_weight", log_weight, num_nodes)
    if not values or torch.compiler.is_compiling():
        return
    wrong = log_weight.isnan() | log_weight.isposinf()
    if bool(wrong.any()):
        node = int(wrong.nonzero()[0])
        raise ValueError(
            f"{who}: log_weight is {float(log_weight[node])} at node {node} but it must be finite or -inf. "
            "Pass the logarithm of a weight, -inf to leave a node out."
        )


def check_index(
    who: str,
    name: str,
    index: Tensor | None,
    num_nodes: int,
    num_graphs: int | None,
    count_name: str = "num_graphs",
) -> int:
    """Check the graph ids and return the number of graphs, which the caller's user knows as ``count_name``."""
    # A compiled graph must not branch on a count that it learns only when it runs.
    if not torch.compiler.is_compiling() and num_graphs is not None:
        num_graphs = check_count(who, count_name, num_graphs, least=0)
    if index is None:
        if num_graphs is not None and num_graphs != 1:
            raise ValueError(
                f"{who}: {count_name} is {num_graphs} but without {name} all nodes are one graph. "
                f"Pass {name}, or leave {count_name} out."
            )
        return 1
    check_ids(who, name, index, num_nodes)
    count: int = count_graphs(index) if num_graphs is None else num_graphs
    if not torch.compiler.is_compiling() and index.numel():
        smallest, largest = int(index.min()), int(index.max())
        if smallest < 0 or largest >= count:
            raise ValueError(
                f"{who}: {name} has ids from {smallest} to {largest} but {count_name}={count}. "
                f"Number the graphs from 0, or raise {count_name} to {largest + 1}."
            )
    return count


def check_ids(who: str, name: str, index: Tensor, num_nodes: int) -> None:
    """Dtype and shape of the graph ids. Bytes are refused: they index as a mask would."""
    check_tensor(who, name, index)
    if index.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            f"{who}: {name} has dtype {short(index.dtype)} but graph ids are int64 or int32. Pass {name}.long()."
        )
    check_node_vector(who, name, index, num_nodes)


def skip(index: Tensor | None, where: Tensor | None) -> Tensor | None:
    """The graph ids as int64, with -1, which the fast path leaves out, for nodes that do not take part."""
    index = None if index is None else index.long()
    if where is None:
        return index
    return where.long() - 1 if index is None else torch.where(where, index, -1)


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def described(thing: object) -> str:
    """A thing as a message names it: words, numbers and None by value, all else by type, as ``a numpy.ndarray``."""
    if isinstance(thing, str | int | float | None):
        return repr(thing)
    cls = type(thing)
    return f"a {cls.__name__}" if cls.__module__ == "builtins" else f"a {cls.__module__}.{cls.__qualname__}"
