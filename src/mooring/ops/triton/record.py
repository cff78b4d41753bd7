"""Kernels recorded instead of launched: what a GPU would run, without needing one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from mooring.ops.triton import launch


class Launch(NamedTuple):
    """One kernel with its grid and its arguments, as a launcher would have started it."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.kernel.__name__)


@contextmanager
def recorded(note: Callable[[Launch], None] | None = None) -> Iterator[list[Launch]]:
    """Inside the block no kernel runs: each is added to the list, and given to ``note``; outputs hold anything.

    Needs neither a GPU nor Triton; tensors may be on any device, ``meta`` included.

    >>> import torch
    >>> from mooring.ops.triton import write_forward
    >>> with recorded() as launches:
    ...     _ = write_forward(torch.ones(2, 1, 4), torch.ones(3, 1, 4), None, torch.tensor([0, 3]))
    >>> [launch.name for launch in launches]
    ['write_chunks', 'merge_states']
    """
    found: list[Launch] = []

    def run(kernel: Any, grid: tuple[int, ...], **arguments: Any) -> None:
        found.append(Launch(kernel, grid, arguments))
        if note is not None:
            note(found[-1])

    before: Any = (launch.run, launch.check)
    launch.run, launch.check = run, lambda *_, **__: None
    try:
        yield found
    finally:
        launch.run, launch.check = before


__all__ = ["Launch", "recorded"]
