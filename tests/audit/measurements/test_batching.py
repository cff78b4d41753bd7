"""Independence of batch mates and of padding."""

from audit.specimens import Broadcast, PaddedMean, WholeBatchMean
from mooring.audit import adapt, measure


def test_independent() -> None:
    adapter = adapt(Broadcast(7, "sum"), channels=7)
    for name in ("batch_mates", "padding"):
        finding = measure(name, adapter, 0, 8)
        assert finding.verdict == "independent"
        assert not finding.broken


def test_a_mean_over_the_batch_leaks() -> None:
    finding = measure("batch_mates", adapt(WholeBatchMean(), channels=7), 0, 4)
    assert finding.broken
    assert finding.value is not None
    assert finding.value > 1e-2


def test_padding_is_told_apart_from_mates() -> None:
    adapter = adapt(PaddedMean(), channels=7)
    assert not measure("batch_mates", adapter, 0, 8).broken
    assert measure("padding", adapter, 0, 8).broken
