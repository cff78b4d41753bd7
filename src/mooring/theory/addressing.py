"""The cost of an address: one-hot gates need M dimensions, dot products O(log M); bounds on their leakage.

Checks prop:onehot, prop:routing with eq:leak and eq:read-margin, and the remarks after it: codebooks of O(log M)
dimensions (prop:routing.codebook), their growth (prop:routing.growth), and ``p b >= log2 M`` (prop:routing.bits).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float64
from torch import Tensor

from mooring.ops import read, write
from mooring.theory.claim import Evidence, Series

Draw = Callable[[int, int, torch.Generator], Float64[Tensor, "count dim"]]


def spherical(count: int, dim: int, generator: torch.Generator) -> Float64[Tensor, "count dim"]:
    """Draw independent uniform points on the unit sphere."""
    return torch.nn.functional.normalize(torch.randn(count, dim, generator=generator, dtype=torch.float64), dim=1)


def binary(count: int, dim: int, generator: torch.Generator) -> Float64[Tensor, "count dim"]:
    """Draw independent uniform corners of the cube, scaled to length one."""
    return (torch.randint(2, (count, dim), generator=generator).double() * 2 - 1) / dim**0.5


def margin(codebook: Float64[Tensor, "slots dim"]) -> float:
    """Return ``1 - max a_m . a_m'`` over different m, the Delta of prop:routing."""
    similarity = codebook @ codebook.T
    return 1.0 - float(similarity.fill_diagonal_(-1.0).max())


def logarithmic_dim(slots: int) -> int:
    """Return ``7 ceil(log2 M) + 1``, a dimension in which :func:`separated` finds ``slots`` addresses of margin 1/2.

    A random point is too close to a given address with probability at most ``exp(-dim/8)``, so if
    ``M exp(-dim/8) < 1``, i.e. ``dim > 5.55 log2 M``, another point can always be added.
    """
    return 7 * max(1, (slots - 1).bit_length()) + 1


def separated(
    slots: int, dim: int, draw: Draw, generator: torch.Generator, *, least: float = 0.5, draws: int = 20
) -> Float64[Tensor, "slots dim"]:
    """Grow a codebook greedily: add a candidate if its margin to all addresses so far is at least ``least``.

    If the dimension cannot hold ``slots`` such addresses, the rest are random points. The margin is then smaller, so
    callers measure it.

    Paper: the codebooks after prop:routing.
    """
    codebook = draw(1, dim, generator)
    for _ in range(draws):
        if len(codebook) == slots:
            return codebook
        candidates = draw(2 * slots, dim, generator)
        clear = (candidates @ codebook.T <= 1 - least).all(dim=1)
        near = (candidates @ candidates.T > 1 - least).tril_(-1)
        # A candidate is dropped when it is near an earlier clear one, even if that one is dropped too. This costs only
        # a few candidates.
        chosen = candidates[clear & ~(near & clear).any(dim=1)]
        codebook = torch.cat([codebook, chosen])[:slots]
    return torch.cat([codebook, draw(slots - len(codebook), dim, generator)])


# Products of unit vectors are exact to a few units in the last place; comparisons with the bounds allow this slack.
ROUNDING = 1e-9


def write_bound(total: int, members: float, delta: float, temperature: float) -> float:
    """Return the largest attention mass that a slot can leave outside its group. Paper: eq:leak."""
    return (total - members) / members * math.exp(-delta / temperature)


def read_bound(slots: int, delta: float, temperature: float) -> float:
    """Return the least weight that a target gives to its slot. Paper: eq:read-margin."""
    return 1 / (1 + (slots - 1) * math.exp(-delta / temperature))


def check_onehot(dims: Callable[[int], range], instances: int, generator: torch.Generator) -> Evidence:
    """Check that in ``p < M`` dimensions the best linear gate is at squared distance ``M - p`` from the one-hot
    codes.
    """
    examined, closest, excess = 0, math.inf, math.inf
    for slots in (2, 3, 5, 11, 23):
        for dim in dims(slots):
            addresses = torch.randn(instances, dim, slots, generator=generator, dtype=torch.float64)
            identity = torch.eye(slots, dtype=torch.float64).expand(instances, -1, -1)
            gate = identity @ torch.linalg.pinv(addresses)
            residual = (gate @ addresses - identity).square().sum(dim=(1, 2))
            examined += instances
            closest = min(closest, float(residual.min()))
            excess = min(excess, float(residual.min()) - (slots - dim))
    passed = closest > 0.5 and excess > -ROUNDING
    return Evidence(passed, closest, examined, f"squared distance of the best gate to one-hot: at least {closest:.3g}")


@dataclass(frozen=True)
class Routing:
    """Addresses of the slots, and the margin claimed for them."""

    codebook: Float64[Tensor, "slots dim"]
    delta: float


RoutingDraw = Callable[[int, torch.Generator], Routing]


def honest_routing(slots: int, generator: torch.Generator) -> Routing:
    """Draw a codebook of random kind and dimension with distinct addresses, and measure its margin."""
    while True:
        draw = (spherical, binary)[int(torch.randint(2, (), generator=generator))]
        dim = int(torch.randint(2, logarithmic_dim(slots) + 8, (), generator=generator))
        codebook = draw(slots, dim, generator)
        # In few binary dimensions an address may occur twice, which violates the premise.
        if margin(codebook) > ROUNDING:
            return Routing(codebook, margin(codebook))


def overclaimed_routing(slots: int, generator: torch.Generator) -> Routing:
    """Draw a codebook in which two slots share one address, and claim the margin of the others."""
    codebook = separated(slots, logarithmic_dim(slots), spherical, generator)
    delta = margin(codebook)
    return Routing(torch.cat([codebook[:-1], codebook[:1]]), delta)


def leakage(codebook: Tensor, group: Tensor, temperature: float) -> Float64[Tensor, " slots"]:
    """Return the attention mass that each slot of the real write gives to sources outside its group."""
    slots = len(codebook)
    value = torch.nn.functional.one_hot(group, slots).double()
    query, key = codebook / temperature, codebook[group]
    content = write(query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)).content[0, :, 0]
    return content.clone().fill_diagonal_(0.0).sum(dim=1)


def matching_weight(codebook: Tensor, temperature: float) -> Float64[Tensor, " slots"]:
    """Return the weight that the real read gives to the slot of each address."""
    slots = len(codebook)
    value = torch.eye(slots, dtype=torch.float64).view(1, slots, 1, slots)
    return read((codebook / temperature).unsqueeze(1), codebook.unsqueeze(1), value)[:, 0].diagonal()


def check_routing(draw: RoutingDraw, instances: int, generator: torch.Generator) -> Evidence:
    """Check both bounds for every slot, over random codebooks, temperatures and group sizes."""
    examined, tightest, note = 0, math.inf, ""
    for _ in range(instances):
        slots = int(torch.randint(2, 24, (), generator=generator))
        routing = draw(slots, generator)
        temperature = 10 ** float(torch.rand((), generator=generator) * 3 - 2)
        sizes = torch.randint(1, 12, (slots,), generator=generator)
        group = torch.arange(slots).repeat_interleave(sizes)[torch.randperm(int(sizes.sum()), generator=generator)]
        leaks = leakage(routing.codebook, group, temperature)
        weights = matching_weight(routing.codebook, temperature)
        least = read_bound(slots, routing.delta, temperature)
        for slot in range(slots):
            examined += 1
            bound = write_bound(len(group), float(sizes[slot]), routing.delta, temperature)
            # A ratio, because both sides span many orders of magnitude; leaks below the smallest normal number are 0.
            slack = min((bound + 1e-300) / (float(leaks[slot]) + 1e-300), float(weights[slot]) / least) - 1
            if slack < tightest:
                tightest = slack
                note = f"closest: M={slots}, delta={routing.delta:.2f}, tau={temperature:.3f}"
    series = (_leak_series(generator),) if tightest >= -ROUNDING else ()
    return Evidence(tightest >= -ROUNDING, tightest, examined, note, series)


def _leak_series(generator: torch.Generator) -> Series:
    slots, members = 16, 4
    codebook = separated(slots, logarithmic_dim(slots), binary, generator)
    group = torch.arange(slots).repeat_interleave(members)
    temperatures = [0.02 * 1.35**step for step in range(15)]
    delta = margin(codebook)
    return Series(
        title=f"Mass written outside a slot's group, M={slots}, p={codebook.shape[1]}, delta={delta:.2f}",
        x=temperatures,
        lines=(
            ("measured, worst slot", [float(leakage(codebook, group, t).max()) for t in temperatures]),
            ("bound (eq:leak)", [write_bound(len(group), members, delta, t) for t in temperatures]),
        ),
        xlabel="temperature",
        ylabel="leaked mass",
        log="xy",
    )


def check_codebook(dims: Callable[[int], int], instances: int, generator: torch.Generator) -> Evidence:
    """Check that binary and spherical codebooks of margin 1/2 exist, with at most 7 more dimensions per doubling of M.

    ``instances`` is the largest log2 M.
    """
    sizes = [2**exponent for exponent in range(1, instances + 1)]
    draws: tuple[Draw, ...] = (binary, spherical)
    for exponent, slots in enumerate(sizes, 1):
        if dims(slots) > 7 * exponent + 1:
            note = f"M={slots} in {dims(slots)} dimensions, above 7 log2 M + 1 = {7 * exponent + 1}"
            return Evidence(False, math.nan, exponent, note)
    worst = min(margin(separated(slots, dims(slots), draw, generator)) for slots in sizes for draw in draws)
    series = Series(
        title="Dimensions that address M slots",
        x=sizes,
        lines=(
            ("one-hot gate (prop:onehot)", sizes),
            ("margin-1/2 codebook, built", [dims(slots) for slots in sizes]),
            ("log2 M, one-bit coordinates", [math.log2(slots) for slots in sizes]),
        ),
        xlabel="slots M",
        ylabel="address dimension p",
        log="xy",
    )
    note = f"M up to {sizes[-1]} in {dims(sizes[-1])} dimensions, least margin {worst:.3f}"
    return Evidence(worst >= 0.5 - ROUNDING, worst - 0.5, 2 * len(sizes), note, (series,))


def least_dim(slots: int, draw: Draw, generator: torch.Generator) -> int:
    """Return the least dimension in which :func:`separated` finds ``slots`` addresses of margin 1/2."""
    dim = max(1, (slots - 1).bit_length())
    while margin(separated(slots, dim, draw, generator)) < 0.5 - ROUNDING:
        dim += 1
    return dim


def one_hot_dim(slots: int, draw: Draw, generator: torch.Generator) -> int:
    """Return the dimension that exact linear gating needs, M. Paper: prop:onehot."""
    del draw, generator
    return slots


def check_growth(
    dim_of: Callable[[int, Draw, torch.Generator], int], instances: int, generator: torch.Generator
) -> Evidence:
    """Check that each doubling of M adds at most 7 dimensions. ``instances`` is the largest log2 M."""
    sizes = [2**exponent for exponent in range(1, instances + 1)]
    draws: dict[str, Draw] = {"binary": binary, "spherical": spherical}
    dims_by_kind = {name: [dim_of(slots, draw, generator) for slots in sizes] for name, draw in draws.items()}
    added = {name: max(after - before for before, after in pairwise(dims)) for name, dims in dims_by_kind.items()}
    slope = {name: (dims[-1] - dims[0]) / (instances - 1) for name, dims in dims_by_kind.items()}
    series = Series(
        title="The least dimensions found for M addresses of margin 1/2",
        x=sizes,
        lines=(
            *((f"{name} codebook", dims) for name, dims in dims_by_kind.items()),
            ("log2 M, one-bit coordinates (prop:routing.bits)", [math.log2(slots) for slots in sizes]),
        ),
        xlabel="slots M",
        ylabel="address dimension p",
        log="x",
    )
    note = "; ".join(
        f"{name}: {dims[-1]} for M={sizes[-1]}, {slope[name]:.1f} per doubling" for name, dims in dims_by_kind.items()
    )
    most = max(added.values())
    return Evidence(most <= 7, float(most), 2 * len(sizes), note, (series,))


CoordinateRule = Callable[[int, int], int]
"""Maps (slots, bits of a coordinate) to the number of coordinates of an address."""


def all_addresses(dim: int, bits: int) -> Float64[Tensor, "addresses dim"]:
    """Return every point whose coordinates have ``bits`` bits; a single zero if ``dim`` is 0."""
    levels = torch.arange(1 << bits, dtype=torch.float64) - ((1 << bits) - 1) / 2
    if dim == 0:
        return torch.zeros(1, 1, dtype=torch.float64)
    return torch.cartesian_prod(*[levels] * dim).view(-1, dim)


def check_bits(coordinates: CoordinateRule, instances: int, generator: torch.Generator) -> Evidence:
    """Check that with ``p b < log2 M`` two slots share an address, whose targets give their slot at most half.

    Addresses are used in turn from the list of all points, so that as few as possible are shared. ``instances`` is the
    largest M.
    """
    examined, worst, note = 0, 0.0, ""
    for slots in range(2, instances + 1):
        for bits in (1, 2, 3):
            dim = coordinates(slots, bits)
            points = all_addresses(dim, bits)
            codebook = points[torch.randperm(len(points), generator=generator)][torch.arange(slots) % len(points)]
            # Twice the product minus the squared length is largest at the point itself, whatever its length.
            key = torch.cat([2 * codebook, -codebook.square().sum(dim=1, keepdim=True)], dim=1)
            query = torch.cat([codebook, torch.ones(slots, 1, dtype=torch.float64)], dim=1)
            value = torch.eye(slots, dtype=torch.float64).view(1, slots, 1, slots)
            weight = read((1000 * query).unsqueeze(1), key.unsqueeze(1), value)[:, 0].diagonal()
            examined += 1
            if float(weight.min()) > worst:
                worst = float(weight.min())
                note = (
                    f"M={slots}, {dim} coordinates of {bits} bits: the worst-served target gives its slot {worst:.3g}"
                )
    return Evidence(worst <= 0.5 + ROUNDING, worst, examined, note)


def too_few_coordinates(slots: int, bits: int) -> int:
    """Return the largest number of coordinates with ``p b < log2 M``."""
    return ((slots - 1).bit_length() - 1) // bits


def enough_coordinates(slots: int, bits: int) -> int:
    """Return the smallest number of coordinates with ``p b >= log2 M``."""
    return -(-(slots - 1).bit_length() // bits)
