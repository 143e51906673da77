"""The best configuration as one self-contained header."""

from tuner.export.file import write_header
from tuner.export.header import render_header, render_split
from tuner.export.winner import Winner

__all__ = ["Winner", "render_header", "render_split", "write_header"]
