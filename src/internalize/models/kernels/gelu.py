"""GELU in its tanh form, with the bias before it and its derivative, in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from numba import njit

from internalize.models.kernels.lanes import (
    FLOAT_BYTES,
    HALF_BYTES,
    Lanes,
    elements,
    emitters_stamp,
    native_lanes,
    staged,
    zero,
)
from internalize.models.kernels.rows import read, write

# gelu(x) = x · sigmoid(2 √(2/π) (x + CUBIC x³)).
CUBIC = 0.044715
SLOPE = 2 * math.sqrt(2 / math.pi)
LOG2_E = math.log2(math.e)
LARGEST_EXPONENT = 126.0


def emit_gelu(lanes: Lanes, size: int, rotary: bool, half: bool, *arguments: Any) -> None:
    """Some neighbours in a row: addresses of (before, bias, after, derivative)."""
    del size, rotary
    before, bias, after, slope = arguments
    one = lanes.constant(1.0)
    at = zero(before)
    x = lanes.add(lanes.load(elements(lanes, before, half), at), lanes.load(elements(lanes, bias), at))
    cubic = lanes.mul(lanes.mul(x, x), lanes.constant(CUBIC))
    exponent = lanes.mul(lanes.fma(x, cubic, x), lanes.constant(-SLOPE * LOG2_E))
    power = lanes.exp2(lanes.minimum(lanes.constant(LARGEST_EXPONENT), exponent))
    sigmoid = lanes.div(one, lanes.add(one, power))
    y = lanes.mul(x, sigmoid)
    lanes.store(y, elements(lanes, after, half), at)
    inner = lanes.fma(cubic, lanes.constant(3 * SLOPE), lanes.constant(SLOPE))
    rest = lanes.mul(y, lanes.sub(one, sigmoid))
    lanes.store(lanes.fma(rest, inner, sigmoid), elements(lanes, slope, half), at)


gelu_lanes = staged(emit_gelu)


@cache
def gelu_kernel(half: bool) -> Callable[..., None]:
    """GELU of (rows, width) numbers plus bias (width,), and its derivative; `after` may be `before`."""
    lanes = native_lanes()
    item = HALF_BYTES if half else FLOAT_BYTES
    emitted = emitters_stamp()

    @njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
    def gelu(before: Any, bias: Any, after: Any, slope: Any) -> None:
        if emitted == 0:  # never; see `emitters_stamp`
            return
        rows, width = before.shape
        whole = width - width % lanes
        for r in range(rows):
            row = item * r * width
            x, b = before.ctypes.data + row, bias.ctypes.data
            y, s = after.ctypes.data + row, slope.ctypes.data + row
            for c in range(0, whole, lanes):
                gelu_lanes(
                    lanes, 1, False, half, (x + item * c, b + FLOAT_BYTES * c, y + item * c, s + item * c)
                )
            for c in range(whole, width):
                gelu_lanes(1, 1, False, half, (x + item * c, b + FLOAT_BYTES * c, y + item * c, s + item * c))

    compiled: Callable[..., None] = gelu
    return compiled


@njit(cache=True, nogil=True, fastmath={"contract", "nsz"})  # type: ignore[untyped-decorator]
def gelu_back(active_back: Any, slope: Any, bias_back: Any) -> None:
    """The gradient before the GELU from that after it, in place; the columns' sums are added to the bias's."""
    rows, width = active_back.shape
    for r in range(rows):
        for c in range(width):
            value = read(active_back, r, c) * read(slope, r, c)
            write(active_back, r, c, value)
            bias_back[c] += value
