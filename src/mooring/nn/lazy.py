"""Channels of -1, as in PyG: the width is inferred from the first input."""

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
    ``state_dict``, ``reset_parameters`` and optimisers work, and reading a shape raises an error. They then become the
    parameters of a module built with the inferred width.

    Args:
        key: name of a parameter whose last axis has the width; ``{}`` stands for the node type.
    """

    def decorate(kind: type[Module]) -> type[Module]:
        methods: Any = kind
        build, reset_all = methods.__init__, methods.reset_parameters

        @functools.wraps(build)
        def __init__(self: Module, channels: Widths, *args: Any, **kwargs: Any) -> None:
            if not _is_unknown(channels):
                build(self, channels, *args, **kwargs)
                return
            arguments = inspect.signature(build).bind(self, channels, *args, **kwargs).arguments
            build(self, _placeholder_width(type(self).__name__, channels, arguments), *args, **kwargs)
            LazyBuild(kind, key, channels, args, kwargs).attach(self)

        @functools.wraps(reset_all)
        def reset_parameters(self: Module) -> None:
            if not any(map(is_lazy, self.parameters())):
                reset_all(self)
                return
            for child in self.children():  # a module passed as an argument may have a known width
                if not any(map(is_lazy, child.parameters())):
                    reset(child)

        methods.__init__, methods.reset_parameters = __init__, reset_parameters
        return kind

    return decorate


class LazyBuild:
    """Constructor arguments of a lazy module, and the hooks that materialise it.

    Args:
        kind: class whose constructor was called; the module may be of a subclass.
        key: as in :func:`lazy_channels`.
        channels, args, kwargs: arguments of the constructor.
    """

    def __init__(
        self, kind: type[nn.Module], key: str, channels: Widths, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.kind, self.key, self.channels, self.args, self.kwargs = kind, key, channels, args, kwargs
        self.handles: list[Any] = []
        self.before: dict[str, dict[str, Any]] = {}

    def attach(self, module: Any) -> None:
        """Replace the parameters by placeholders and register the hooks."""
        channels, widths = self.channels, module.channels
        if channels == UNKNOWN and isinstance(widths, dict):
            channels = dict.fromkeys(widths, UNKNOWN)
        module.channels = channels
        arguments = [value for value in (*self.args, *self.kwargs.values()) if isinstance(value, nn.Module)]
        ready = {id(child) for argument in arguments for child in argument.modules()}
        placeholders: dict[int, _Unknown] = {}  # by parameter, because some are shared
        for child in module.modules():
            if id(child) not in ready:
                for name, parameter in child._parameters.items():
                    if parameter is not None:
                        child._parameters[name] = placeholders.setdefault(id(parameter), _Unknown())
        self.before = {name: _attributes(child) for name, child in module.named_modules(remove_duplicate=False)}
        self.handles = [module.register_forward_pre_hook(self.before_forward, with_kwargs=True)]
        # This hook stays registered: it may not be removed while torch iterates over the hooks.
        module.register_load_state_dict_pre_hook(self.before_load)

    def before_forward(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Materialise the module with the width of its first input."""
        who = type(module).__name__
        if torch.compiler.is_compiling():
            raise RuntimeError(f"{who}: channels are not known yet. Call it once before it is compiled.")
        x = args[0] if args else kwargs.get("x", kwargs.get("x_dict"))
        x = x[-1] if isinstance(x, tuple) else x  # a pair (x_src, x_dst)
        if not isinstance(self.channels, Mapping):
            self.materialise(module, _width(who, next(iter(x.values()), None) if isinstance(x, Mapping) else x))
            return
        x = x if isinstance(x, Mapping) else {}
        absent = [name for name, width in self.channels.items() if width == UNKNOWN and name not in x]
        if absent:
            raise ValueError(
                f"{who}: channels of {absent[0]!r} are -1 but x_dict has no {absent[0]!r}. Pass all node types in the "
                "first call; those without nodes have a width too."
            )
        widths = self.channels.items()
        self.materialise(module, {name: _width(who, x[name]) if width == UNKNOWN else width for name, width in widths})

    def before_load(self, module: nn.Module, state: Mapping[str, Any], prefix: str, *_: Any) -> None:
        """Materialise the module with the width of the state, unless the state is lazy too."""
        if not self.handles:
            return
        names = list(self.channels) if isinstance(self.channels, Mapping) else [""]
        parts = getattr(module, "types", {"": ""}).values()
        tensors: list[Any] = [state.get(prefix + self.key.format(part)) for part in parts]
        if any(tensor is None or is_lazy(tensor) for tensor in tensors):
            return
        widths = [tensor.size(-1) for tensor in tensors]
        self.materialise(module, dict(zip(names, widths, strict=True)) if names != [""] else widths[0])

    def materialise(self, module: nn.Module, channels: Widths) -> None:
        """Build a twin with known width, copy its attributes and values, and remove the hooks."""
        twin = self.kind.__new__(self.kind)
        # Tensors created in inference mode cannot be trained.
        with torch.inference_mode(False), torch.no_grad():
            self.kind.__init__.__wrapped__(twin, channels, *self.args, **self.kwargs)  # type: ignore[attr-defined]
            _copy_twin(module, twin, self.before)
        for handle in self.handles:
            handle.remove()
        self.handles, self.before = [], {}


class _Unknown(UninitializedParameter):
    """Uninitialised parameter that can be in a state dict, as in PyG's ``Linear``."""

    def detach(self) -> _Unknown:
        return self


# Types compared by value, because pickling makes new objects.
PLAIN = (int, float, str, tuple, dict)
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))


def _attributes(module: nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name not in _OF_EVERY_MODULE}


def _copy_twin(module: nn.Module, twin: nn.Module, before: Mapping[str, Mapping[str, Any]], path: str = "") -> None:
    """Copy attributes and values of ``twin`` into ``module``, keeping parameter objects that an optimiser may have.

    An attribute that the user has set stays; it differs from the value in ``before``, which is keyed by module path.
    """
    old, absent = before.get(path, {}), object()
    for name, value in _attributes(twin).items():
        if _is_unchanged(vars(module).get(name, absent), old.get(name, absent)):
            vars(module)[name] = value
    for name, parameter in twin._parameters.items():
        placeholder: Any = module._parameters[name]
        if parameter is not None and is_lazy(placeholder):
            placeholder.materialize(parameter.shape)
            placeholder.copy_(parameter)
    for name, buffer in twin._buffers.items():
        target = module._buffers[name]
        module._buffers[name] = None if buffer is None or target is None else buffer.to(target)
    for name, twin_child in twin._modules.items():
        child = module._modules[name]
        if child is None or twin_child is None or child is twin_child:
            continue
        if type(child) is type(twin_child):
            _copy_twin(child, twin_child, before, f"{path}.{name}" if path else name)
        elif any(map(is_lazy, child.parameters())):
            module._modules[name] = twin_child.train(child.training)


def _is_unchanged(now: Any, before: Any) -> bool:
    """Return whether two values are the same object, or equal values of a type in ``PLAIN``."""
    return now is before or (type(now) is type(before) and isinstance(now, PLAIN) and now == before)


def _is_unknown(channels: Any) -> bool:
    widths = channels.values() if isinstance(channels, Mapping) else [channels]
    return any(type(width) is int and width == UNKNOWN for width in widths)


def _placeholder_width(who: str, channels: Widths, arguments: Mapping[str, Any]) -> Widths:
    """Return a width that passes all checks and creates the same parameters as the final width."""
    heads, memory, memory_channels = (arguments.get(name) for name in ("heads", "memory", "memory_channels"))
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
    """Return the size of the last axis. The module checks the rank itself."""
    checks.check_tensor(who, "x", x)
    if x.dim() < 2:
        checks.check_rank(who, "x", x, "nodes channels")
    return int(x.size(-1))
