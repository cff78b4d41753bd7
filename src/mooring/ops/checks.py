"""Input checks of the public functions and modules.

A message names the caller, the argument, its value, the expected value and a remedy.
"""

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
    """A process-wide setting: it takes effect at construction; a ``with`` block restores the previous value at its end.

    Threads share the setting. If ``with`` blocks of several threads overlap, either value may remain at the end.
    """

    value: ClassVar[Any] = None
    _latest: ClassVar[Switch | None] = None

    def __init__(self, value: Any) -> None:
        cls = type(self)
        self._value, self._value_at_construction = value, cls.value
        self._values_to_restore: list[Any] = []
        cls.value, cls._latest = value, self

    def __enter__(self) -> None:
        cls = type(self)
        # `with Switch(v):` restores the value from before construction; a Switch entered later, the value at entry.
        self._values_to_restore.append(self._value_at_construction if cls._latest is self else cls.value)
        cls.value, cls._latest = self._value, None

    def __exit__(self, *_: object) -> None:
        type(self).value = self._values_to_restore.pop()


# The argument that holds the nodes in each op; in modules it is x.
NODE_ARGUMENT = {
    **dict.fromkeys(("write", "write_weights", "compete"), "key"),
    **dict.fromkeys(("read", "read_weights"), "query"),
    "plan": "the plan",
}


# Synchronises with the host, so it cannot be captured in a CUDA graph.
NOT_CAPTURABLE = (torch.Tag.cudagraph_unsafe,)


@torch.library.custom_op("mooring::count_graphs", mutates_args=(), tags=NOT_CAPTURABLE)
def count_graphs(index: Tensor) -> int:
    """Return one more than the largest graph id; under ``torch.compile`` it is a symbolic size."""
    return int(index.max()) + 1 if index.numel() else 0


def _count(index: Tensor) -> int:
    """Return one more than the largest graph id; under ``torch.export`` by PyTorch's own operators only."""
    if not torch.compiler.is_exporting():
        return count_graphs(index)
    # max() needs an entry, so a zero is appended: without nodes there is one graph. Inductor needs count > 0 asserted.
    count = torch.cat([index, index.new_zeros(1)]).max().item() + 1
    torch._check(count > 0)
    return cast(int, count)


@count_graphs.register_fake
def _(index: Tensor) -> int:
    return cast(int, torch.library.get_ctx().new_dynamic_size())


class checks(Switch):
    """Turn checks of values on or off: from here on, or inside a ``with`` block.

    Shapes, dtypes and devices are always checked. Values are those of graph ids, offsets and weights. If they are not
    checked, ids out of range and NaN weights raise no error, and checks need no host sync. Masks are still read, once
    per module.

    >>> with checks(False):
    ...     checks_values()
    False
    """

    value = True

    def __init__(self, on: bool) -> None:
        super().__init__(check_flag("checks", "on", on))


def checks_values() -> bool:
    """Return whether values are checked: never under tracing, where Python cannot branch on them."""
    return bool(checks.value) and not torch.compiler.is_compiling()


def readable(tensor: Tensor) -> bool:
    """Return whether Python can read the values: not under tracing or ``vmap``, nor of meta and fake tensors."""
    if torch.compiler.is_compiling() or tensor.is_meta or isinstance(tensor, FakeTensor):
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def reject_jit_trace(who: str) -> None:
    """Raise under ``torch.jit.trace``, which would record the sizes of one batch as constants."""
    if not torch.compiler.is_compiling() and torch._C._is_tracing():
        raise NotImplementedError(
            f"{who}: torch.jit.trace is not supported, because it would fix the sizes of one batch for all. Use "
            "torch.export.export, or torch.onnx.export with dynamo=True."
        )


def check_tensor(who: str, name: str, tensor: Any) -> None:
    if isinstance(tensor, Tensor):
        return
    hint = f"Pass {name}." if tensor is None else f"Convert it first, e.g. torch.as_tensor({name})."
    raise TypeError(f"{who}: {name} is {described(tensor)} but a tensor was expected. {hint}")


def check_flag(who: str, name: str, value: Any) -> bool:
    """Return True or False, Python's or numpy's, as a ``bool``; raise on anything else, ``"False"`` included."""
    kind = type(value)
    if kind is bool or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_")):
        return bool(value)
    raise TypeError(f"{who}: {name} is {described(value)} but True or False was expected. Pass a bool.")


def check_count(who: str, name: str, count: Any, least: int = 1) -> int:
    """Return a Python or numpy integer as an ``int``; raise on anything else, such as 2.0, True or a tensor."""
    try:
        if isinstance(count, bool | Tensor):
            raise TypeError
        number = operator.index(count)
    except TypeError:
        hint = f"int({name})" if isinstance(count, float | Tensor) else "an int"
        raise TypeError(f"{who}: {name} is {described(count)} but a whole number was expected. Pass {hint}.") from None
    if number < least:
        raise ValueError(
            f"{who}: {name} is {number} but a count was expected. Pass zero or more."
            if least == 0
            else f"{who}: {name} is {number} but at least {least} was expected."
        )
    return number


def check_rank(who: str, name: str, tensor: Tensor, axes: str) -> None:
    """Check the number of axes; ``axes`` are their names, e.g. ``"slots heads dim"``."""
    if not isinstance(tensor, Tensor):
        check_tensor(who, name, tensor)
    if tensor.dim() != len(axes.split()):
        raise ValueError(
            f"{who}: {name} has shape {tuple(tensor.shape)} but [{', '.join(axes.split())}] was expected. "
            "Add or drop an axis."
        )


def check_memory(who: str, name: str, tensor: Tensor) -> None:
    """Check that ``[..., slots, heads, dim]`` has at least one slot and one head: an empty softmax is undefined."""
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
    """Check that all tensors are on one device."""
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
    """Check that there is one row per node of ``of``."""
    if tensor.size(0) != num_nodes:
        raise ValueError(
            f"{who}: {name} has {tensor.size(0)} rows but {of} has {num_nodes} nodes. Pass one row for each node."
        )


def check_mask(who: str, name: str, mask: Tensor | None, num_nodes: int) -> None:
    """Check a boolean node mask. Floats are rejected, because a NaN would count as True."""
    if mask is None:
        return
    check_tensor(who, name, mask)
    if mask.dtype != torch.bool:
        raise TypeError(
            f"{who}: {name} has dtype {short(mask.dtype)} but a node mask is boolean. Pass e.g. {name}.bool()."
        )
    check_node_vector(who, name, mask, num_nodes)


def check_node_vector(who: str, name: str, vector: Tensor, num_nodes: int, of: str | None = None) -> None:
    """Check that there is one entry per node of the argument ``of``; None means the node argument of ``who``."""
    if tuple(vector.shape) != (num_nodes,):
        of = of or NODE_ARGUMENT.get(who, "x")
        raise ValueError(
            f"{who}: {name} has shape {tuple(vector.shape)} but {of} has {num_nodes} nodes. "
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
    """Check log weights ``[nodes]`` or ``[nodes, slots, heads]``; return ``[nodes, slots or 1, heads or 1]``.

    Args:
        rows: slots and heads; None if only one weight per node is allowed.
        values: whether to check values as well, unless value checks are off.
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
        or any(size not in (1, count) for size, count in zip(log_weight.shape[1:], rows, strict=True))
    ):
        raise ValueError(
            f"{who}: log_weight has shape {tuple(log_weight.shape)} but [nodes] or [nodes, slots, heads] = "
            f"{[num_nodes, *rows]} was expected; 1 in place of slots or heads is shared by all. Add or drop an axis, "
            "e.g. log_weight.unsqueeze(-1)."
        )
    if values and checks_values() and readable(log_weight):
        invalid = log_weight.isnan() | log_weight.isposinf()
        if bool(invalid.any()):
            node = int(invalid.nonzero()[0, 0])
            weight = float(log_weight[invalid][0])
            raise ValueError(
                f"{who}: log_weight is {weight} at node {node} but it must be finite or -inf. "
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
    """Check the graph ids and return the number of graphs, the user's argument ``count_name``."""
    # Under tracing the count may be symbolic, and must not be compared.
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
            # The wording of PyG's aggregations, which PyG's tests match.
            prefix = f"invalid {count_name!r}: " if count_name == "dim_size" else ""
            raise ValueError(
                f"{who}: {prefix}{name} has ids from {smallest} to {largest} but {count_name}={count}. "
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
    """Check the offsets of the graphs, and the graph ids if given; return the number of nodes.

    On an accelerator the values are not checked, to avoid a host sync.
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
    reads_values = checks_values() and ptr.device.type == "cpu" and readable(ptr)
    if num_nodes is None:
        num_nodes = int(ptr[-1])
    if reads_values:
        offsets = ptr.tolist()
        if offsets[0] != 0 or offsets[-1] != num_nodes:
            raise ValueError(
                f"{who}: ptr runs from {offsets[0]} to {offsets[-1]} but from 0 to {num_nodes}, the number of nodes, "
                "was expected. Pass where each graph begins, and where the last one ends."
            )
        for start, end in pairwise(offsets):
            if start > end:
                raise ValueError(f"{who}: ptr falls from {start} to {end} but it must rise. Sort the nodes by graph.")
        graphs = torch.arange(ptr.numel() - 1, device=ptr.device)
        if batch is not None and not torch.equal(batch.long(), graphs.repeat_interleave(ptr.long().diff())):
            raise ValueError(
                f"{who}: batch and ptr disagree on the graph of some node. With ptr the nodes must be sorted by graph; "
                "leave ptr out if they are not."
            )
    return num_nodes


def check_one_graph(who: str, name: str, graphs: int, index: Tensor | None) -> None:
    """Check that an argument given without graph ids has a single graph."""
    if index is None and not torch.compiler.is_compiling() and graphs != 1:
        raise ValueError(f"{who}: {name} has {graphs} graphs but without index all nodes are one graph. Pass index.")


def check_ids(who: str, name: str, index: Tensor, num_nodes: int) -> None:
    """Check dtype and shape of the graph ids. uint8 is rejected, because PyTorch indexes with it as with a mask."""
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
            f"{who}: {name} differs between the examples of vmap, but sizes depend on it and must be the same for "
            f"all. Pass {name} with in_dims=None, or make one batch of all examples."
        )


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def check_room(who: str, name: str, count: int, bytes_each: int, device: torch.device) -> None:
    """Check, before anything is allocated, that results for ``count`` graphs fit into the device's memory."""
    if torch.compiler.is_compiling():
        return
    needed, available = count * bytes_each, _total_memory(device)
    if needed > available:
        raise ValueError(
            f"{who}: {name} is {count}, and {bytes_each} bytes for each graph are {needed / 2**30:,.1f} GiB, but "
            f"{device} has {available / 2**30:,.1f}. Number the graphs without gaps, e.g. "
            "index.unique(return_inverse=True)[1]."
        )


@cache
def _total_memory(device: torch.device) -> int:
    """Return the total memory of the device in bytes; 16 TiB if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    if device.type == "cpu" and hasattr(os, "sysconf"):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 2**44


def described(thing: object) -> str:
    """Format a value for an error message: literals by repr, everything else by type."""
    if isinstance(thing, str | int | float | None):
        return repr(thing)
    cls = type(thing)
    return f"a {cls.__name__}" if cls.__module__ == "builtins" else f"a {cls.__module__}.{cls.__qualname__}"
