"""What CUDA devices learnt when, as ``DeviceLimits.capability`` numbers it: 80 is sm_80.

Source:
    CUDA C++ Programming Guide, "Compute Capabilities"; PTX ISA, "Target ISA Notes" of each instruction.
"""

from __future__ import annotations

from typing import Any, Final

from tuner.kernels.limits import ANY_MAGNITUDE, DeviceLimits, Magnitudes

TENSOR_CORES: Final = 80  # the first with products of TF32 and BF16
BULK_COPIES: Final = 90  # the first with an engine of its own that copies runs of shared memory
CLUSTERS: Final = 90  # the first whose blocks read each other's shared memory
WARPGROUPS: Final = 90  # the only one with wgmma, as sm_90a

FP16_MAGNITUDES: Magnitudes = (
    2.0**-4,
    65504.0,
)  # beyond, a number's FP16 or the rest of it is infinite or loses digits


def magnitudes_of_operands(p: Any) -> Magnitudes:
    """Return the magnitudes of x that a configuration's ``MMA_TYPE`` holds, or its ``OPERANDS``, as it was called."""
    chosen = p.MMA_TYPE if "MMA_TYPE" in p.names() else p.OPERANDS
    return FP16_MAGNITUDES if str(chosen).startswith("fp16") else ANY_MAGNITUDE


SUM_ROUNDINGS = 11  # times the square root of a sum's terms; errors stay under 7 of the 8 units allowed (H200)


def keeps_fp32(additions: Any, terms: int, limits: DeviceLimits) -> Any:
    """Say whether products of tensor cores add up to FP32's accuracy.

    Each addition to a sum is rounded toward zero, so their errors add up, while those of a plain FP32 kernel grow with
    the square root of its terms.

    Args:
        additions: To one sum.
        terms: That the sum has.
    """
    return (limits.precision != "fp32") | (additions**2 <= SUM_ROUNDINGS**2 * terms)
