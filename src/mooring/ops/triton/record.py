"""Recording of kernel launches without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from mooring.ops.triton import launch


class Launch(NamedTuple):
    """A kernel with its grid and arguments."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.kernel.__name__)


@contextmanager
def recorded(note: Callable[[Launch], None] | None = None) -> Iterator[list[Launch]]:
    """Record launches instead of running them, and pass each to ``note``. Outputs are left uninitialised.

    Needs neither a GPU nor Triton; tensors may be on any device, including ``meta``.

    >>> import torch
    >>> from mooring.ops.triton import write_forward
    >>> with recorded() as launches:
    ...     _ = write_forward(torch.ones(2, 1, 4), torch.ones(3, 1, 4), None, torch.tensor([0, 3]))
    >>> [launch.name for launch in launches]
    ['write_chunks', 'merge_states']
    """
    launches: list[Launch] = []

    def run(kernel: Any, grid: tuple[int, ...], **arguments: Any) -> None:
        launches.append(Launch(kernel, grid, arguments))
        if note is not None:
            note(launches[-1])

    originals: Any = (launch.run, launch.check)
    launch.run, launch.check = run, lambda *_, **__: None
    try:
        yield launches
    finally:
        launch.run, launch.check = originals


__all__ = ["Launch", "recorded"]
