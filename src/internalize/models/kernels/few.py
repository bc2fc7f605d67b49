"""Between a tile's rows and the blocks that attention over few large heads multiplies: taking, putting, adding.

A block holds each sequence's heads one after the other, (sequences, heads, positions, head size), and begins at
position `start` of every sequence. Rows are found through index arrays, as in `kernels/attention.py`; before
its own first position a sequence has nothing in the block but zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from internalize.models.kernels.rows import SUMS, read, write


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def turn(x: Any, angles: Any, sign: Any) -> None:
    """Turn the pairs (c, c + size/2) in place by the angles whose cosines and then sines are given."""
    half = x.shape[0] // 2
    for c in range(half):
        cos, sin = angles[c], sign * angles[half + c]
        low, high = x[c], x[half + c]
        x[c] = low * cos - high * sin
        x[half + c] = low * sin + high * cos


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def take_heads(
    source: Any,  # (rows, ·) float32 or bfloat16
    column: int,  # where the heads begin in a row
    bias: Any,  # (width,) of the product that made the rows
    row: Any,  # (sequences, positions)
    first: Any,  # (sequences,) rows are a sequence's own from here on
    start: int,
    scale: Any,
    angles: Any,  # (positions, size) cosines and sines
    rotary: bool,
    block: Any,  # out: (sequences, heads, positions - start, size)
) -> None:
    """block = scale · (rows + bias), turned by their positions' angles if positions are rotary."""
    sequences, heads, count, size = block.shape
    for b in range(sequences):
        for h in range(heads):
            place = h * size
            for i in range(count):
                if start + i < first[b]:
                    block[b, h, i] = np.float32(0.0)
                    continue
                r = row[b, start + i]
                for c in range(size):
                    block[b, h, i, c] = scale * (read(source, r, column + place + c) + bias[place + c])
                if rotary:
                    turn(block[b, h, i], angles[start + i], np.float32(1.0))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def put_heads(block: Any, row: Any, first: Any, start: int, out: Any) -> None:
    """Write a block's own rows to out, (rows, width), float32 or bfloat16."""
    sequences, heads, count, size = block.shape
    for b in range(sequences):
        for i in range(max(first[b] - start, 0), count):
            r = row[b, start + i]
            for h in range(heads):
                for c in range(size):
                    write(out, r, h * size + c, block[b, h, i, c])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def add_heads(
    block: Any,  # (sequences, heads, positions - start, size) gradients of what `take_heads` gave; consumed
    row: Any,
    first: Any,
    start: int,
    scale: Any,
    angles: Any,
    rotary: bool,
    rows_back: Any,  # (rows, ·) float32, added to
    column: int,
    bias_back: Any,  # (width,) added to
) -> None:
    """The way back through `take_heads`, in the order of sequences and positions."""
    sequences, heads, count, size = block.shape
    for b in range(sequences):
        for i in range(max(first[b] - start, 0), count):
            r = row[b, start + i]
            for h in range(heads):
                place = h * size
                if rotary:
                    turn(block[b, h, i], angles[start + i], np.float32(-1.0))
                for c in range(size):
                    value = scale * block[b, h, i, c]
                    rows_back[r, column + place + c] += value
                    bias_back[place + c] += value


@njit(cache=True, nogil=True, fastmath=SUMS)  # type: ignore[untyped-decorator]
def softmax_back(weights: Any, slope: Any) -> None:
    """From the weights' gradients to the scores', in place; both (blocks, queries, keys)."""
    blocks, queries, keys = weights.shape
    for b in range(blocks):
        for i in range(queries):
            mean = np.float32(0.0)
            for j in range(keys):
                mean += weights[b, i, j] * slope[b, i, j]
            for j in range(keys):
                slope[b, i, j] = weights[b, i, j] * (slope[b, i, j] - mean)
