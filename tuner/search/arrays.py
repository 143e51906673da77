"""Types of the arrays that a search works on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.uint8]  # choices or codes, a configuration per row
Indices = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
