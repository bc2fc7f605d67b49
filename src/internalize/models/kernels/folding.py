"""The layer norm's affine map folded into the product behind it, and taken out of the gradient again.

(u · gain + shift) W + bias = u (gain · W) + (shift W + bias): with u the rows of mean 0 and variance 1, neither
pass touches gain and shift row by row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def unfold(
    weight: Any, gain: Any, shift: Any, bias_back: Any, weight_back: Any, gain_back: Any, shift_back: Any
) -> None:
    """From the gradient of the folded weight to those of weight (in place), gain and shift.

    weight, weight_back: (inputs, outputs); gain, shift and theirs: (inputs,); bias_back: (outputs,). Adds to
    gain_back and shift_back.
    """
    inputs, outputs = weight.shape
    for i in range(inputs):
        along = np.float32(0.0)
        beside = np.float32(0.0)
        for o in range(outputs):
            g = weight_back[i, o]
            along += weight[i, o] * g
            beside += weight[i, o] * bias_back[o]
            weight_back[i, o] = gain[i] * g + shift[i] * bias_back[o]
        gain_back[i] += along
        shift_back[i] += beside
