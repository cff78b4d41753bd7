"""Every global module by name, built from one specification.

Adding one is a file with a module and a registration:

    @register("my-vn", title="My virtual node", paper="me, 2026")
    def my_vn(spec: MemorySpec) -> nn.Module:
        return MyVirtualNode(spec.channels)
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from mooring.nn.slot_update import MassFeature


@dataclass(frozen=True)
class MemorySpec:
    """What a task asks of a global module; a module ignores what it does not need.

    Args:
        channels: width of the node features, in and out.
        slots, heads, temperature, address_channels, init_std, mass, anchor_init: as in
            :class:`~mooring.nn.SlotVirtualNode`.
        hidden_channels: hidden width of a module's own MLPs; None leaves it to the module. :func:`mooring.zoo.matched`
            sets it.
    """

    channels: int
    slots: int = 16
    heads: int = 4
    temperature: float = 1.0
    address_channels: int | None = None
    init_std: float = 1e-3
    mass: MassFeature = "softplus"
    anchor_init: float = 0.0
    hidden_channels: int | None = None


Builder = Callable[[MemorySpec], nn.Module | None]


@dataclass(frozen=True)
class Entry:
    """A registered module: its name, a short title, its paper, and how to build it."""

    name: str
    title: str
    paper: str
    build: Builder


_ENTRIES: dict[str, Entry] = {}


def register(name: str, *, title: str, paper: str) -> Callable[[Builder], Builder]:
    """Make ``build(spec)`` available under ``name``."""

    def add(build: Builder) -> Builder:
        if name in _ENTRIES:
            raise ValueError(f"zoo: {name!r} is already registered. Pick another name.")
        _ENTRIES[name] = Entry(name, title, paper, build)
        return build

    return add


def names() -> list[str]:
    """All registered names, in order of registration."""
    return list(_ENTRIES)


def entry(name: str) -> Entry:
    """The entry of one name, with a suggestion when there is none."""
    if name not in _ENTRIES:
        close = difflib.get_close_matches(name, _ENTRIES, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f". Known: {', '.join(_ENTRIES)}."
        raise ValueError(f"zoo: unknown module {name!r}{hint}")
    return _ENTRIES[name]


def build(name: str, spec: MemorySpec) -> nn.Module | None:
    """The module called ``name``; None for ``"none"``, the absence of a global module.

    >>> build("anchored", MemorySpec(channels=16, slots=4))
    SlotVirtualNode(16, slots=4, heads=4, anchored=True)
    """
    return entry(name).build(spec)
