"""The memory of a run: its name, parameters, options as built, and options that it ignores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mooring import zoo
from mooring.nn import GlobalFiLM, MemoryOptions, ResidualAdd, SlotFiLM, SlotUpdate
from mooring.suite.train.config import MemoryConfig, TrainConfig, flat, leaves
from mooring.suite.train.experiment import Experiment, derive_seed, seed_torch

#: Titles of the models that are not modules of the zoo, in the order of tables.
TITLES: Mapping[str, str] = {
    "plain": "No memory, fewer parameters",
    "none": "No memory",
    "ogb-vn-mean": "OGB VN, mean",
    "ogb-vn": "OGB VN, sum",
}
INTEGRATIONS = {SlotFiLM: "film", ResidualAdd: "residual", GlobalFiLM: "global_film"}


def describe(model: str, without: Mapping[str, str] = TITLES) -> dict[str, Any]:
    """Return :meth:`~mooring.suite.train.Experiment.describe` of a global module, or of a model ``without`` one.

    Models without one come first in tables, with the titles in ``without``.

    >>> describe("mpnn", {"mpnn": "MPNN"}), describe("vn", {"mpnn": "MPNN"})
    ({'title': 'MPNN', 'order': -1}, {'title': 'VN', 'order': 1})
    """
    if model in without:
        return {"title": without[model], "order": list(without).index(model) - len(without)}
    entry = zoo.entry(model)
    return {"title": entry.label, "order": entry.order}


class Nothing(nn.Module):
    """The absence of a memory, with the forward of one; :func:`mooring.zoo.filled` puts its MLP behind it."""

    def forward(self, x: Tensor, batch: Any = None, **options: Any) -> Any:
        return (x, None) if options.get("return_state") else x

    def reset_parameters(self) -> None:
        """Do nothing: there are no parameters."""


def check_model(model: str) -> None:
    """Raise ValueError for a model that does not exist."""
    if model not in TITLES:
        zoo.entry(model)


def memory_of(
    model: str, options: MemoryOptions, *, one_graph: bool = False, budget: int | None = None
) -> Callable[[int], nn.Module] | None:
    """Return a function from the width of the nodes to the memory of a model; None for the network alone.

    All but ``"plain"`` have the parameters of the budget, ``"none"`` in an MLP that sees one node at a time.

    Args:
        model: a name of the zoo, or of :data:`TITLES`.
        options: of the memory.
        one_graph: batches are one graph, over which OGB's batch norm is not defined; it gets layer norm.
        budget: parameters of each memory; None is those of the anchored module with the same options.
    """
    if model == "plain":
        return None

    def build(channels: int) -> nn.Module:
        spec = options.at(channels)
        if model == "none":
            return zoo.filled(Nothing(), spec, budget)
        if model in TITLES:
            from mooring.models import OGBVirtualNode  # of all runs few need the ready networks

            pool: Any = "mean" if model.endswith("mean") else "sum"
            module = OGBVirtualNode(channels, pool, norm="layer" if one_graph else "batch", dropout=spec.dropout)
            return zoo.filled(module, spec, budget)
        matched = zoo.matched(model, spec, budget)
        assert matched is not None, "only 'none' is None"
        return matched

    return build


def effective_options(net: nn.Module) -> dict[str, Any]:
    """Return the options of the first slot memory as it was built; empty for a network without slots.

    A model may set options itself, as ``moored`` does, or ignore options of the config.
    """
    # Recognised by its steps, which a readout has too.
    memory: Any = next((part for part in net.modules() if isinstance(getattr(part, "update", None), SlotUpdate)), None)
    if memory is None:
        return {}
    write, update, integrate = memory.write, memory.update, getattr(memory, "integrate", None)
    options = {"slots": write.slots, "heads": write.heads, "anchored": update.anchored}
    options |= {"temperature": write.temperature, "competition": write.null_logit is not None}
    options |= {"update_norm": update.norm, "update_channels": update.feed_forward[0].out_features}
    if update.anchored:
        options |= {"mass": update.mass, "split": update.split, "anchor_init": update.anchor_init}
    if hasattr(update, "mass_mlp"):
        options["content_dropout"] = update.content_dropout
        options["mass_map"] = "linear" if isinstance(update.mass_mlp, nn.Linear) else "mlp"
    if integrate is not None:
        name = INTEGRATIONS.get(type(integrate), type(integrate).__name__)
        options["integrate"] = "linear_film" if getattr(integrate, "lin_linear", None) is not None else name
        options["init_std"] = getattr(integrate, "init_std", getattr(integrate, "init_scale", None))
        options |= {"dropout": memory.dropout, "address_channels": memory.address_channels}
        options["routing"] = getattr(memory, "routing", "free")
        if options["routing"] == "self":
            options["address_norm"] = getattr(memory, "address_norm", "layer")
    ignored = getattr(memory, "ignores", ())
    return {name: value for name, value in options.items() if name not in ignored}


def idle_options(experiment: Experiment, preset: TrainConfig, changed: Iterable[str]) -> list[str]:
    """Return the options that do not change the first training step although they differ from the preset.

    A module may fix an option that others leave open, or not have it.
    """
    config = experiment.config
    values, before = flat(config), flat(preset)
    options = [name for name in changed if name in leaves(MemoryOptions) and values[name] != before[name]]
    if not isinstance(config, MemoryConfig) or not options:
        return []
    idle = []
    with torch.random.fork_rng(devices=[]):
        batch = experiment.train_batch(0, 0)
        first = _first_step(experiment, batch)
        for name in options:
            try:
                without = type(experiment)(config.but(**{name: before[name]}), experiment.model, experiment.seed)
                results = _first_step(without, batch)
            except ValueError:  # the other options require it
                continue
            if len(first) == len(results) and all(map(torch.equal, first, results)):
                idle.append(name)
    return idle


def _first_step(experiment: Experiment, batch: Any) -> list[Tensor]:
    """Return initial weights, the first loss and its gradients, which also reveal parts that start at zero, as FiLM."""
    seed_torch(derive_seed(experiment.seed, "build"))
    net = experiment.build().train()
    start = [value.clone() for value in net.state_dict().values()]
    with torch.enable_grad():
        loss, _ = experiment.loss(net, batch, 0)
        loss.backward()
    grads = [torch.empty(0) if parameter.grad is None else parameter.grad for parameter in net.parameters()]
    return [*start, loss.detach(), *grads]
