"""Pictures of a trained memory: the slot to which each atom writes, and the counts that slots correlate with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import nn

from mooring.look.graphs import atom_symbol, rdkit_positions
from mooring.look.layout import layout
from mooring.nn import SlotMemory
from mooring.suite.files import write_atomic
from mooring.suite.look import trained
from mooring.suite.real.data import GraphSet, collate
from mooring.suite.real.experiment import GraphExperiment
from mooring.suite.report.drawing import INK, MUTED, PALETTE, RC, SMALL, heat

# Range of the marker areas of atoms.
SMALLEST, LARGEST = 25.0, 150.0


@dataclass(frozen=True)
class Written:
    """Write weights and masses of some molecules in one memory.

    Args:
        share: share of each slot in an atom's writes, ``[nodes, slots]``; rows sum to one.
        log_mass: log-mass of each slot, mean over heads, ``[graphs, slots]``.
    """

    share: NDArray[np.float64]
    log_mass: NDArray[np.float64]


def written(memory: SlotMemory, batch: torch.Tensor) -> Written:
    """Return the shares and masses of a pass through a memory; raise ValueError if it has no slots."""
    if memory is None or memory.write_weights is None:
        raise ValueError(
            "draw: this memory has no slots that nodes write to. Draw a run of a slot module, e.g. anchored."
        )
    log_mass = memory.state.log_mass.detach().double()
    # A node's weight in a slot is its share of the slot's mass.
    each = memory.write_weights.detach().double() * log_mass.exp()[batch]
    share = each.mean(dim=2)
    share = share / share.sum(dim=1, keepdim=True).clamp(min=1e-300)
    return Written(share.numpy(), log_mass.mean(dim=2).numpy())


def counted(
    graphs: GraphSet, numbers: NDArray[np.int64], log_mass: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Return the correlation over molecules of each slot's log-mass with the log of each count.

    ``numbers`` are indices of molecules in the set, ``log_mass`` is by molecule and slot.
    """
    kinds = [graphs.x[slice(*graphs.node_start[number : number + 2])] for number in numbers]
    counts = {
        "atoms": [len(kind) for kind in kinds],
        "C": [(kind[:, 0] == 5).sum() for kind in kinds],
        "N": [(kind[:, 0] == 6).sum() for kind in kinds],
        "O": [(kind[:, 0] == 7).sum() for kind in kinds],
        "aromatic": [kind[:, 7].sum() for kind in kinds],
        "in a ring": [kind[:, 8].sum() for kind in kinds],
    }
    correlations = {}
    for name, values in counts.items():
        column = np.log1p(np.array(values, dtype=np.float64))
        correlations[name] = np.array([_correlation(column, mass) for mass in log_mass.T])
    return correlations


def draw(record: Path, chosen: Sequence[int] | None = None, layer: int | None = None, *, trust: bool = False) -> Figure:
    """Draw molecules of a trained run, atoms in the colours of their slots, and the counts that slots correlate with.

    Args:
        record: a record of ``mooring run molecules`` or ``peptides``, or the folder of its checkpoints.
        chosen: indices of molecules in the test split; a small, a medium and a large one if None.
        layer: index of the layer that the memory follows; the last if None.
        trust: import the run's model if its name is ``package.module:Name``.
    """
    run = trained(record, trust=trust)
    experiment: Any = run.experiment
    if not isinstance(experiment, GraphExperiment):
        raise ValueError(f"draw: {record} is a run of {experiment.name}, expected molecules or peptides.")
    test = experiment.chosen("test")
    picked = _picked(experiment.graphs, test, chosen)
    shown, everything = (_pass(run.net, experiment, numbers, layer) for numbers in (picked, test))
    with mpl.rc_context(RC):
        return _figure(
            experiment.graphs, picked, shown, counted(experiment.graphs, test, everything.log_mass), run.title
        )


def save(figure: Figure, path: Path) -> None:
    """Write a figure on white; the same figure gives the same bytes."""
    suffix = path.suffix.removeprefix(".") or "svg"
    buffer = BytesIO()
    with mpl.rc_context(RC):
        metadata = {"Date": None} if suffix == "svg" else {}
        figure.savefig(buffer, format=suffix, bbox_inches="tight", dpi=160, facecolor="white", metadata=metadata)
    write_atomic(path, buffer.getvalue())


def _picked(graphs: GraphSet, test: NDArray[np.int64], chosen: Sequence[int] | None) -> NDArray[np.int64]:
    if chosen is None:
        order = test[np.argsort(np.diff(graphs.node_start)[test], kind="stable")]
        return order[(np.array([0.2, 0.5, 0.8]) * (len(order) - 1)).astype(np.int64)]
    wrong = [index for index in chosen if not 0 <= index < len(test)]
    if wrong or not chosen:
        raise ValueError(
            f"draw: --graphs is {list(chosen)}, expected some of 0 to {len(test) - 1}, the test molecules."
        )
    return test[np.array(chosen)]


def _pass(net: nn.Module, experiment: GraphExperiment, numbers: NDArray[np.int64], layer: int | None) -> Written:
    batch = collate(experiment.graphs, numbers)
    net.eval()
    with torch.no_grad():
        _, states = net(**batch.inputs(), return_state=True)
    if not states:
        raise ValueError("draw: this network has no memory. Draw a run of a slot module, e.g. anchored.")
    place = max(states) if layer is None else layer
    if place not in states:
        raise ValueError(f"draw: there is no memory behind layer {place}, only behind {', '.join(map(str, states))}.")
    return written(states[place], batch.batch)


def _figure(
    graphs: GraphSet, picked: NDArray[np.int64], shown: Written, counts: dict[str, NDArray[np.float64]], title: str
) -> Figure:
    slots = shown.log_mass.shape[1]
    inks = [PALETTE[slot % len(PALETTE)] for slot in range(slots)]
    figure = Figure(figsize=(2.6 * (len(picked) + 1), 3.6))
    axes = figure.subplots(2, len(picked) + 1, height_ratios=(3, 1))
    low, high = shown.log_mass.min(), shown.log_mass.max()
    first = 0
    for column, number in enumerate(picked):
        nodes = slice(*graphs.node_start[number : number + 2])
        edges = slice(*graphs.edge_start[number : number + 2])
        count = nodes.stop - nodes.start
        share = shown.share[first : first + count]
        first += count
        _molecule(axes[0, column], graphs.x[nodes], graphs.edge[edges], graphs.edge_attr[edges], share, inks)
        axes[0, column].set_title(f"{graphs.name} {number}, {count} atoms")
        axes[1, column].bar(range(slots), shown.log_mass[column] - low + 0.05 * (high - low + 1), color=inks)
        axes[1, column].set_xlabel("slot")
        axes[1, column].set_yticks([])
    axes[1, 0].set_ylabel("log mass")
    _counts(axes[0, -1], counts, slots)
    axes[1, -1].set_axis_off()
    figure.suptitle(title, x=0.01, ha="left", fontsize=SMALL, color=MUTED)
    figure.tight_layout()
    return figure


def _molecule(
    axes: Any,
    x: NDArray[np.uint8],
    edge: NDArray,
    edge_attr: NDArray[np.uint8],
    share: NDArray[np.float64],
    inks: list[str],
) -> None:
    """Draw one molecule: an atom has the colour of its main slot, and is larger the more it writes there."""
    place = positions(x, edge, edge_attr)
    for bond in edge.astype(np.int64):
        axes.plot(*place[bond].T, color=MUTED, lw=1.0, zorder=1)
    best = share.argmax(axis=1)
    size = SMALLEST + (LARGEST - SMALLEST) * share.max(axis=1)
    axes.scatter(*place.T, s=size, c=[inks[slot] for slot in best], zorder=2, lw=0)
    for (across, up), symbol in zip(place, map(atom_symbol, x[:, 0].tolist()), strict=True):
        if symbol != "C":
            axes.text(across, up, symbol, ha="center", va="center", fontsize=SMALL - 1.5, color=INK, zorder=3)
    axes.set_aspect("equal")
    axes.margins(0.08)
    axes.set_axis_off()


def _counts(axes: Any, counts: dict[str, NDArray[np.float64]], slots: int) -> None:
    """Draw squared correlations of each slot's log-mass with the counts."""
    values = np.stack(list(counts.values())) ** 2
    axes.imshow(values, cmap=heat(), vmin=0, vmax=1, aspect="auto")
    axes.set_yticks(range(len(counts)), list(counts))
    axes.set_xticks(range(slots))
    axes.set_xlabel("slot")
    axes.set_title("What a slot counts")


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the correlation, or zero if either does not vary."""
    if np.ptp(first) < 1e-12 or np.ptp(second) < 1e-12:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def positions(x: NDArray[np.uint8], edge: NDArray, edge_attr: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return 2D positions of the atoms of a molecule in OGB's features, by rdkit if installed, otherwise a layout."""
    drawn = rdkit_positions(x[:, 0].tolist(), edge.tolist(), edge_attr[:, 0].tolist())
    if drawn is not None:
        return drawn.double().numpy() * [1.0, -1.0]  # upwards, as matplotlib has it
    index = torch.from_numpy(edge.astype(np.int64).T.copy())
    return layout(len(x), index).double().numpy()
