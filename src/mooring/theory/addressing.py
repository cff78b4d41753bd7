"""The cost of an address: one-hot gates need M dimensions, dot products O(log M); bounds on their leakage."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float64
from torch import Generator, Tensor

from mooring.ops import read, write
from mooring.theory.capacity import label_digits
from mooring.theory.claim import Evidence, Series, claim
from mooring.theory.instances import normal

# Products of unit vectors are exact to a few units in the last place; comparisons with the bounds allow this slack.
ROUNDING = 1e-9

Draw = Callable[[int, int, Generator], Float64[Tensor, "count dim"]]


def spherical(count: int, dim: int, generator: Generator) -> Float64[Tensor, "count dim"]:
    """Draw independent uniform points on the unit sphere."""
    return torch.nn.functional.normalize(normal(generator, count, dim), dim=1)


def binary(count: int, dim: int, generator: Generator) -> Float64[Tensor, "count dim"]:
    """Draw independent uniform corners of the cube, scaled to length one."""
    return (torch.randint(2, (count, dim), generator=generator).double() * 2 - 1) / dim**0.5


DRAWS: dict[str, Draw] = {"binary": binary, "spherical": spherical}


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


def separated(slots: int, dim: int, draw: Draw, generator: Generator) -> Float64[Tensor, "slots dim"]:
    """Grow a codebook greedily: add a candidate if its margin to all addresses so far is at least 1/2.

    If the dimension cannot hold ``slots`` such addresses, the rest are random points. The margin is then smaller, so
    callers measure it.

    Paper: the codebooks after prop:routing.
    """
    codebook = draw(1, dim, generator)
    for _ in range(20):
        if len(codebook) == slots:
            return codebook
        candidates = draw(2 * slots, dim, generator)
        clear = (candidates @ codebook.T <= 0.5).all(dim=1)
        near = (candidates @ candidates.T > 0.5).tril_(-1)
        # A candidate is dropped when it is near an earlier clear one, even if that one is dropped too. This costs only
        # a few candidates.
        chosen = candidates[clear & ~(near & clear).any(dim=1)]
        codebook = torch.cat([codebook, chosen])[:slots]
    return torch.cat([codebook, draw(slots - len(codebook), dim, generator)])


@claim(
    "prop:onehot",
    "A linear map that sends M addresses to the M one-hot gates needs at least M dimensions.",
    subject=lambda slots: range(1, slots),
    controls={
        "premise removed: addresses of M dimensions, where an exact gate exists": lambda slots: range(slots, slots + 1)
    },
    margin_means="least squared distance between the best linear gate and the one-hot codes; 0 would be exact",
    instances=8,
)
def onehot_gate(dims: Callable[[int], range], instances: int, generator: Generator) -> Evidence:
    """Check that in p dimensions the best linear gate is at squared distance ``M - p`` from the one-hot codes."""
    examined, closest, excess = 0, math.inf, math.inf
    for slots in (2, 3, 5, 11, 23):
        for dim in dims(slots):
            addresses = normal(generator, instances, dim, slots)
            identity = torch.eye(slots, dtype=torch.float64).expand(instances, -1, -1)
            gate = identity @ torch.linalg.pinv(addresses)
            residual = float((gate @ addresses - identity).square().sum(dim=(1, 2)).min())
            examined += instances
            closest = min(closest, residual)
            excess = min(excess, residual - (slots - dim))
    passed = closest > 0.5 and excess > -ROUNDING
    return Evidence(passed, closest, examined, f"squared distance of the best gate to one-hot: at least {closest:.3g}")


@dataclass(frozen=True)
class Codebook:
    """Addresses of the slots, and the margin claimed for them."""

    addresses: Float64[Tensor, "slots dim"]
    delta: float


def honest_codebook(slots: int, generator: Generator) -> Codebook:
    """Draw a codebook of random kind and dimension with distinct addresses, and measure its margin."""
    while True:
        draw = (spherical, binary)[int(torch.randint(2, (), generator=generator))]
        dim = int(torch.randint(2, logarithmic_dim(slots) + 8, (), generator=generator))
        codebook = draw(slots, dim, generator)
        # In few binary dimensions an address may occur twice, which violates the premise.
        if margin(codebook) > ROUNDING:
            return Codebook(codebook, margin(codebook))


def overclaimed_codebook(slots: int, generator: Generator) -> Codebook:
    """Draw a codebook in which two slots share one address, and claim the margin of the others."""
    codebook = separated(slots, logarithmic_dim(slots), spherical, generator)
    return Codebook(torch.cat([codebook[:-1], codebook[:1]]), margin(codebook))


def leakage(codebook: Tensor, group: Tensor, temperature: float) -> Float64[Tensor, " slots"]:
    """Return the attention mass that each slot of the real write gives to sources outside its group."""
    value = torch.nn.functional.one_hot(group, len(codebook)).double()
    query, key = codebook / temperature, codebook[group]
    content = write(query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)).content[0, :, 0]
    return content.clone().fill_diagonal_(0.0).sum(dim=1)


def write_bound(total: int, members: float, delta: float, temperature: float) -> float:
    """Return the largest attention mass that a slot can leave outside its group. Paper: eq:leak."""
    return (total - members) / members * math.exp(-delta / temperature)


def matching_weight(
    query: Float64[Tensor, "slots dim"], key: Float64[Tensor, "slots dim"]
) -> Float64[Tensor, " slots"]:
    """Return the weight that the real read of each query gives to the slot of the same number."""
    slots = len(key)
    value = torch.eye(slots, dtype=torch.float64).view(1, slots, 1, slots)
    return read(query.unsqueeze(1), key.unsqueeze(1), value)[:, 0].diagonal()


def read_bound(slots: int, delta: float, temperature: float) -> float:
    """Return the least weight that a target gives to its slot. Paper: eq:read-margin."""
    return 1 / (1 + (slots - 1) * math.exp(-delta / temperature))


@claim(
    "prop:routing",
    "A slot leaks at most eq:leak outside its group; a target gives its slot at least eq:read-margin.",
    subject=honest_codebook,
    controls={
        "premise removed: two slots share an address while the margin of the rest is claimed": overclaimed_codebook
    },
    margin_means="least relative slack: bound / measured - 1, over all slots and both bounds",
    instances=300,
)
def routing_bounds(draw: Callable[[int, Generator], Codebook], instances: int, generator: Generator) -> Evidence:
    """Check both bounds for every slot, over random codebooks, temperatures and group sizes."""
    examined, tightest, note = 0, math.inf, ""
    for _ in range(instances):
        slots = int(torch.randint(2, 24, (), generator=generator))
        claimed = draw(slots, generator)
        temperature = 10 ** float(torch.rand((), generator=generator) * 3 - 2)
        sizes = torch.randint(1, 12, (slots,), generator=generator)
        group = torch.arange(slots).repeat_interleave(sizes)[torch.randperm(int(sizes.sum()), generator=generator)]
        leaks = leakage(claimed.addresses, group, temperature)
        weights = matching_weight(claimed.addresses / temperature, claimed.addresses)
        least = read_bound(slots, claimed.delta, temperature)
        examined += slots
        for size, leak, weight in zip(sizes.tolist(), leaks.tolist(), weights.tolist(), strict=True):
            bound = write_bound(len(group), size, claimed.delta, temperature)
            # A ratio, because both sides span many orders of magnitude; leaks below the smallest normal number are 0.
            slack = min((bound + 1e-300) / (leak + 1e-300), weight / least) - 1
            if slack < tightest:
                tightest = slack
                note = f"closest: M={slots}, delta={claimed.delta:.2f}, tau={temperature:.3f}"
    if tightest < -ROUNDING:
        return Evidence(False, tightest, examined, note)
    slots, members = 16, 4
    codebook = separated(slots, logarithmic_dim(slots), binary, generator)
    group = torch.arange(slots).repeat_interleave(members)
    temperatures = [0.02 * 1.35**step for step in range(15)]
    delta = margin(codebook)
    title = f"Mass written outside a slot's group, M={slots}, p={codebook.shape[1]}, delta={delta:.2f}"
    lines = (
        ("measured, worst slot", [float(leakage(codebook, group, t).max()) for t in temperatures]),
        ("bound (eq:leak)", [write_bound(len(group), members, delta, t) for t in temperatures]),
    )
    series = Series(title, temperatures, lines, "temperature", "leaked mass", "xy")
    return Evidence(True, tightest, examined, note, (series,))


@claim(
    "prop:routing.codebook",
    "Addresses of margin 1/2 for M slots fit in O(log M) dimensions: 7 ceil(log2 M) + 1 are enough.",
    subject=logarithmic_dim,
    controls={
        "premise removed: five dimensions whatever M": lambda slots: 5,
        "dimensions that grow with M: 7 M + 1": lambda slots: 7 * slots + 1,
    },
    margin_means="least margin of the codebooks built, minus 1/2",
    instances=10,
    least=4,
)
def codebook_dims(dims: Callable[[int], int], instances: int, generator: Generator) -> Evidence:
    """Check that binary and spherical codebooks of margin 1/2 exist, with at most 7 more dimensions per doubling of M.

    ``instances`` is the largest log2 M.
    """
    sizes = [2**exponent for exponent in range(1, instances + 1)]
    for exponent, slots in enumerate(sizes, 1):
        if dims(slots) > 7 * exponent + 1:
            note = f"M={slots} in {dims(slots)} dimensions, above 7 log2 M + 1 = {7 * exponent + 1}"
            return Evidence(False, math.nan, exponent, note)
    worst = min(margin(separated(slots, dims(slots), draw, generator)) for slots in sizes for draw in DRAWS.values())
    lines = (
        ("one-hot gate (prop:onehot)", sizes),
        ("margin-1/2 codebook, built", [dims(slots) for slots in sizes]),
        ("log2 M, one-bit coordinates", [math.log2(slots) for slots in sizes]),
    )
    series = Series("Dimensions that address M slots", sizes, lines, "slots M", "address dimension p", "xy")
    note = f"M up to {sizes[-1]} in {dims(sizes[-1])} dimensions, least margin {worst:.3f}"
    return Evidence(worst >= 0.5 - ROUNDING, worst - 0.5, 2 * len(sizes), note, (series,))


def least_dim(slots: int, draw: Draw, generator: Generator) -> int:
    """Return the least dimension in which :func:`separated` finds ``slots`` addresses of margin 1/2."""
    dim = max(1, (slots - 1).bit_length())
    while margin(separated(slots, dim, draw, generator)) < 0.5 - ROUNDING:
        dim += 1
    return dim


@claim(
    "prop:routing.growth",
    "The dimensions that M addresses of margin 1/2 need grow with log M: at most 7 per doubling.",
    subject=least_dim,
    controls={"one-hot addresses, whose dimensions grow with M": lambda slots, draw, generator: slots},
    margin_means="most dimensions that one doubling of M added",
    instances=8,
    least=4,
)
def dim_growth(dim_of: Callable[[int, Draw, Generator], int], instances: int, generator: Generator) -> Evidence:
    """Check that each doubling of M adds at most 7 dimensions. ``instances`` is the largest log2 M."""
    sizes = [2**exponent for exponent in range(1, instances + 1)]
    dims_by_kind = {name: [dim_of(slots, draw, generator) for slots in sizes] for name, draw in DRAWS.items()}
    most = max(after - before for dims in dims_by_kind.values() for before, after in pairwise(dims))
    lines: list[tuple[str, Sequence[float]]] = [(f"{name} codebook", dims) for name, dims in dims_by_kind.items()]
    lines += [("log2 M, one-bit coordinates (prop:routing.bits)", [math.log2(slots) for slots in sizes])]
    title = "The least dimensions found for M addresses of margin 1/2"
    series = Series(title, sizes, lines, "slots M", "address dimension p", "x")
    note = "; ".join(
        f"{name}: {dims[-1]} for M={sizes[-1]}, {(dims[-1] - dims[0]) / (instances - 1):.1f} per doubling"
        for name, dims in dims_by_kind.items()
    )
    return Evidence(most <= 7, float(most), 2 * len(sizes), note, (series,))


def all_addresses(dim: int, bits: int) -> Float64[Tensor, "addresses dim"]:
    """Return every point whose coordinates have ``bits`` bits; a single zero if ``dim`` is 0."""
    levels = torch.arange(1 << bits, dtype=torch.float64) - ((1 << bits) - 1) / 2
    if dim == 0:
        return torch.zeros(1, 1, dtype=torch.float64)
    return torch.cartesian_prod(*[levels] * dim).view(-1, dim)


@claim(
    "prop:routing.bits",
    "With p b < log2 M two slots share an address, and a target of theirs gives its slot at most half.",
    # The most coordinates p with p b < log2 M, and the fewest with p b >= log2 M.
    subject=lambda slots, bits: ((slots - 1).bit_length() - 1) // bits,
    controls={"premise removed: p b >= log2 M, where all addresses can differ": label_digits},
    margin_means="largest weight that the worst-served target gave its slot, at a sharp temperature",
    instances=33,
    least=2,
)
def shared_addresses(coordinates: Callable[[int, int], int], instances: int, generator: Generator) -> Evidence:
    """Check that two slots share an address, whose targets give their slot at most half, for M up to ``instances``.

    Addresses are used in turn from the list of all points, so that as few as possible are shared.
    """
    worst, note = 0.0, ""
    for slots in range(2, instances + 1):
        for bits in (1, 2, 3):
            dim = coordinates(slots, bits)
            points = all_addresses(dim, bits)
            codebook = points[torch.randperm(len(points), generator=generator)][torch.arange(slots) % len(points)]
            # Twice the product minus the squared length is largest at the point itself, whatever its length.
            key = torch.cat([2 * codebook, -codebook.square().sum(dim=1, keepdim=True)], dim=1)
            query = torch.cat([codebook, torch.ones(slots, 1, dtype=torch.float64)], dim=1)
            weight = float(matching_weight(1000 * query, key).min())
            if weight > worst:
                worst = weight
                note = (
                    f"M={slots}, {dim} coordinates of {bits} bits: the worst-served target gives its slot {weight:.3g}"
                )
    return Evidence(worst <= 0.5 + ROUNDING, worst, 3 * (instances - 1), note)
