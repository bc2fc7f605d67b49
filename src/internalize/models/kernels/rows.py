"""What happens between the products, row by row: residual addition with layer norm, gathering.

Arrays are float32, or bfloat16 seen as uint16 where they are operands of products in that precision; `read`
and `write` do the conversion, so that every kernel is written once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

# Sums may be reordered into vectors; infinities and NaN keep their meaning.
SUMS = {"reassoc", "contract", "nsz"}


def read(array: Any, row: int, column: int) -> Any:
    """The element as float32."""
    raise NotImplementedError("compiled only")


def write(array: Any, row: int, column: int, value: float) -> None:
    """Store a float32, rounded to the nearest bfloat16 if the array holds these."""
    raise NotImplementedError("compiled only")


@overload(read)  # type: ignore[untyped-decorator]
def _read(array: Any, row: Any, column: Any) -> Any:
    if array.dtype == types.uint16:

        def read_half(array: Any, row: Any, column: Any) -> Any:
            return np.uint32(np.uint32(array[row, column]) << np.uint32(16)).view(np.float32)

        return read_half

    def read_float(array: Any, row: Any, column: Any) -> Any:
        return array[row, column]

    return read_float


@overload(write)  # type: ignore[untyped-decorator]
def _write(array: Any, row: Any, column: Any, value: Any) -> Any:
    if array.dtype == types.uint16:

        def write_half(array: Any, row: Any, column: Any, value: Any) -> None:
            bits = np.float32(value).view(np.uint32)
            odd = np.uint32((bits >> np.uint32(16)) & np.uint32(1))
            array[row, column] = np.uint16(np.uint32(bits + odd + np.uint32(0x7FFF)) >> np.uint32(16))

        return write_half

    def write_float(array: Any, row: Any, column: Any, value: Any) -> None:
        array[row, column] = value

    return write_float


@njit(cache=True, nogil=True, fastmath=SUMS)  # type: ignore[untyped-decorator]
def normalise(
    source: Any,  # (·, width) the residual stream before, float32
    index: Any,  # (rows,) its row for each of ours
    branch: Any,  # (rows, width) what the branch adds to it
    bias: Any,  # (width,) the bias of the branch's last product
    x: Any,  # (rows, width) out: the residual stream after; may be `source` with index = 0, 1, …
    unit: Any,  # (rows, width) out: its rows with mean 0 and variance 1
    scale: Any,  # (rows,) out: one over their deviation before
    epsilon: Any,
) -> None:
    """Residual addition and layer norm (without the affine map, which is folded into the next product)."""
    width = np.int64(x.shape[1])
    for r in range(index.shape[0]):
        at = index[r]
        total = np.float32(0.0)
        for c in range(width):
            value = source[at, c] + read(branch, r, c) + bias[c]
            x[r, c] = value
            total += value
        mean = total / np.float32(width)
        square = np.float32(0.0)
        for c in range(width):
            off = x[r, c] - mean
            square += off * off
        s = np.float32(1.0) / np.sqrt(square / np.float32(width) + np.float32(epsilon))
        scale[r] = s
        for c in range(width):
            write(unit, r, c, (x[r, c] - mean) * s)


@njit(cache=True, nogil=True, fastmath=SUMS)  # type: ignore[untyped-decorator]
def normalise_back(
    unit_back: Any,  # (rows, width) gradient of unit
    unit: Any,
    scale: Any,
    x_back: Any,  # (rows, width) float32, in: gradient through the residual; out: plus that through the norm
    x_back_operand: Any,  # (rows, width) out: the same as an operand of products; may be x_back itself
    bias_back: Any,  # (width,) the columns' sums are added to it
) -> None:
    rows, width = x_back.shape
    part = np.float32(1.0 / width)
    for r in range(rows):
        mean = np.float32(0.0)
        along = np.float32(0.0)
        for c in range(width):
            g = read(unit_back, r, c)
            mean += g
            along += g * read(unit, r, c)
        mean *= part
        along *= part
        s = scale[r]
        for c in range(width):
            g = read(unit_back, r, c) - mean - read(unit, r, c) * along
            value = x_back[r, c] + s * g
            x_back[r, c] = value
            bias_back[c] += value
            write(x_back_operand, r, c, value)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def take_rows(source: Any, index: Any, out: Any) -> None:
    """out[r] = source[index[r]]."""
    for r in range(index.shape[0]):
        for c in range(out.shape[1]):
            out[r, c] = source[index[r], c]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def add_rows(out: Any, index: Any, source: Any) -> None:
    """out[index[r]] += source[r], in the order of the rows."""
    for r in range(index.shape[0]):
        for c in range(out.shape[1]):
            write(out, index[r], c, read(out, index[r], c) + read(source, r, c))
