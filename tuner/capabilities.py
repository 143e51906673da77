"""What CUDA devices learnt when, as ``DeviceLimits.capability`` numbers it: 80 is sm_80.

Source:
    CUDA C++ Programming Guide, "Compute Capabilities"; PTX ISA, "Target ISA Notes" of each instruction.
"""

from __future__ import annotations

from typing import Any, Final

from tuner.templates import ANY_MAGNITUDE, Magnitudes

TENSOR_CORES: Final = 80  # the first with products of TF32 and BF16
BULK_COPIES: Final = 90  # the first with an engine of its own that copies runs of shared memory
CLUSTERS: Final = 90  # the first whose blocks read each other's shared memory
WARPGROUPS: Final = 90  # the only one with wgmma, as sm_90a

FP16_MAGNITUDES: Magnitudes = (
    2.0**-4,
    65504.0,
)  # beyond, a number's FP16 or the rest of it is infinite or loses digits


def magnitudes_of_operands(p: Any) -> Magnitudes:
    """Return the magnitudes of x that a configuration's ``OPERANDS`` hold."""
    return FP16_MAGNITUDES if str(p.OPERANDS).startswith("fp16") else ANY_MAGNITUDE
