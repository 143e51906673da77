"""Lets a script here import what tests share: ``tests/support`` on the path of modules."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
