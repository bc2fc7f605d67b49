"""Fused causal attention for many small heads, forward and backward.

The lanes of a vector are heads, so that causality costs nothing (a query's loop simply ends at its own
position), nothing is ever summed across lanes, and a group of heads stays in the first-level cache.

Rows are found through index arrays, so that a row may serve several sequences: the first layer's table of
(token, position) pairs, and prefixes that sequences of a batch share. With dropout no two sequences share a
row, and a sequence's rows follow one another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from internalize.models.kernels.heads import (
    LARGEST_PAIRED_HEAD,
    add_sums,
    attend,
    extent,
    keys_back,
    pack,
    pack_bias,
    pack_query,
    record_vectors,
    unpack_query,
)
from internalize.models.kernels.lanes import FLOAT_BYTES, HALF_BYTES, emitters_stamp, native_lanes


def head_groups(heads: int) -> list[tuple[int, int, int]]:
    """How the heads are spread over vectors: (first head, lanes, groups) for full vectors and for the rest."""
    lanes = native_lanes()
    full, rest = divmod(heads, lanes)
    groups = [(0, lanes, full), (full * lanes, rest, 1)]
    return [group for group in groups if group[1] * group[2] > 0]


def scratch_floats(positions: int, size: int) -> int:
    """How much scratch memory either pass needs."""
    return (positions * record_vectors(size) + 6 * size) * native_lanes()


@njit(nogil=True)  # type: ignore[untyped-decorator]
def key_addresses(key: int, first: int, at: int, bases: Any) -> Any:
    """What `keys_back` wants to know of one key; first: the first query; at: where the key's row begins.

    bases: addresses of the product, of its gradient and of the angles, bytes of one number of the product and
    of a position's angles, and where in a row keys and values begin.
    """
    product, back, angles, item, turn, k_column, v_column = bases
    k_at, v_at = at + k_column, at + v_column
    rows = product + item * k_at, product + item * v_at
    return max(key - first, 0), rows, angles + turn * key, back + FLOAT_BYTES * k_at, back + FLOAT_BYTES * v_at


@njit(nogil=True)  # type: ignore[untyped-decorator]
def mark_addresses(marks: Any, row: int, key: int, head: int) -> Any:
    """Where a query's marks for a key begin, and how many bytes further the next query's and the next key's."""
    rows, keys = marks.strides[0], marks.strides[1]
    return marks.ctypes.data + row * rows + key * keys + head, rows, keys


@cache
def forward_kernel(lanes: int, size: int, rotary: bool, half: bool, drops: bool) -> Callable[..., None]:
    """The compiled forward pass for groups of `lanes` heads of the given size."""
    step = FLOAT_BYTES * lanes * size
    item = HALF_BYTES if half else FLOAT_BYTES
    emitted = emitters_stamp()

    @njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
    def forward(
        first_head: int,
        groups: int,
        q: Any,  # (rows, ·) the product that begins with the queries
        kv: Any,  # (rows, ·) the product that holds keys and values
        k_column: int,
        v_column: int,
        bias: Any,  # (3 width,) of queries, keys, values
        angles: Any,  # (positions, size) cosines and sines; not read without rotary positions
        query_row: Any,  # (batch, positions) row of q
        key_row: Any,  # (batch, positions) row of kv
        first_query: Any,  # (batch,) the queries of a sequence start here
        out_row: Any,  # (batch, positions) row of out
        out: Any,  # (rows, width)
        shift: Any,  # (rows, heads) what was added to each query's scores
        inverse: Any,  # (rows, heads) one over the sum of its weights
        marks: Any,  # (rows, positions, heads) bytes, 0 where a weight is dropped; not read without dropout
        scale: Any,  # (1,) what the weights that are kept are multiplied by; likewise
        scratch: Any,  # (≥ scratch_floats(positions, size),)
    ) -> None:
        if emitted == 0:  # never; see `emitters_stamp`
            return
        batch, positions = key_row.shape
        width = out.shape[1]
        q_bias = scratch.ctypes.data
        k_bias, v_bias = q_bias + step, q_bias + 2 * step
        keys = q_bias + 3 * step
        values = keys + positions * step
        reach = values + positions * step
        for b in range(batch):
            if first_query[b] >= positions:
                continue
            for group in range(groups):
                head = first_head + group * lanes
                place = head * size
                for part in range(3):
                    source = bias.ctypes.data + FLOAT_BYTES * (part * width + place)
                    pack_bias(lanes, size, rotary, half, drops, (source, q_bias + part * step))
                for j in range(positions):
                    row = key_row[b, j] * kv.shape[1] + place
                    k_at = kv.ctypes.data + item * (row + k_column)
                    v_at = kv.ctypes.data + item * (row + v_column)
                    turn = angles.ctypes.data + FLOAT_BYTES * j * size
                    pack(lanes, size, rotary, half, drops, (k_at, k_bias, turn, keys + j * step))
                    pack(lanes, size, False, half, drops, (v_at, v_bias, turn, values + j * step))
                extent(lanes, size, rotary, half, drops, (keys, positions, reach))
                for i in range(first_query[b], positions):
                    q_at = q.ctypes.data + item * (query_row[b, i] * q.shape[1] + place)
                    turn = angles.ctypes.data + FLOAT_BYTES * i * size
                    out_at = out.ctypes.data + item * (out_row[b, i] * width + place)
                    saved = FLOAT_BYTES * (out_row[b, i] * shift.shape[1] + head)
                    kept = shift.ctypes.data + saved, inverse.ctypes.data + saved
                    own = q_at, q_bias, turn, (keys, values, reach, i + 1), out_at, kept
                    marked, _, stride = mark_addresses(marks, out_row[b, i], 0, head)
                    dropout = marked, stride, scale.ctypes.data
                    attend(lanes, size, rotary, half, drops, (own, dropout))

    compiled: Callable[..., None] = forward
    return compiled


@cache
def backward_kernel(lanes: int, size: int, rotary: bool, half: bool, drops: bool) -> Callable[..., None]:
    """The compiled backward pass. Adds to q_back, kv_back and bias_back, which have their values' shapes."""
    step = FLOAT_BYTES * lanes * size
    record = FLOAT_BYTES * lanes * record_vectors(size)
    item = HALF_BYTES if half else FLOAT_BYTES
    emitted = emitters_stamp()
    turned = FLOAT_BYTES * size
    paired = size <= LARGEST_PAIRED_HEAD

    @njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
    def backward(
        first_head: int,
        groups: int,
        q: Any,
        kv: Any,
        k_column: int,
        v_column: int,
        bias: Any,
        angles: Any,
        query_row: Any,
        key_row: Any,
        first_query: Any,
        out_row: Any,
        out: Any,
        shift: Any,
        inverse: Any,
        marks: Any,
        scale: Any,
        scratch: Any,
        out_back: Any,  # (rows, width) gradient of out
        q_back: Any,  # float32, as all gradients that are summed
        kv_back: Any,
        bias_back: Any,
    ) -> None:
        if emitted == 0:  # never; see `emitters_stamp`
            return
        batch, positions = key_row.shape
        width = out.shape[1]
        sums = scratch.ctypes.data
        q_bias = sums + 3 * step
        k_bias, v_bias = q_bias + step, q_bias + 2 * step
        records = q_bias + 3 * step
        scratch[: 3 * lanes * size] = np.float32(0.0)
        bases = kv.ctypes.data, kv_back.ctypes.data, angles.ctypes.data, item, turned, k_column, v_column
        single = positions % 2 if paired else positions
        for b in range(batch):
            first, queries = first_query[b], positions - first_query[b]
            if queries <= 0:
                continue
            for group in range(groups):
                head = first_head + group * lanes
                place = head * size
                for part in range(3):
                    source = bias.ctypes.data + FLOAT_BYTES * (part * width + place)
                    pack_bias(lanes, size, rotary, half, drops, (source, q_bias + part * step))
                for i in range(first, positions):
                    q_at = q.ctypes.data + item * (query_row[b, i] * q.shape[1] + place)
                    turn = angles.ctypes.data + FLOAT_BYTES * i * size
                    at = item * (out_row[b, i] * width + place)
                    saved = FLOAT_BYTES * (out_row[b, i] * shift.shape[1] + head)
                    kept = shift.ctypes.data + saved, inverse.ctypes.data + saved
                    outs = out.ctypes.data + at, out_back.ctypes.data + at
                    own = q_at, q_bias, turn, outs, kept, records + (i - first) * record
                    pack_query(lanes, size, rotary, half, drops, (own, scale.ctypes.data))
                common = records, queries, k_bias, v_bias, sums
                for j in range(single):
                    key = key_addresses(j, first, key_row[b, j] * kv.shape[1] + place, bases)
                    marked = mark_addresses(marks, out_row[b, first], j, head)
                    keys_back(lanes, size, rotary, half, drops, (common, marked, key))
                if paired:
                    for j in range(single, positions, 2):
                        key = key_addresses(j, first, key_row[b, j] * kv.shape[1] + place, bases)
                        other = key_addresses(j + 1, first, key_row[b, j + 1] * kv.shape[1] + place, bases)
                        marked = mark_addresses(marks, out_row[b, first], j, head)
                        keys_back(lanes, size, rotary, half, drops, (common, marked, key, other))
                for i in range(first, positions):
                    q_to = q_back.ctypes.data + FLOAT_BYTES * (query_row[b, i] * q.shape[1] + place)
                    turn = angles.ctypes.data + FLOAT_BYTES * i * size
                    own_back = records + (i - first) * record, turn, q_to, sums
                    unpack_query(lanes, size, rotary, half, drops, own_back)
                for part in range(3):
                    to = bias_back.ctypes.data + FLOAT_BYTES * (part * width + place)
                    add_sums(lanes, size, rotary, half, drops, (sums + part * step, to))

    compiled: Callable[..., None] = backward
    return compiled
