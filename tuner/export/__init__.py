"""The best configuration as one self-contained header."""

from tuner.export.file import write_header
from tuner.export.header import Winner, render_header

__all__ = ["Winner", "render_header", "write_header"]
