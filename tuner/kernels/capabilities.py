"""The features of CUDA devices by ``DeviceLimits.capability``: 80 is sm_80.

Source:
    CUDA C++ Programming Guide, "Compute Capabilities"; PTX ISA, "Target ISA Notes" of each instruction.
"""

from __future__ import annotations

from typing import Any, Final

from tuner.kernels.limits import ANY_MAGNITUDE, DeviceLimits, Magnitudes

TENSOR_CORES: Final = 80  # the first capability with products of TF32 and BF16
BULK_COPIES: Final = 90  # the first capability with an engine for bulk copies of shared memory
CLUSTERS: Final = 90  # the first capability whose blocks can read each other's shared memory
WARPGROUPS: Final = 90  # the only capability with wgmma, as sm_90a

FP16_MAGNITUDES: Magnitudes = (
    2.0**-4,
    65504.0,
)  # beyond these, a number's FP16 part or the remainder is infinite or loses digits


def magnitudes_of_operands(p: Any) -> Magnitudes:
    """Return the magnitudes of x that a configuration's ``MMA_TYPE`` holds, or ``OPERANDS``, its former name."""
    chosen = p.MMA_TYPE if "MMA_TYPE" in p.names() else p.OPERANDS
    return FP16_MAGNITUDES if str(chosen).startswith("fp16") else ANY_MAGNITUDE


SUM_ROUNDINGS = 11  # factor on the square root of a sum's terms; errors stay under 7 of the 8 units allowed (H200)


def keeps_fp32(additions: Any, terms: int, limits: DeviceLimits) -> Any:
    """Whether sums of tensor-core products are as accurate as FP32.

    Each addition to a sum is rounded toward zero, so their errors add up, while those of a plain FP32 kernel grow with
    the square root of its terms.

    Args:
        additions: Number of additions to one sum.
        terms: Number of terms of the sum.
    """
    return (limits.precision != "fp32") | (additions**2 <= SUM_ROUNDINGS**2 * terms)
