"""Hardware counters of one configuration, by NVIDIA Nsight Compute's command line."""

from tuner.profiling.ncu import Counter, find_ncu, profile

__all__ = ["Counter", "find_ncu", "profile"]
