"""The comparison of one problem on one card: our best, cuDNN through PyTorch, the baselines, the floor; interleaved."""

from tuner.compare.contest import compare
from tuner.compare.options import CompareOptions
from tuner.compare.rows import Comparison, Row

__all__ = ["CompareOptions", "Comparison", "Row", "compare"]
