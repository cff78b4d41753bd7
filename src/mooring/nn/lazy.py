"""Channels of -1, in PyG's manner: the first input shows how wide a module must be."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter, is_lazy
from torch_geometric.nn.inits import reset

from mooring.ops import checks

UNKNOWN = -1
Module = TypeVar("Module", bound=nn.Module)
Widths = int | Mapping[str, int]


def lazy_channels(key: str) -> Callable[[type[Module]], type[Module]]:
    """Let ``channels``, the first argument of a module, be -1, or -1 for some of its node types.

    Until the first call, or until a state is loaded, the parameters are torch's ``UninitializedParameter``: deepcopy,
    ``state_dict`` and ``reset_parameters`` work, an optimiser may hold them, and asking for a shape is an error. They
    then become those of a module that was built with the right width.

    Args:
        key: name of a parameter whose last axis has the width, ``{}`` in it being the name of the node type's part.
    """

    def decorate(kind: type[Module]) -> type[Module]:
        methods: Any = kind
        build, again = methods.__init__, methods.reset_parameters

        @functools.wraps(build)
        def __init__(self: Module, channels: Widths, *args: Any, **kwargs: Any) -> None:
            if not _is_unknown(channels):
                build(self, channels, *args, **kwargs)
                return
            given = inspect.signature(build).bind(self, channels, *args, **kwargs)
            build(self, _stand_in(type(self).__name__, channels, given.arguments), *args, **kwargs)
            Waiting(kind, key, channels, args, kwargs).hold(self)

        @functools.wraps(again)
        def reset_parameters(self: Module) -> None:
            if not any(map(is_lazy, self.parameters())):
                again(self)
                return
            for child in self.children():  # a module that was passed in may have its width already
                if not any(map(is_lazy, child.parameters())):
                    reset(child)

        methods.__init__, methods.reset_parameters = __init__, reset_parameters
        return kind

    return decorate


class Waiting:
    """What a module of unknown width is built from, called before its first forward pass and before a state is loaded.

    Args:
        kind: the class that builds it; the module may be of a subclass.
        key: as in :func:`lazy_channels`.
        channels, args, kwargs: as it was called.
    """

    def __init__(
        self, kind: type[nn.Module], key: str, channels: Widths, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.kind, self.key, self.channels, self.args, self.kwargs = kind, key, channels, args, kwargs
        self.handles: list[Any] = []
        self.before: dict[str, dict[str, Any]] = {}

    def hold(self, module: Any) -> None:
        """Replace the parameters by placeholders."""
        given, stood_in = self.channels, module.channels
        module.channels = dict.fromkeys(stood_in, given) if given == UNKNOWN and isinstance(stood_in, dict) else given
        passed_in = [one for one in (*self.args, *self.kwargs.values()) if isinstance(one, nn.Module)]
        ready = {id(one) for parent in passed_in for one in parent.modules()}
        blank: dict[int, _Unknown] = {}  # one for each parameter: some are shared
        for one in module.modules():
            if id(one) not in ready:
                for name, parameter in one._parameters.items():
                    if parameter is not None:
                        one._parameters[name] = blank.setdefault(id(parameter), _Unknown())
        self.before = {name: _own(one) for name, one in module.named_modules(remove_duplicate=False)}
        self.handles = [module.register_forward_pre_hook(self.before_forward, with_kwargs=True)]
        # It stays: torch is going through the hooks when this one is called, and none may then be removed.
        module.register_load_state_dict_pre_hook(self.before_load)

    def before_forward(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        who = type(module).__name__
        if torch.compiler.is_compiling():
            raise RuntimeError(f"{who}: channels are not known yet. Call it once before it is compiled.")
        x = args[0] if args else kwargs.get("x", kwargs.get("x_dict"))
        x = x[-1] if isinstance(x, tuple) else x  # senders and receivers
        if not isinstance(self.channels, Mapping):
            self.become(module, _width(who, next(iter(x.values()), None) if isinstance(x, Mapping) else x))
            return
        x = x if isinstance(x, Mapping) else {}
        absent = [name for name, width in self.channels.items() if width == UNKNOWN and name not in x]
        if absent:
            raise ValueError(
                f"{who}: channels of {absent[0]!r} are -1 but x_dict has no {absent[0]!r}. Pass all node types in the "
                "first call; those without nodes have a width too."
            )
        widths = self.channels.items()
        self.become(module, {name: _width(who, x[name]) if width == UNKNOWN else width for name, width in widths})

    def before_load(self, module: nn.Module, state: Mapping[str, Any], prefix: str, *_: Any) -> None:
        if not self.handles:
            return
        names = list(self.channels) if isinstance(self.channels, Mapping) else [""]
        parts = getattr(module, "types", {"": ""}).values()
        found: list[Any] = [state.get(prefix + self.key.format(part)) for part in parts]
        if any(one is None or is_lazy(one) for one in found):
            return
        widths = [one.size(-1) for one in found]
        self.become(module, dict(zip(names, widths, strict=True)) if names != [""] else widths[0])

    def become(self, module: nn.Module, channels: Widths) -> None:
        """Build a twin of the right width and take over its attributes and values."""
        twin = self.kind.__new__(self.kind)
        # The first call may be one for inference, whose tensors could never be trained.
        with torch.inference_mode(False), torch.no_grad():
            self.kind.__init__.__wrapped__(twin, channels, *self.args, **self.kwargs)  # type: ignore[attr-defined]
            _take_over(module, twin, self.before)
        for handle in self.handles:
            handle.remove()
        self.handles, self.before = [], {}


class _Unknown(UninitializedParameter):
    """An uninitialised parameter that a state dict can hold, as in PyG's ``Linear``."""

    def detach(self) -> _Unknown:
        return self


# Values that are compared by what they are.
PLAIN = (int, float, str, tuple, dict)
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))


def _own(module: nn.Module) -> dict[str, Any]:
    return {name: one for name, one in vars(module).items() if name not in _OF_EVERY_MODULE}


def _take_over(module: nn.Module, twin: nn.Module, before: Mapping[str, Mapping[str, Any]], path: str = "") -> None:
    """Attributes and values of ``twin``, in the module's own parameters, which an optimiser may already hold.

    An attribute that the user has set stays: it is not what it was before, by the path of each module.
    """
    mine_before, absent = before.get(path, {}), object()
    for name, one in _own(twin).items():
        if _unchanged(vars(module).get(name, absent), mine_before.get(name, absent)):
            vars(module)[name] = one
    for name, made in twin._parameters.items():
        waits: Any = module._parameters[name]
        if made is not None and is_lazy(waits):
            waits.materialize(made.shape)
            waits.copy_(made)
    for name, buffer in twin._buffers.items():
        known = module._buffers[name]
        module._buffers[name] = None if buffer is None or known is None else buffer.to(known)
    for name, child in twin._modules.items():
        mine = module._modules[name]
        if mine is None or child is None or mine is child:
            continue
        if type(mine) is type(child):
            _take_over(mine, child, before, f"{path}.{name}" if path else name)
        elif any(map(is_lazy, mine.parameters())):
            module._modules[name] = child.train(mine.training)


def _unchanged(now: Any, before: Any) -> bool:
    """The same object; or an equal value, since a pickled number is another object."""
    return now is before or (type(now) is type(before) and isinstance(now, PLAIN) and now == before)


def _is_unknown(channels: Any) -> bool:
    widths = channels.values() if isinstance(channels, Mapping) else [channels]
    return any(type(width) is int and width == UNKNOWN for width in widths)


def _stand_in(who: str, channels: Widths, given: Mapping[str, Any]) -> Widths:
    """A width that passes every check and builds every parameter that the final width will have."""
    heads, memory, memory_channels = (given.get(name) for name in ("heads", "memory", "memory_channels"))
    if isinstance(memory_channels, int):
        width = memory_channels + 1
    elif getattr(memory, "channels", UNKNOWN) != UNKNOWN:
        width = memory.channels  # type: ignore[union-attr]
    elif isinstance(channels, Mapping):
        raise ValueError(
            f"{who}: channels are -1 for some types and memory_channels is {memory_channels}. Pass memory_channels: "
            "the width of the slots cannot wait for the first batch."
        )
    else:
        width = heads if isinstance(heads, int) and heads > 0 else 4
    if isinstance(channels, Mapping):
        return {name: width if known == UNKNOWN else known for name, known in channels.items()}
    return width


def _width(who: str, x: Any) -> int:
    """The last axis; how many there are before it is for the module to check, which then knows its width."""
    checks.check_tensor(who, "x", x)
    if x.dim() < 2:
        checks.check_rank(who, "x", x, "nodes channels")
    return int(x.size(-1))
