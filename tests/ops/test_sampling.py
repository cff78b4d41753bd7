"""Sampled nodes with ``log_weight = -log p``: the mass Z and the total Z mu are unbiased, log Z and mu are not."""

from __future__ import annotations

from statistics import NormalDist

import torch
from torch import Tensor

from mooring import ops
from mooring.ops import SlotState
from support import assert_close

SLOTS, HEADS, DIM, VDIM = 3, 2, 5, 7
# Chance that a correct estimator is called biased in any of the slots and heads of one test.
FALSE_ALARM = 1e-6


def nodes(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return query, key, value and the sampling probability of each node, larger for lower scores."""
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(SLOTS, HEADS, DIM, generator=generator, dtype=torch.float64) / 2
    key = torch.randn(count, HEADS, DIM, generator=generator, dtype=torch.float64)
    value = torch.randn(count, HEADS, VDIM, generator=generator, dtype=torch.float64)
    score = torch.einsum("mhd,nhd->n", query, key) / (SLOTS * HEADS)
    return query, key, value, 0.1 + 0.8 * torch.sigmoid(-score)


def write_samples(
    query: Tensor, key: Tensor, value: Tensor, drawn: Tensor, log_weight: Tensor | None = None
) -> SlotState:
    """Return the state of each sample in the mask ``drawn`` ``[samples, nodes]``, as a separate graph."""
    sample, node = drawn.nonzero(as_tuple=True)
    weight = None if log_weight is None else log_weight[node]
    return ops.write(query, key[node], value[node], sample, num_graphs=drawn.size(0), log_weight=weight)


def every_subset(count: int, p: Tensor) -> tuple[Tensor, Tensor]:
    """Return all possible samples and their probabilities for independent draws."""
    drawn = (torch.arange(2**count).unsqueeze(1) >> torch.arange(count)) & 1 == 1
    return drawn, torch.where(drawn, p, 1 - p).prod(dim=1)


def test_mass_and_total_are_exactly_unbiased_over_all_samples() -> None:
    query, key, value, p = nodes(7, seed=1)
    drawn, chance = every_subset(7, p)
    whole, sampled = ops.write(query, key, value), write_samples(query, key, value, drawn, -p.log())
    assert_close(torch.einsum("s,smh->mh", chance, sampled.log_mass.exp()), whole.log_mass[0].exp())
    assert_close(torch.einsum("s,smhd->mhd", chance, sampled.total), whole.total[0])


def test_log_mass_is_biased_downwards_and_content_is_biased() -> None:
    # An empty sample has log Z = -inf, so the logarithm is taken beside the anchor: log(1 + Z).
    query, key, value, p = nodes(7, seed=1)
    drawn, chance = every_subset(7, p)
    whole, sampled = ops.write(query, key, value), write_samples(query, key, value, drawn, -p.log())
    anchor = torch.zeros(SLOTS, HEADS, dtype=torch.float64)
    estimate = torch.einsum("s,smh->mh", chance, ops.softplus_odds(sampled, anchor))
    assert bool((estimate < ops.softplus_odds(whole, anchor)[0] - 1e-3).all())
    content = torch.einsum("s,smhd->mhd", chance, sampled.content)
    assert float((content - whole.content[0]).abs().min()) > 1e-6


def deviations(estimates: Tensor, truth: Tensor) -> Tensor:
    """Return the deviation of the mean mass from the exact mass in standard errors, per slot and head."""
    return (estimates.mean(dim=0) - truth) / (estimates.std(dim=0) / len(estimates) ** 0.5)


def limit() -> float:
    """Return the deviation exceeded by chance with probability at most FALSE_ALARM, by a union bound."""
    return NormalDist().inv_cdf(1 - FALSE_ALARM / (2 * SLOTS * HEADS))


def test_masses_of_random_minibatches_are_unbiased() -> None:
    count, samples = 997, 1009
    query, key, value, p = nodes(count, seed=2)
    generator = torch.Generator().manual_seed(3)
    drawn = torch.rand(samples, count, generator=generator, dtype=torch.float64) < p
    truth = ops.write(query, key, value).log_mass[0].exp()
    weighted = write_samples(query, key, value, drawn, -p.log()).log_mass.exp()
    assert float(deviations(weighted, truth).abs().max()) < limit()
    # Controls: no weights, and the weights the wrong way round.
    for log_weight in (None, p.log()):
        wrong = write_samples(query, key, value, drawn, log_weight).log_mass.exp()
        assert float(deviations(wrong, truth).abs().min()) > limit()
    # A constant correction is not enough where p differs between nodes.
    constant = write_samples(query, key, value, drawn, (-p.mean().log()).expand(count)).log_mass.exp()
    assert float(deviations(constant, truth).abs().max()) > limit()


def test_minibatches_of_fixed_size_need_the_inclusion_probability() -> None:
    count, size, samples = 499, 23, 1009
    query, key, value, _ = nodes(count, seed=4)
    generator = torch.Generator().manual_seed(5)
    picked = torch.rand(samples, count, generator=generator).topk(size, dim=1).indices
    drawn = torch.zeros(samples, count, dtype=torch.bool).scatter(1, picked, True)
    truth = ops.write(query, key, value).log_mass[0].exp()
    p = torch.full((count,), size / count, dtype=torch.float64)
    weighted = write_samples(query, key, value, drawn, -p.log()).log_mass.exp()
    assert float(deviations(weighted, truth).abs().max()) < limit()
    unweighted = write_samples(query, key, value, drawn).log_mass.exp()
    assert float(deviations(unweighted, truth).abs().min()) > limit()


def test_content_of_large_samples_approaches_the_whole() -> None:
    query, key, value, p = nodes(997, seed=6)
    generator = torch.Generator().manual_seed(7)
    whole = ops.write(query, key, value).content
    errors = []
    for share in (0.1, 1.0):
        drawn = torch.rand(101, 997, generator=generator, dtype=torch.float64) < share * p
        sampled = write_samples(query, key, value, drawn, -(share * p).log())
        errors.append(float((sampled.content.mean(dim=0) - whole[0]).abs().max()))
    assert errors[1] < errors[0] / 2
