"""Training on constrained link sets: no local messages, one pair decoder, any global memory of the zoo."""

from mooring.train.linksets.config import LinkConfig
from mooring.train.linksets.decoder import PairDecoder
from mooring.train.linksets.experiment import LinkExperiment
from mooring.train.linksets.features import NodeFeatures
from mooring.train.linksets.model import LinkNet, matched_hidden

__all__ = ["LinkConfig", "LinkExperiment", "LinkNet", "NodeFeatures", "PairDecoder", "matched_hidden"]
