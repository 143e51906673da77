"""What a device allows a kernel, and the range of a configuration's arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

Dialect = str
CUDA: Dialect = "cuda"
OPENCL: Dialect = "opencl"
Magnitudes = tuple[float, float]
ANY_MAGNITUDE: Magnitudes = (2.0**-24, 2.0**24)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLimits:
    """What a device allows a kernel, and a study; constraints read these.

    Attributes:
        capability: 10 * major + minor of a CUDA device, as in ``sm_90``; 0 for others.
        vector_words: FP32 words that a thread's instruction multiplies at once: 16 on a CPU with AVX-512, 1 on a GPU.
        precision: What operands may be rounded to before they are multiplied: fp32, tf32, fp16 or bf16.

    Units:
        ``shared_bytes`` is per block, ``constant_bytes`` per module; ``warp`` is lanes (1 where there are none).
    """

    dialect: Dialect
    max_threads: int
    max_block: tuple[int, int, int]
    shared_bytes: int
    constant_bytes: int
    registers: int
    warp: int
    capability: int = 0
    vector_words: int = 1
    precision: str = "fp32"
