"""The built-in templates, and the limits of a card to enumerate them for."""

from __future__ import annotations

import shutil

import pytest

from tuner.kernels.loading import builtin_templates
from tuner.kernels.template import CUDA, DeviceLimits

CUDA_LIMITS = DeviceLimits(
    dialect=CUDA,
    max_threads=1024,
    max_block=(1024, 1024, 64),
    shared_bytes=232_448,
    constant_bytes=65_536,
    registers=65_536,
    warp=32,
    capability=90,
)
TEMPLATES = builtin_templates()
NAMES = sorted(TEMPLATES)
HAS_NVCC = shutil.which("nvcc") is not None
needs_nvcc = pytest.mark.skipif(not HAS_NVCC, reason="nvcc is not installed")
