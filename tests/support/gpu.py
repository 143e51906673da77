"""Whether what needs an NVIDIA GPU can run here."""

from __future__ import annotations


def why_none() -> str:
    """Return what a CUDA device lacks, in a line; nothing where there is one."""
    from tuner.devices import cuda_driver, nvcc
    from tuner.errors import UsageError

    try:
        cuda_driver.require()
        nvcc.toolkit()
    except UsageError as error:
        return f"needs an NVIDIA GPU: {error}"
    return ""
