"""Runner of all measurements on one module, and the import of a module by name."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import torch
from torch import Generator, nn

from mooring import zoo
from mooring.audit import expressiveness, robustness
from mooring.audit.adapters import Adapter, adapt
from mooring.audit.card import Card, Finding, first_line
from mooring.named import import_object, suggest
from mooring.ops.checks import check_count
from mooring.zoo.registry import required

MEASUREMENTS: dict[str, Callable[[Adapter, int, int], Finding]] = {
    "replication": expressiveness.replication,
    "addressability": expressiveness.addressability,
    "separability": expressiveness.separability,
    "influence": expressiveness.influence,
    "permutation": robustness.permutation,
    "unsorted_index": robustness.unsorted_index,
    "batch_mates": robustness.batch_mates,
    "padding": robustness.padding,
    "empty_set": robustness.empty_set,
    "numeric_range": robustness.numeric_range,
    "dtypes": robustness.dtypes,
    "cost_growth": robustness.cost_growth,
}

# Words in the names of parameters that are added, not multiplied; GIN's epsilon is added to a gain of one.
ADDED = ("bias", "logit", "state", "eps")

# Constructor arguments that mean the width of the node features.
CHANNEL_NAMES = (
    *("channels", "in_channels", "out_channels", "hidden_channels", "node_channels", "hidden_size", "d_model"),
    *("dim", "in_dim", "out_dim", "hidden_dim", "input_dim", "output_dim", "emb_dim", "embed_dim"),
)


def audit(
    module: Callable[..., Any],
    kind: str | None = None,
    *,
    channels: int = 16,
    seed: int = 0,
    trials: int = 12,
    name: str | None = None,
) -> Card:
    """Measure a module: whether it counts, can be addressed, and is invariant.

    The module is not changed: a copy is measured in float64 and in eval mode, so dropout is off and a batch norm uses
    its running statistics. If the module raises in a measurement, the exception is recorded and the others run.

    Args:
        module: an aggregation ``(x, index, dim_size=)``, a virtual node ``(x, batch)``, a layer
            ``(x, edge_index, batch)`` or a dense attention ``(x, mask)``; a function is allowed.
        kind: ``"aggregation"``, ``"virtual_node"``, ``"layer"`` or ``"dense"``; by default inferred from the arguments.
        channels: width of the node features.
        seed: seed of the random inputs.
        trials: random instances per measurement; costly measurements use fewer and record the number.
        name: name on the card.

    >>> from torch_geometric.nn import MeanAggregation
    >>> card = audit(MeanAggregation(), channels=3, trials=2)
    >>> card["replication"].verdict
    'blind: f(rX) = f(X)'
    """
    check_count("audit", "trials", trials)
    with prepared(module, kind, channels) as (adapter, notes):
        if adapter.dtype != torch.float64:
            notes.append("measured in float32: the module refuses float64")
        findings = tuple(measure(measurement, adapter, seed, trials) for measurement in MEASUREMENTS)
    return Card(name or adapter.name, adapter.kind, channels, findings, seed, tuple(notes))


@contextmanager
def prepared(
    module: Callable[..., Any], kind: str | None = None, channels: int = 16
) -> Iterator[tuple[Adapter, list[str]]]:
    """Adapt a module and randomise its zero weights; yield the adapter, and notes on the changed weights.

    Warnings are off inside the block: deprecations of a third-party module must not fail the audit.
    """
    with warnings.catch_warnings(), trainable():
        warnings.simplefilter("ignore")
        adapter = adapt(module, kind, channels)
        yield adapter, randomise_zero_weights(adapter)


@contextmanager
def trainable() -> Iterator[None]:
    """Enable gradients even under no_grad or inference_mode; addressability is measured through them."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def measure(name: str, adapter: Adapter, seed: int, trials: int) -> Finding:
    """Run one measurement; if the module raises, the exception becomes the verdict of a broken finding."""
    try:
        with trainable():
            return MEASUREMENTS[name](adapter, seed, trials)
    except Exception as error:  # a third-party module may raise anything
        explanation = f"the measurement was ended by {type(error).__name__}"
        return Finding(name, f"raises: {first_line(error)}", None, "none", trials, explanation, broken=True)


def randomise_zero_weights(adapter: Adapter) -> list[str]:
    """Replace weights and gains that are all zero by small random values, in the measured copy.

    A module initialised to the identity has zero weights in its last layer, or a zero gain after it. Nothing passes
    through it yet, so every property of the global path would be measured as absent. Added parameters, such as a bias
    or an anchor's logit, are unchanged.
    """
    if not isinstance(adapter.module, nn.Module):
        return []
    generator = Generator().manual_seed(0)
    changed = []
    with torch.no_grad():
        for name, weight in adapter.module.named_parameters():
            added = any(word in name.rpartition(".")[2] for word in ADDED)
            if not added and weight.numel() and not bool(weight.any()):
                noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
                # A weight is summed over its last axis, a gain is not.
                weight.copy_(noise if weight.dim() < 2 else noise / weight.size(-1) ** 0.5)
                changed.append(name)
    return [f"zero weights given random values: {', '.join(changed)}"] if changed else []


def resolve(target: str, channels: int = 16, kwargs: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """Import ``package.module:Name``, which runs that module's code, and build it if it is a class.

    A builder that takes a :class:`~mooring.zoo.MemorySpec` receives one with ``kwargs`` as its fields. For any other
    class, arguments named like a width receive ``channels``; the others come from ``kwargs``. A value of the form
    ``package.module:Name`` is resolved too, so that one module can be passed to another.

    >>> resolve("torch_geometric.nn:GraphMultisetTransformer", 8, {"k": 3})
    GraphMultisetTransformer(8, k=3, heads=1, layer_norm=False, dropout=0.0)
    """
    arguments = dict(kwargs or {})
    factory: Any = import_object(target, "audit")
    if not callable(factory):
        raise ValueError(f"audit: {target} is {type(factory).__name__}, expected a module, a class or a function.")
    if not isinstance(factory, nn.Module) and zoo.takes_spec(factory):
        known = [field.name for field in fields(zoo.MemorySpec)]
        check_known(arguments, known, f"audit: {target} takes a MemorySpec, which has no field", "it has")
        arguments = {"channels": channels, **arguments}
        return _built(lambda **options: factory(zoo.MemorySpec(**options)), target, arguments)
    if not inspect.isclass(factory):
        if arguments:
            raise ValueError(f"audit: {target} is not a class, so it takes no arguments; got {', '.join(arguments)}.")
        return factory
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(factory).parameters.items()
        if name not in ("self", "cls")
    }
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        check_known(arguments, parameters, f"audit: {target} has no argument", "it takes")
    arguments = {
        name: resolve(value, channels) if isinstance(value, str) and ":" in value else value
        for name, value in arguments.items()
    }
    missing = [name for name, parameter in parameters.items() if required(parameter) and name not in arguments]
    arguments |= {name: channels for name in missing if name in CHANNEL_NAMES}
    missing = [name for name in missing if name not in arguments]
    if missing:
        flags = " ".join(f"--arg {name}=VALUE" for name in missing)
        raise ValueError(
            f"audit: {target} needs {', '.join(missing)}. Pass {flags} (in Python: kwargs={{{missing[0]!r}: ...}})."
        )
    return _built(factory, target, arguments)


def check_known(names: Iterable[str], known: Collection[str], problem: str, otherwise: str) -> None:
    """Raise if one of the names is unknown, with the name that was probably meant, or all that there are."""
    for name in names:
        if name not in known:
            hint = suggest(name, known, f"{otherwise} {', '.join(known)}.")
            raise ValueError(f"{problem} {name!r}; {hint}")


def _built(factory: Callable[..., Any], target: str, arguments: Mapping[str, Any]) -> Callable[..., Any]:
    try:
        return factory(**arguments)
    except Exception as error:
        call = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        raise ValueError(f"audit: {target}({call}) could not be built: {first_line(error)}") from error


def parse_arguments(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse ``name=value`` pairs; values are Python literals, anything else is a string.

    >>> parse_arguments(["heads=4", "conv=None", "norm=layer_norm"])
    {'heads': 4, 'conv': None, 'norm': 'layer_norm'}
    """
    arguments: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"audit: --arg {pair!r} is not of the form name=value, e.g. --arg heads=4.")
        try:
            arguments[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            arguments[name] = text
    return arguments
