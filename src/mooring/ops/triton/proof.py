"""Check of the kernels on first use of a device: a small batch, compared with plain in float64 on the CPU."""

from __future__ import annotations

import threading
import warnings

import torch
from torch import Tensor

from mooring.ops import plain
from mooring.ops.plan import plan
from mooring.ops.triton import language
from mooring.ops.triton.launch import HALVES
from mooring.ops.triton.read import read_backward, read_forward
from mooring.ops.triton.write import write_backward, write_forward

# A graph of several chunks, one without nodes and one of a single chunk; the default widths of a memory.
SIZES, SLOTS, HEADS, DIM = (300, 0, 5), 8, 4, 64
# Largest allowed error, relative to the largest entry of a result. A wrong kernel has a much larger error.
LIMITS = {"float32": 1e-4, "tf32 or half": 3e-2}

_faults: dict[tuple[torch.device, torch.dtype, str], str] = {}
_lock = threading.Lock()


def works(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether the kernels are correct on the device; the first call checks, and warns if they are not.

    The result is cached per process, device, dtype and ``torch.get_float32_matmul_precision()``. The check runs in a
    separate thread, which has neither the caller's autocast nor its modes. It cannot run while a CUDA graph is
    captured; the kernels are used then, because a capture follows a warm-up.
    """
    if language.triton is None:
        return False
    key = (device, dtype, torch.get_float32_matmul_precision())
    if key in _faults:
        return not _faults[key]
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return True
    with _lock:
        first = key not in _faults
        if first:
            thread = threading.Thread(target=lambda: _faults.setdefault(key, find_fault(device, dtype)))
            thread.start()
            thread.join()
    if first and _faults[key]:
        warnings.warn(_message(device, dtype, _faults[key]), stacklevel=2)
    return not _faults[key]


def find_fault(device: torch.device, dtype: torch.dtype) -> str:
    """Return a description of the first fault of the kernels on the device; an empty string if there is none."""
    try:
        results = _compare(device, dtype)
    except Exception as error:  # compilers and drivers raise all kinds of errors
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[0][:200] if lines else 'no message'}"
    exact = dtype not in HALVES and torch.get_float32_matmul_precision() != "medium"
    limit = LIMITS["float32" if exact else "tf32 or half"]
    for name, (value, right) in results.items():
        value = value.detach().to("cpu", torch.float64).view_as(right)
        # Equal infinities have difference 0; NaN is not within any limit.
        difference = torch.where(value == right, 0.0, (value - right).abs()).max().item()
        if not difference <= limit * right[right.isfinite()].abs().max().item():
            return f"{name} differs from the plain back end by {difference:.2g}"
    return ""


def _compare(device: torch.device, dtype: torch.dtype) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the results of a write and a read by the kernels, each paired with that of plain."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int, scale: float = 1.0) -> Tensor:
        numbers = scale * torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
        return numbers.to(dtype).double().requires_grad_()

    index = torch.repeat_interleave(torch.arange(len(SIZES), device="cpu"), torch.tensor(SIZES, device="cpu"))
    batch = plan(index.flip(0), num_graphs=len(SIZES))
    assert batch.order is not None
    ptr, order = batch.offsets.to(device), batch.order.to(device)
    nodes, graphs = len(index), len(SIZES)
    query, x, weight = draw(SLOTS, HEADS, DIM, scale=DIM**-0.5), draw(nodes, 1, DIM), draw(nodes)
    key, value = draw(graphs, SLOTS, HEADS, DIM, scale=DIM**-0.5), draw(graphs, SLOTS, HEADS, DIM)
    grads_out = draw(graphs, SLOTS, HEADS, DIM), draw(graphs, SLOTS, HEADS), draw(nodes, 1, DIM)
    grads_out[1].data[1] = 0.0  # for the graph without nodes

    folded = query.reshape(1, SLOTS * HEADS, DIM)
    content, log_mass = plain.write(folded, x, None, weight[:, None, None], None, batch)
    context = plain.read(x, key, value, None, batch, True, True)
    right = [content, log_mass, context]
    write_grads = [grads_out[0].view_as(content), grads_out[1].view_as(log_mass)]
    right += torch.autograd.grad([content, log_mass], [query, x, weight], write_grads)
    right += torch.autograd.grad(context, [x, key, value], grads_out[2])

    queries, features, weights, keys, values = (
        tensor.detach().to(device, dtype) for tensor in (query, x, weight, key, value)
    )
    content_grad, mass_grad, context_grad = (grad.detach().to(device, torch.float32) for grad in grads_out)
    content, log_mass, *parts = write_forward(queries, features, None, ptr, order, weights)
    results = [content, log_mass, read_forward(features, keys, values, ptr, order, sum_heads=True, residual=True)]
    grads = write_backward(content_grad, mass_grad, queries, features, None, ptr, order, weights, content, *parts)
    results += [grad for grad in grads if grad is not None]
    read = (features, keys, values)
    results += read_backward(context_grad, *read, ptr, order, sum_heads=True, residual=True)
    names = ["content", "log-mass", "context"]
    names += [f"gradient of the write's {name}" for name in ("query", "key", "weight")]
    names += [f"gradient of the read's {name}" for name in ("query", "key", "value")]
    return dict(zip(names, zip(results, right, strict=True), strict=True))


def _message(device: torch.device, dtype: torch.dtype, fault: str) -> str:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "interpreter"
    return (
        f"mooring: the Triton kernels are not used on {device} ({name}, {dtype}, torch {torch.__version__}, Triton "
        f"{language.triton.__version__}): {fault}. The plain back end is used from now on. For details run `mooring "
        f"doctor --device {device.type}`; mooring.ops.use_backend('triton') uses the kernels without a check."
    )
