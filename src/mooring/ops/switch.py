"""Settings of the whole process: which back end runs, whether values are checked."""

from __future__ import annotations

from typing import Any, ClassVar


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
