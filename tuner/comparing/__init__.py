"""The comparison of one layer on one card: our best, cuDNN through PyTorch, the baselines, the floor; interleaved."""

from tuner.comparing.contest import compare
from tuner.comparing.options import CompareOptions
from tuner.comparing.rows import Comparison, Row

__all__ = ["CompareOptions", "Comparison", "Row", "compare"]
