"""Training on constrained link sets: no local messages, one pair decoder, any global memory of the zoo."""

from mooring.suite.linksets.config import LinkConfig
from mooring.suite.linksets.decoder import PairDecoder
from mooring.suite.linksets.experiment import LinkExperiment
from mooring.suite.linksets.features import NodeFeatures
from mooring.suite.linksets.model import LinkNet, matched_hidden

__all__ = ["LinkConfig", "LinkExperiment", "LinkNet", "NodeFeatures", "PairDecoder", "matched_hidden"]
