"""What happens between the products, row by row: layer norm, GELU, the loss, folding, gathering.

Arrays are float32, or bfloat16 seen as uint16 where they are operands of products in that precision; `read`
and `write` do the conversion, so that every kernel is written once.

The layer norm's affine map is folded into the product behind it, and taken out of the gradient again:
(u · gain + shift) W + bias = u (gain · W) + (shift W + bias). With u the rows of mean 0 and variance 1, neither
pass touches gain and shift row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

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
        at = index[r]
        for c in range(out.shape[1]):
            out[r, c] = source[at, c]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def add_rows(out: Any, index: Any, source: Any) -> None:
    """out[index[r]] += source[r], in the order of the rows."""
    for r in range(index.shape[0]):
        at = index[r]
        for c in range(out.shape[1]):
            write(out, at, c, read(out, at, c) + read(source, r, c))


# gelu(x) = x · sigmoid(2 √(2/π) (x + CUBIC x³)).
CUBIC = 0.044715
GELU_SLOPE = 2 * math.sqrt(2 / math.pi)
LOG2_E = math.log2(math.e)
LARGEST_EXPONENT = 126.0


def emit_gelu(lanes: Lanes, size: int, rotary: bool, half: bool, drops: bool, *arguments: Any) -> None:
    """Some neighbours in a row: addresses of (before, bias, after, derivative)."""
    del size, rotary, drops
    before, bias, after, slope = arguments
    one = lanes.constant(1.0)
    at = zero(before)
    x = lanes.add(lanes.load(elements(lanes, before, half), at), lanes.load(elements(lanes, bias), at))
    cubic = lanes.mul(lanes.mul(x, x), lanes.constant(CUBIC))
    exponent = lanes.mul(lanes.fma(x, cubic, x), lanes.constant(-GELU_SLOPE * LOG2_E))
    power = lanes.exp2(lanes.minimum(lanes.constant(LARGEST_EXPONENT), exponent))
    sigmoid = lanes.div(one, lanes.add(one, power))
    y = lanes.mul(x, sigmoid)
    lanes.store(y, elements(lanes, after, half), at)
    inner = lanes.fma(cubic, lanes.constant(3 * GELU_SLOPE), lanes.constant(GELU_SLOPE))
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
                at = x + item * c, b + FLOAT_BYTES * c, y + item * c, s + item * c
                gelu_lanes(lanes, 1, False, half, False, at)
            for c in range(whole, width):
                at = x + item * c, b + FLOAT_BYTES * c, y + item * c, s + item * c
                gelu_lanes(1, 1, False, half, False, at)

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


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def add_bias_and_normalise(logits: Any, bias: Any, normaliser: Any, best: Any) -> None:
    """Add the bias; write each row's log of the summed exponentials, and its most likely token."""
    rows, vocabulary = logits.shape
    for r in range(rows):
        best[r] = 0
        for v in range(vocabulary):
            logits[r, v] += bias[v]
            if logits[r, v] > logits[r, best[r]]:
                best[r] = v
        peak = logits[r, best[r]]
        total = np.float32(0.0)
        for v in range(vocabulary):
            total += math.exp(logits[r, v] - peak)
        normaliser[r] = peak + math.log(total)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def answer_loss(
    logits: Any,  # (rows, vocabulary) in: without bias; out: the gradient of weight · summed loss
    bias: Any,  # (vocabulary,)
    tokens: Any,  # (batch, length)
    row: Any,  # (batch, positions) the row that predicts the next token, from `start` on
    start: int,
    weight: float,
    emphasis: float,  # how many other positions an answer's first one counts for
    loss: Any,  # (answer,) float64, the losses are added to it
    correct: Any,  # (answer,) float64, likewise
    bias_back: Any,  # (vocabulary,) likewise
) -> None:
    """Rows may serve several sequences, whose next tokens may differ."""
    rows, vocabulary = logits.shape
    batch, positions = row.shape
    normaliser = np.empty(rows, np.float32)
    best = np.empty(rows, np.int32)
    uses = np.zeros(rows, np.float32)
    first = np.float32(emphasis)
    add_bias_and_normalise(logits, bias, normaliser, best)
    for b in range(batch):
        for i in range(start, positions):
            r, target = row[b, i], tokens[b, i + 1]
            uses[r] += first if i == start else np.float32(1.0)
            loss[i - start] += normaliser[r] - logits[r, target]
            if best[r] == target:
                correct[i - start] += 1.0
    share = np.float32(weight)
    for r in range(rows):
        for v in range(vocabulary):
            logits[r, v] = share * uses[r] * math.exp(logits[r, v] - normaliser[r])
    for b in range(batch):
        for i in range(start, positions):
            logits[row[b, i], tokens[b, i + 1]] -= share * (first if i == start else np.float32(1.0))
    for r in range(rows):
        for v in range(vocabulary):
            bias_back[v] += logits[r, v]


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


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def number_pairs(tokens: Any, known: Any, token_of: Any, position_of: Any, pair: Any) -> int:
    """Number the (token, position) pairs that occur; returns how many there are.

    tokens: (batch, length), of which the first positions = pair.shape[1] are read; known: (vocabulary,
    positions) filled with -1; token_of, position_of: (≥ pairs,) out; pair: (batch, positions) out.
    """
    count = 0
    batch, positions = pair.shape
    for b in range(batch):
        for i in range(positions):
            token = tokens[b, i]
            number = known[token, i]
            if number < 0:
                number = count
                known[token, i] = number
                token_of[number] = token
                position_of[number] = i
                count += 1
            pair[b, i] = number
    return count


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def number_rows(tokens: Any, pair: Any, answer_start: int, full: Any, answer: Any) -> tuple[int, int]:
    """Number the different prefixes of sorted sequences; returns how many there are, and how many answer rows.

    tokens, pair: as above. `full` and `answer` are tuples of (first (batch,), the first position with a row of
    its own; row (batch, positions); below (≥ rows,), the row's number in the level below): all prefixes above
    the pairs, and those from `answer_start` on above all prefixes.
    """
    first, row, below = full
    answer_first, answer_row, answer_below = answer
    batch, positions = pair.shape
    rows, answer_rows = 0, 0
    for b in range(batch):
        shared = 0
        if b > 0:
            while shared < positions and tokens[b, shared] == tokens[b - 1, shared]:
                row[b, shared] = row[b - 1, shared]
                answer_row[b, shared] = answer_row[b - 1, shared]
                shared += 1
        first[b] = shared
        answer_first[b] = max(shared, answer_start)
        for i in range(shared, positions):
            row[b, i] = rows
            below[rows] = pair[b, i]
            answer_row[b, i] = -1
            if i >= answer_start:
                answer_row[b, i] = answer_rows
                answer_below[answer_rows] = rows
                answer_rows += 1
            rows += 1
    return rows, answer_rows
