"""Input checks of the public boundary: who, which argument, what it got, what it expected, what to do."""

from __future__ import annotations

import operator
import os
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor


class Switch:
    """A setting of the whole process: from where it is made on, or inside a ``with`` block, then as it was before.

    Threads share it: blocks that overlap in several threads end in any order, and so may leave either setting behind.
    """

    value: ClassVar[Any] = None
    _latest: ClassVar[Switch | None] = None

    def __init__(self, asked: Any) -> None:
        own = type(self)
        self._asked, self._made_over = asked, own.value
        self._found: list[Any] = []
        own.value, own._latest = asked, self

    def __enter__(self) -> None:
        own = type(self)
        # Entered where it is made, the block ends with what was before that; entered later, with what it finds there.
        self._found.append(self._made_over if own._latest is self else own.value)
        own.value, own._latest = self._asked, None

    def __exit__(self, *_: object) -> None:
        type(self).value = self._found.pop()


# What holds the nodes where it is not called x.
HOLDER = {
    **dict.fromkeys(("write", "write_weights", "compete"), "key"),
    **dict.fromkeys(("read", "read_weights"), "query"),
    "plan": "the plan",
}


# Reads numbers back from the device, so that a CUDA graph cannot hold it.
NOT_CAPTURABLE = (torch.Tag.cudagraph_unsafe,)


@torch.library.custom_op("mooring::count_graphs", mutates_args=(), tags=NOT_CAPTURABLE)
def count_graphs(index: Tensor) -> int:
    """One more than the largest graph id, as a number that ``torch.compile`` can carry without looking at it."""
    return int(index.max()) + 1 if index.numel() else 0


def _count(index: Tensor) -> int:
    """One more than the largest graph id. What is exported is made of PyTorch's own operators alone."""
    if not torch.compiler.is_exporting():
        return count_graphs(index)
    # No ids have no largest. Without nodes there is one graph, as without ids: inductor must be told of at least one.
    count = torch.cat([index, index.new_zeros(1)]).max().item() + 1
    torch._check(count > 0)
    return cast(int, count)


@count_graphs.register_fake
def _(index: Tensor) -> int:
    return cast(int, torch.library.get_ctx().new_dynamic_size())


class checks(Switch):
    """Turn checks of values on or off: from here on, or inside a ``with`` block.

    Shapes, dtypes and devices are always checked. Values are those of graph ids, offsets and weights: off, ids out of
    range and NaN weights go unnoticed, and no check waits for a device. Masks are still looked at, once per module.

    >>> with checks(False):
    ...     checks_values()
    False
    """

    value = True

    def __init__(self, on: bool) -> None:
        super().__init__(check_flag("checks", "on", on))


def checks_values() -> bool:
    """Whether values are checked: never in a traced graph, which must not branch on them."""
    return bool(checks.value) and not torch.compiler.is_compiling()


def readable(tensor: Tensor) -> bool:
    """Whether Python may look at its values: not in a traced graph, nor of shapes alone, nor mapped by ``vmap``."""
    if torch.compiler.is_compiling() or tensor.is_meta or isinstance(tensor, FakeTensor):
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def refuse_jit_trace(who: str) -> None:
    """``torch.jit.trace`` would record the sizes of one batch as constants."""
    if not torch.compiler.is_compiling() and torch._C._is_tracing():
        raise NotImplementedError(
            f"{who}: torch.jit.trace is not supported, since it would keep the sizes of one batch for all. Use "
            "torch.export.export, or torch.onnx.export with dynamo=True."
        )


def check_tensor(who: str, name: str, tensor: Any) -> None:
    if isinstance(tensor, Tensor):
        return
    hint = f"Pass {name}." if tensor is None else f"Convert it first, e.g. torch.as_tensor({name})."
    raise TypeError(f"{who}: {name} is {described(tensor)} but a tensor was expected. {hint}")


def check_flag(who: str, name: str, value: Any) -> bool:
    """True or False, Python's or numpy's, as a ``bool``. A string is refused: ``"False"`` counts as true."""
    kind = type(value)
    if kind is bool or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_")):
        return bool(value)
    raise TypeError(f"{who}: {name} is {described(value)} but True or False was expected. Pass a bool.")


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
    if not isinstance(tensor, Tensor):
        check_tensor(who, name, tensor)
    if tensor.dim() != len(axes.split()):
        raise ValueError(
            f"{who}: {name} has shape {tuple(tensor.shape)} but [{', '.join(axes.split())}] was expected. "
            "Add or drop an axis."
        )


def check_memory(who: str, name: str, tensor: Tensor) -> None:
    """``[..., slots, heads, dim]`` with at least one slot and one head: a softmax over nothing has no value."""
    for axis, kind in ((-3, "slots"), (-2, "heads")):
        if tensor.size(axis) == 0:
            raise ValueError(f"{who}: {name} has shape {tuple(tensor.shape)}, no {kind}. Pass at least one.")


def check_floating(who: str, **tensors: Tensor | None) -> None:
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            check_tensor(who, name, tensor)
        if not tensor.is_floating_point():
            raise TypeError(
                f"{who}: {name} has dtype {short(tensor.dtype)} but a floating one was expected. Pass {name}.float()."
            )


def check_device(who: str, **tensors: Tensor | None) -> None:
    """All tensors on the device of the first one."""
    first_name, device = "", None
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            check_tensor(who, name, tensor)
        if device is None:
            first_name, device = name, tensor.device
        elif tensor.device != device:
            raise ValueError(
                f"{who}: {name} is on {tensor.device} but {first_name} is on {device}. "
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
    """One entry per node of ``of``; None is what the caller calls its nodes."""
    if tuple(vector.shape) != (num_nodes,):
        raise ValueError(
            f"{who}: {name} has shape {tuple(vector.shape)} but {of or HOLDER.get(who, 'x')} has {num_nodes} nodes. "
            "Pass one entry for each node."
        )


def check_log_weight(
    who: str,
    log_weight: Tensor | None,
    num_nodes: int,
    rows: tuple[int, int] | None = None,
    *,
    values: bool = True,
) -> Tensor | None:
    """One weight per node, or per node, slot and head: returned as ``[nodes, slots or 1, heads or 1]``.

    Args:
        rows: slots and heads; None where each node has one weight.
        values: whether to check the numbers too, unless value checks are off.
    """
    if log_weight is None:
        return None
    check_tensor(who, "log_weight", log_weight)
    check_floating(who, log_weight=log_weight)
    if rows is None or log_weight.dim() == 1:
        check_node_vector(who, "log_weight", log_weight, num_nodes)
    elif (
        log_weight.dim() != 3
        or log_weight.size(0) != num_nodes
        or any(have not in (1, want) for have, want in zip(log_weight.shape[1:], rows, strict=True))
    ):
        raise ValueError(
            f"{who}: log_weight has shape {tuple(log_weight.shape)} but [nodes] or [nodes, slots, heads] = "
            f"{[num_nodes, *rows]} was expected; 1 in place of slots or heads is shared by all. Add or drop an axis, "
            "e.g. log_weight.unsqueeze(-1)."
        )
    if values and checks_values() and readable(log_weight):
        wrong = log_weight.isnan() | log_weight.isposinf()
        if bool(wrong.any()):
            node = int(wrong.nonzero()[0, 0])
            got = float(log_weight[wrong][0])
            raise ValueError(
                f"{who}: log_weight is {got} at node {node} but it must be finite or -inf. "
                "Pass the logarithm of a weight, -inf to leave a node out."
            )
    return log_weight[:, None, None] if log_weight.dim() == 1 else log_weight


def num_graphs_of(
    who: str,
    name: str,
    index: Tensor | None,
    num_nodes: int,
    num_graphs: int | None,
    count_name: str = "num_graphs",
) -> int:
    """Return the number of graphs, the user's argument ``count_name``, after a check of the graph ids."""
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
    if num_graphs is None and type(index) is Tensor and index.is_meta:
        raise ValueError(f"{who}: {name} is on meta, where ids have no values to count graphs by. Pass {count_name}.")
    if not readable(index):
        return _count(index) if num_graphs is None else num_graphs
    if not index.numel():
        return num_graphs or 0
    if num_graphs is None or checks.value:
        low, high = index.aminmax()
        smallest, largest = int(low), int(high)
        count: int = largest + 1 if num_graphs is None else num_graphs
        if checks.value and (smallest < 0 or largest >= count):
            or_raise = f", or raise {count_name} to {largest + 1}" if smallest >= 0 else ""
            # In the words of PyG's aggregations, which their tests look for.
            invalid = f"invalid {count_name!r}: " if count_name == "dim_size" else ""
            raise ValueError(
                f"{who}: {invalid}{name} has ids from {smallest} to {largest} but {count_name}={count}. "
                f"Number the graphs from 0{or_raise}."
            )
        return count
    return num_graphs


def check_ptr(
    who: str,
    ptr: Tensor,
    batch: Tensor | None,
    num_nodes: int | None,
    num_graphs: int | None,
    count_name: str = "num_graphs",
) -> int:
    """Check the offsets of the graphs, and the ids beside them, and return the number of nodes.

    On an accelerator the numbers are taken on trust: looking at them would wait for the device.
    """
    check_tensor(who, "ptr", ptr)
    if ptr.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{who}: ptr has dtype {short(ptr.dtype)} but int64 or int32 was expected. Pass ptr.long().")
    if ptr.dim() != 1 or not ptr.numel():
        raise ValueError(
            f"{who}: ptr has shape {tuple(ptr.shape)} but [graphs + 1] was expected: where each graph begins, and "
            "where the last one ends."
        )
    if num_graphs is not None and num_graphs != ptr.numel() - 1:
        raise ValueError(
            f"{who}: {count_name} is {num_graphs} but ptr has {ptr.numel() - 1} graphs. Leave {count_name} out."
        )
    if batch is not None:
        num_nodes = batch.numel() if num_nodes is None else num_nodes
        check_ids(who, "batch", batch, num_nodes)
    looks = checks_values() and ptr.device.type == "cpu" and readable(ptr)
    if num_nodes is None:
        num_nodes = int(ptr[-1])
    if looks:
        offsets = ptr.tolist()
        if offsets[0] != 0 or offsets[-1] != num_nodes:
            raise ValueError(
                f"{who}: ptr runs from {offsets[0]} to {offsets[-1]} but from 0 to {num_nodes}, the number of nodes, "
                "was expected. Pass where each graph begins, and where the last one ends."
            )
        for one, other in pairwise(offsets):
            if one > other:
                raise ValueError(f"{who}: ptr falls from {one} to {other} but it must rise. Sort the nodes by graph.")
        count = torch.arange(ptr.numel() - 1, device=ptr.device)
        if batch is not None and not torch.equal(batch.long(), count.repeat_interleave(ptr.long().diff())):
            raise ValueError(
                f"{who}: batch and ptr disagree on the graph of some node. With ptr the nodes must be sorted by graph; "
                "leave ptr out if they are not."
            )
    return num_nodes


def check_one_graph(who: str, name: str, graphs: int, index: Tensor | None) -> None:
    """Without graph ids what comes with the nodes must be of one graph."""
    if index is None and not torch.compiler.is_compiling() and graphs != 1:
        raise ValueError(f"{who}: {name} has {graphs} graphs but without index all nodes are one graph. Pass index.")


def check_ids(who: str, name: str, index: Tensor, num_nodes: int) -> None:
    """Dtype and shape of the graph ids. Bytes are refused: they index as a mask would."""
    if not isinstance(index, Tensor):
        check_tensor(who, name, index)
    if index.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            f"{who}: {name} has dtype {short(index.dtype)} but graph ids are int64 or int32. Pass {name}.long()."
        )
    if index.shape != (num_nodes,):
        check_node_vector(who, name, index, num_nodes)
    if not torch.compiler.is_compiling() and torch._C._functorch.is_batchedtensor(index):
        check_one_for_all(who, name, index)


def check_one_for_all(who: str, name: str, index: Tensor) -> None:
    """Check that the examples of a ``vmap`` share their graph ids: sizes depend on the ids."""
    if not torch.compiler.is_compiling() and torch._C._functorch.is_batchedtensor(index):
        raise ValueError(
            f"{who}: {name} has values of its own for each example of vmap, but sizes depend on them and must be the "
            f"same for all. Pass {name} with in_dims=None, or make one batch of all examples."
        )


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def check_room(who: str, name: str, count: int, bytes_each: int, device: torch.device) -> None:
    """Refuse a number of graphs whose results the device cannot hold, before anything is allocated."""
    if torch.compiler.is_compiling():
        return
    needed, room = count * bytes_each, _memory(device)
    if needed > room:
        raise ValueError(
            f"{who}: {name} is {count}, and {bytes_each} bytes for each graph are {needed / 2**30:,.1f} GiB where "
            f"{device} has {room / 2**30:,.1f}. Number the graphs without gaps, e.g. "
            "index.unique(return_inverse=True)[1]."
        )


@cache
def _memory(device: torch.device) -> int:
    """Bytes of memory the device has in all, or more than any has where it does not say."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    if device.type == "cpu" and hasattr(os, "sysconf"):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 2**44


def described(thing: object) -> str:
    """A thing as a message names it: words, numbers and None by value, all else by type, as ``a numpy.ndarray``."""
    if isinstance(thing, str | int | float | None):
        return repr(thing)
    cls = type(thing)
    return f"a {cls.__name__}" if cls.__module__ == "builtins" else f"a {cls.__module__}.{cls.__qualname__}"
