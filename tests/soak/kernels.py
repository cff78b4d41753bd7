"""Run the Triton kernels in the interpreter on random batches, and compare them with the float64 oracle.

Each input is a number: `--replay NUMBER` runs one again.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

# Chosen before anything imports Triton.
os.environ["TRITON_INTERPRET"] = "1"
TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(Path(__file__).parent), str(TESTS), str(TESTS / "ops")]

import torch  # noqa: E402
from cases import HEADS, READ_FORMS, WEIGHTS, WRITE_FORMS, read_inputs, reader, write_inputs, writer  # noqa: E402
from parts import PARTS, Part  # noqa: E402
from torch import Tensor  # noqa: E402

from mooring import ops  # noqa: E402
from mooring.ops import reference  # noqa: E402
from mooring.ops.triton import launch  # noqa: E402
from support import Ragged, assert_close, with_gradients  # noqa: E402

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# Small tiles and chunks, so that a handful of nodes fills several.
SMALL = launch.Limits(nodes=16, node_numbers=4096, row_numbers=4096, warps=4)
SAVE_EVERY = 50
# Nodes up to which second derivatives are compared too: the oracle takes them node by node.
SECOND = 40


def check(number: int) -> None:
    """Compare one write or read on values and all gradients; raises where they differ."""
    draw = random.Random(number)
    sizes = tuple(draw.choice((0, 1, 2, 5, 17, 33, 70)) for _ in range(draw.randint(1, 6)))
    batch, dtype = Ragged(sizes, draw.random() < 0.5, seed=number), draw.choice(DTYPES)
    where = batch.mask(salt=7) if draw.random() < 0.3 else None
    small = {"LIMITS": dict.fromkeys(launch.LIMITS, SMALL), "CHUNKS": (32, 32), "PROGRAMS": 4, "COUNT": 2}
    with patch.multiple(launch, **small), ops.use_backend("triton"):
        if draw.random() < 0.5:
            form, weights = draw.choice(list(WRITE_FORMS)), draw.choice([one for one in WEIGHTS if one != "finite"])
            tensors = write_inputs(batch, form, dtype)
            fast, slow = (writer(op, form, batch, weights, where) for op in (ops.write, reference.write))
            # In halves the gradients of competition and write are each rounded before they are added.
            if dtype == torch.float32 and draw.random() < 0.6:
                tensors.append(batch.randn(HEADS, dtype=dtype, salt=9))
                fast, slow = (competing(op, form, batch) for op in (ops.write, reference.write))
        else:
            form = draw.choice(list(READ_FORMS))
            tensors = read_inputs(batch, form, dtype)
            fast, slow = (reader(op, form, batch, where) for op in (ops.read, reference.read))
        (outputs, grads), (right, right_grads) = with_gradients(fast, *tensors), with_gradients(slow, *tensors)
    for one, other in zip(outputs, right, strict=True):
        assert_close(one, other)
    # A gradient has the dtype of its input, and is right to one unit in its last place.
    scale = 1.0 if dtype == torch.float32 else torch.finfo(dtype).eps / 1e-5
    for one, other in zip(grads, right_grads, strict=True):
        assert_close(one.float(), other, scale=scale)
    if dtype == torch.float32 and batch.num_nodes <= SECOND:
        with ops.use_backend("triton"):
            found = second_order(fast, *tensors)
        for one, other in zip(found, second_order(slow, *(tensor.double() for tensor in tensors)), strict=True):
            assert_close(one, other, scale=30.0)


def competing(op: Callable[..., Any], form: str, batch: Ragged) -> Callable[..., Any]:
    """A write of slots that compete, as a function of query, key, value and the null slot's logits."""

    def run(query: Tensor, key: Tensor, *rest: Tensor) -> Any:
        value = key if WRITE_FORMS[form][1] is None else rest[0]
        return op(query, key, value, batch.index(), num_graphs=batch.num_graphs, null_logit=rest[-1])

    return run


def second_order(function: Callable[..., Any], *inputs: Tensor) -> list[Tensor]:
    """Gradients of how large the gradients of the outputs are."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    outputs = function(*leaves)
    outputs = [outputs] if isinstance(outputs, Tensor) else outputs
    loss = sum((torch.where(output.isfinite(), output, 0.0) ** 2).sum() for output in outputs)
    loss = loss + sum(0.0 * (leaf**3).sum() for leaf in leaves)
    first = torch.autograd.grad(loss, leaves, create_graph=True)
    return list(torch.autograd.grad(sum((grad**2).sum() for grad in first), leaves))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=PARTS)
    parser.add_argument("--replay", type=int)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.replay is not None:
        check(given.replay)
        return 0
    part = Part(given.out / "kernels.json", {"what": "kernels", "inputs": given.inputs, "seed": given.seed})
    state = part.load() or {"counts": {"inputs": 0, "wrong": 0}, "failures": [], "seconds": 0.0}
    counts, started, before = state["counts"], time.monotonic(), state["seconds"]
    while counts["inputs"] < given.inputs:
        number = given.seed * given.inputs + counts["inputs"]
        try:
            check(number)
        except Exception:
            counts["wrong"] += 1
            state["failures"].append({"kernels": number, "fault": traceback.format_exc(limit=1)[-300:]})
        counts["inputs"] += 1
        if counts["inputs"] % SAVE_EVERY == 0 or counts["inputs"] == given.inputs:
            state["seconds"] = round(before + time.monotonic() - started, 1)
            part.save(state)
    print(f"{counts} in {state['seconds']} s; record: {part.path}")
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
