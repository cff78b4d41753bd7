"""The paper's claims as executable checks, each with a control that must fail; the hand-set weights of its proofs."""

from mooring.theory.bounds import construction_width, required_bits, required_width
from mooring.theory.claim import Claim, ClaimResult, Evidence
from mooring.theory.construction import AddressedTable
from mooring.theory.counted import CountedTable
from mooring.theory.curve import TrainedPoint, distortion_series, trained_points
from mooring.theory.distortion import (
    label_recovery_ceiling,
    recovery_by_codebook,
    recovery_by_table,
    recovery_ceiling,
)
from mooring.theory.handset import HandSetMemory
from mooring.theory.registry import CLAIMS, labels, select
from mooring.theory.series import Series
from mooring.theory.verify import Verification, verify

__all__ = [
    "CLAIMS",
    "AddressedTable",
    "Claim",
    "ClaimResult",
    "CountedTable",
    "Evidence",
    "HandSetMemory",
    "Series",
    "TrainedPoint",
    "Verification",
    "construction_width",
    "distortion_series",
    "label_recovery_ceiling",
    "labels",
    "recovery_by_codebook",
    "recovery_by_table",
    "recovery_ceiling",
    "required_bits",
    "required_width",
    "select",
    "trained_points",
    "verify",
]
