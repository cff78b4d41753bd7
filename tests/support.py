"""One tolerance table, one way to compare values and gradients, one source of ragged batches."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from mooring.ops import plain, use_backend
from mooring.ops.backend import Backend, load_native
from mooring.ops.tiles import layout

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}

ROOT = Path(__file__).parent.parent

# (TILE, LARGE, SMALL_PER_TILE): graphs cut into several tiles; padded and equal-size blocks of several graphs; one
# block for everything; runs of graphs of different sizes beside graphs that are cut; one run for everything.
TILE_SIZES = [(2, 3, 0), (11, 7, 0), (8192, 1024, 0), (7, 2, 1_000), (8192, 1, 0)]
# No tiles: the plain back end, with sums over graphs scattered, and with all graphs padded to the largest.
PLAIN = [(0, 0, 0), (0, 10**6, 0)]
# No tiles either: the native back end, if it is installed.
NATIVE = [(-1, 0, 0)] if load_native() is not None else []
WAYS = [*TILE_SIZES, *PLAIN, *NATIVE]


def assert_close(actual: Tensor, expected: Tensor, *, scale: float = 1.0) -> None:
    """Equal within the tolerance of ``actual``'s dtype, relative to the largest finite entry (or one, if smaller)."""
    tolerance = TOLERANCE[actual.dtype] * scale
    finite = expected.detach()[expected.detach().isfinite()].abs()
    largest = max(1.0, float(finite.max()) if finite.numel() else 0.0)
    torch.testing.assert_close(actual, expected.to(actual.dtype), rtol=0.0, atol=tolerance * largest)


def with_gradients(function: Callable[..., Tensor | Sequence[Tensor]], *inputs: Tensor) -> tuple[list[Tensor], ...]:
    """Outputs of ``function`` and the gradients, in every input, of a fixed random functional of them."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    outputs = function(*leaves)
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    generator = torch.Generator().manual_seed(1)
    # Tied to every input, so that an oracle which met no node and built no graph has zero gradients and not none.
    loss = sum(0.0 * leaf.double().sum() for leaf in leaves)
    for output in outputs:
        slope = torch.randn(output.shape, generator=generator, dtype=torch.float64)
        loss = loss + (torch.where(output.isfinite(), output, 0.0).double() * slope).sum()
    grads = torch.autograd.grad(loss, leaves)
    return [output.detach() for output in outputs], list(grads)


def assert_same(
    function: Callable[..., Tensor | Sequence[Tensor]],
    oracle: Callable[..., Tensor | Sequence[Tensor]],
    *inputs: Tensor,
) -> None:
    """Same values and same gradients, everywhere."""
    for actual, expected in zip(with_gradients(function, *inputs), with_gradients(oracle, *inputs), strict=True):
        for one, other in zip(actual, expected, strict=True):
            assert_close(one, other)


def assert_same_in_halves(function: Callable[..., Any], oracle: Callable[..., Any], *inputs: Tensor) -> None:
    """Outputs to float32's tolerance, for they are float32; gradients to one unit in the last place of the inputs."""
    (outputs, grads), (right_outputs, right_grads) = with_gradients(function, *inputs), with_gradients(oracle, *inputs)
    for one, other in zip(outputs, right_outputs, strict=True):
        assert one.dtype == torch.float32
        assert_close(one, other)
    for one, other, tensor in zip(grads, right_grads, inputs, strict=True):
        assert one.dtype == tensor.dtype
        assert_close(one.float(), other, scale=torch.finfo(tensor.dtype).eps / 1e-5)


@dataclass(frozen=True)
class Draw:
    """One op three times, as functions of the same inputs: itself, written out as a formula, and the float64 oracle."""

    op: Callable[..., Any]
    formula: Callable[..., Any]
    oracle: Callable[..., Any]
    inputs: Sequence[Tensor]


def assert_as_exact(draws: Sequence[Draw], ways: Sequence[tuple[int, int, int]] = WAYS) -> None:
    """FlashAttention's tolerance: at most twice the error of the formula written out in the dtype of the inputs.

    Errors are the largest against the oracle, of each output and each gradient, summed over the draws, since one alone
    is a matter of luck. The floor is what any arithmetic on the right numbers would round.
    """
    errors, allowed = {way: torch.zeros(()) for way in ways}, {way: torch.zeros(()) for way in ways}
    for draw in draws:
        exact, rivals = (list(chain(*with_gradients(call, *draw.inputs))) for call in (draw.oracle, draw.formula))
        for way in ways:
            with tile_sizes(*way):
                found = list(chain(*with_gradients(draw.op, *draw.inputs)))
            rounded = [right.to(one.dtype) for one, right in zip(found, exact, strict=True)]
            floors = _largest_errors([one + 0.3 - 0.3 for one in rounded], rounded)
            errors[way] = errors[way] + _largest_errors(found, exact)
            allowed[way] = allowed[way] + 2.0 * (_largest_errors(rivals, exact) + floors)
    for way in ways:
        assert bool((errors[way] <= allowed[way]).all()), f"{way}: errors {errors[way]} but {allowed[way]} are allowed"


def _largest_errors(found: Sequence[Tensor], exact: Sequence[Tensor]) -> Tensor:
    """Infinite where one of the two is finite and the other is not."""
    differences = [
        torch.where(one == right, 0.0, one.double() - right.double()).abs().nan_to_num(nan=float("inf"))
        for one, right in zip(found, exact, strict=True)
    ]
    return torch.stack([difference.amax() for difference in differences])


def assert_finite(*tensors: Tensor | None) -> None:
    for tensor in tensors:
        assert tensor is not None
        assert bool(tensor.isfinite().all())


@contextmanager
def tile_sizes(tile: int, large: int, small_per_tile: int = 0) -> Iterator[None]:
    """Tiles small enough that a handful of nodes meets every way of cutting a batch, and no other back end.

    Tiles of no size are the plain back end, which pads a batch of up to ``large`` places per node.
    """
    name: Backend = "native" if tile < 0 else "tiles" if tile else "plain"
    with pytest.MonkeyPatch.context() as patch, use_backend(name):
        if tile <= 0:
            patch.setattr(plain, "PLACES_PER_NODE", large)
            yield
            return
        patch.setattr(layout, "TILE", tile)
        patch.setattr(layout, "LARGE", large)
        patch.setattr(layout, "SMALL_PER_TILE", small_per_tile)
        yield


@dataclass(frozen=True)
class Ragged:
    """A batch of graphs of any sizes, zero included: the graph ids and a generator for what the nodes hold."""

    sizes: tuple[int, ...]
    ordered: bool
    seed: int

    @property
    def num_nodes(self) -> int:
        return sum(self.sizes)

    @property
    def num_graphs(self) -> int:
        return len(self.sizes)

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)

    def index(self) -> Tensor:
        ids = torch.repeat_interleave(torch.arange(self.num_graphs), torch.tensor(self.sizes, dtype=torch.long))
        return ids if self.ordered else ids[torch.randperm(self.num_nodes, generator=self.generator())]

    def randn(self, *shape: int, dtype: torch.dtype = torch.float64, salt: int = 0) -> Tensor:
        """The same numbers in every dtype, up to rounding."""
        generator = torch.Generator().manual_seed(2 * self.seed + 31 * salt)
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    def mask(self, salt: int = 0) -> Tensor:
        return self.randn(self.num_nodes, salt=salt) > -0.5


def ragged(max_graphs: int = 5, max_size: int = 7) -> st.SearchStrategy[Ragged]:
    sizes = st.lists(st.integers(0, max_size), min_size=1, max_size=max_graphs).map(tuple)
    return st.builds(Ragged, sizes, st.booleans(), st.integers(0, 10_000))


def run_script(script: Path, *arguments: str, timeout: float = 300) -> str:
    """A Python process of its own, without shape checks and with every warning but torch's own an error."""
    environment = {**os.environ, "MOORING_SHAPE_CHECKS": "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def digest(*values: Any) -> str:
    """A short name of data: types, shapes and numbers; floats to six decimals, as machines differ in the last ones."""
    found = hashlib.sha256()
    for value in values:
        if dataclasses.is_dataclass(value):
            found.update(digest(*(getattr(value, item.name) for item in dataclasses.fields(value))).encode())
        elif isinstance(value, torch.Generator):
            found.update(digest(value.get_state()).encode())
        elif isinstance(value, tuple | list):
            found.update(digest(*value).encode())
        elif isinstance(value, Mapping):
            found.update(digest(*value.keys(), *value.values()).encode())
        elif isinstance(value, np.ndarray | Tensor):
            array = np.asarray(value.detach() if isinstance(value, Tensor) else value)
            found.update(f"{array.dtype}{array.shape}".encode())
            # Adding zero makes a zero of either sign the same one.
            found.update((array.round(6) + 0.0 if array.dtype.kind == "f" else np.ascontiguousarray(array)).tobytes())
        elif isinstance(value, float):
            found.update(repr(round(value, 6) + 0.0).encode())
        else:
            found.update(repr(value).encode())
    return found.hexdigest()[:16]
