"""The paper's claims as executable checks, each with a control that must fail; the hand-set weights of its proofs."""

from mooring.theory.capacity import construction_width, required_bits, required_width
from mooring.theory.claim import Claim, ClaimResult, Evidence, Series
from mooring.theory.construction import AddressedTable
from mooring.theory.distortion import (
    distortion_series,
    label_recovery_ceiling,
    recovery_by_codebook,
    recovery_by_table,
    recovery_ceiling,
)
from mooring.theory.handset import CountedTable, HandSetMemory
from mooring.theory.verify import CLAIMS, Verification, labels, select, verify

__all__ = [
    "CLAIMS",
    "AddressedTable",
    "Claim",
    "ClaimResult",
    "CountedTable",
    "Evidence",
    "HandSetMemory",
    "Series",
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
    "verify",
]
