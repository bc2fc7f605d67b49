"""Dropout between the products, and which attention weights are dropped; what and why: `models/dropout.py`.

A row's place is its number among all (sequence, position) of the batch: it decides what is dropped, however the
rows lie in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from internalize.models.dropout import ENTRIES, FIRST_FACTOR, GAMMA, SECOND_FACTOR
from internalize.models.kernels.rows import read, write

NOTHING: Any = np.float32(0.0)
STEP, FIRST, SECOND = np.uint64(GAMMA), np.uint64(FIRST_FACTOR), np.uint64(SECOND_FACTOR)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def draw_words(key: Any, row: int, words: Any) -> None:
    """A row's words, written to `words`, uint64; key: uint64."""
    count = words.shape[0]
    start = np.uint64(key) + np.uint64(row * count) * STEP
    for i in range(count):
        z = start + np.uint64(i) * STEP
        z = (z ^ (z >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
        words[i] = z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def mark_weights(
    key: Any,
    limit: int,  # numbers from -32,768 to 32,767 that are smaller are dropped
    place: Any,  # (rows,) of each query
    marks: Any,  # (≥ rows, positions, heads) out: bytes, 1 where a weight is kept
) -> None:
    positions, heads = marks.shape[1:]
    words = np.empty(-(-heads // ENTRIES), np.uint64)
    numbers = words.view(np.int16)
    smallest = np.int16(limit)
    for r in range(place.shape[0]):
        for j in range(place[r] % positions + 1):
            draw_words(key, place[r] * positions + j, words)
            for head in range(heads):
                marks[r, j, head] = numbers[head] >= smallest


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def drop_rows(
    key: Any,
    limit: int,
    scale: float,
    place: Any,  # (rows,)
    source: Any,  # (·, width)
    index: Any,  # (rows,) the row of source for each of ours
    bias: Any,  # (width,) added before
    out: Any,  # (≥ rows, width) may be `source` with index = 0, 1, …
) -> None:
    width = out.shape[1]
    words = np.empty(-(-width // ENTRIES), np.uint64)
    numbers = words.view(np.int16)
    smallest, factor = np.int16(limit), np.float32(scale)
    for r in range(place.shape[0]):
        draw_words(key, place[r], words)
        at = index[r]
        for c in range(width):
            kept = factor if numbers[c] >= smallest else NOTHING
            write(out, r, c, (read(source, at, c) + bias[c]) * kept)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def drop_back(
    key: Any, limit: int, scale: float, place: Any, back: Any, branch_back: Any, bias_back: Any
) -> None:
    """From the gradient behind `drop_rows`, float32, to that before it; adds the columns' sums to bias_back."""
    width = back.shape[1]
    words = np.empty(-(-width // ENTRIES), np.uint64)
    numbers = words.view(np.int16)
    smallest, factor = np.int16(limit), np.float32(scale)
    for r in range(place.shape[0]):
        draw_words(key, place[r], words)
        for c in range(width):
            kept = factor if numbers[c] >= smallest else NOTHING
            value = back[r, c] * kept
            bias_back[c] += value
            write(branch_back, r, c, value)
