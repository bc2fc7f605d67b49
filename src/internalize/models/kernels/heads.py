"""The instructions of attention for one group of heads: one query forward, one or two keys backward.

A vector's lanes are heads. In scratch memory a group's numbers lie as (position, component, lane).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numba.core import cgutils

from internalize.models.kernels.lanes import FLOAT_BYTES, Lanes, elements, staged, zero

LOG2_E = math.log2(math.e)
# Scores within ± this need no common shift: neither 2**score nor any sum or product of it leaves float32.
SAFE_SCORE = 40.0
# With two keys at once a query's row is fetched half as often, if their vectors still fit the registers.
LARGEST_PAIRED_HEAD = 2


def turned(lanes: Lanes, x: list[Any], angles: Any, *, back: bool) -> list[Any]:
    """The pairs (c, c + size/2) turned by the angles whose cosines and then sines lie at `angles`."""
    half = len(x) // 2
    pointer = elements(lanes, angles)
    low, high = [], []
    for c in range(half):
        cos = lanes.broadcast(lanes.builder.load(lanes.builder.gep(pointer, [angles.type(c)])))
        sin = lanes.broadcast(lanes.builder.load(lanes.builder.gep(pointer, [angles.type(half + c)])))
        if back:
            sin = lanes.sub(lanes.constant(0.0), sin)
        low.append(lanes.sub(lanes.mul(x[c], cos), lanes.mul(x[half + c], sin)))
        high.append(lanes.fma(x[c], sin, lanes.mul(x[half + c], cos)))
    return low + high


def load_biased(lanes: Lanes, size: int, half: bool, angles: Any | None, row: Any, bias: Any) -> list[Any]:
    """One row's heads plus the packed bias of the product that made the row, turned if angles are given."""
    x = lanes.load_heads(elements(lanes, row, half), zero(row), size)
    b = load_vectors(lanes, elements(lanes, bias), places(lanes, zero(bias), size))
    x = [lanes.add(*both) for both in zip(x, b, strict=True)]
    return x if angles is None else turned(lanes, x, angles, back=False)


def load_query(lanes: Lanes, size: int, half: bool, angles: Any | None, row: Any, bias: Any) -> list[Any]:
    """A query, scaled so that scores are logarithms to base 2."""
    scale = lanes.constant(LOG2_E / math.sqrt(size))
    return [lanes.mul(x, scale) for x in load_biased(lanes, size, half, angles, row, bias)]


def add_heads(lanes: Lanes, x: Sequence[Any], row: Any, sums: Any) -> None:
    """Add to a row's gradient, and to the group's sums (component, lane) for the bias."""
    before = lanes.load_heads(elements(lanes, row), zero(row), len(x))
    lanes.store_heads(
        [lanes.add(*both) for both in zip(before, x, strict=True)], elements(lanes, row), zero(row)
    )
    add_vectors(lanes, x, elements(lanes, sums), places(lanes, zero(sums), len(x)))


def places(lanes: Lanes, start: Any, count: int) -> list[Any]:
    """Where `count` vectors lie one after the other."""
    return [lanes.builder.add(start, start.type(c * lanes.count)) for c in range(count)]


def load_vectors(lanes: Lanes, pointer: Any, at: Sequence[Any]) -> list[Any]:
    return [lanes.load(pointer, place) for place in at]


def store_vectors(lanes: Lanes, x: Sequence[Any], pointer: Any, at: Sequence[Any]) -> None:
    for value, place in zip(x, at, strict=True):
        lanes.store(value, pointer, place)


def add_vectors(lanes: Lanes, x: Sequence[Any], pointer: Any, at: Sequence[Any]) -> None:
    for value, place in zip(x, at, strict=True):
        lanes.store(lanes.add(value, lanes.load(pointer, place)), pointer, place)


def emit_pack(lanes: Lanes, size: int, rotary: bool, half: bool, drops: bool, *arguments: Any) -> None:
    """Copy one row's heads, with bias and turned, to scratch: (row, bias, angles, scratch)."""
    del drops
    row, bias, angles, scratch = arguments
    x = load_biased(lanes, size, half, angles if rotary else None, row, bias)
    store_vectors(lanes, x, elements(lanes, scratch), places(lanes, zero(scratch), size))


def emit_pack_bias(lanes: Lanes, size: int, rotary: bool, half: bool, drops: bool, *arguments: Any) -> None:
    """Copy a group's part of a bias to scratch: (bias, scratch)."""
    del rotary, half, drops
    bias, scratch = arguments
    x = lanes.load_heads(elements(lanes, bias), zero(bias), size)
    store_vectors(lanes, x, elements(lanes, scratch), places(lanes, zero(scratch), size))


def emit_extent(lanes: Lanes, size: int, rotary: bool, half: bool, drops: bool, *arguments: Any) -> None:
    """The largest size of every component over the packed keys: (keys, number of keys, out)."""
    del rotary, half, drops
    keys, count, out = arguments
    k = elements(lanes, keys)

    def widen(j: Any, largest: list[Any]) -> list[Any]:
        key = load_vectors(lanes, k, places(lanes, lanes.builder.mul(j, j.type(size * lanes.count)), size))
        return [lanes.maximum(old, lanes.absolute(x)) for old, x in zip(largest, key, strict=True)]

    largest = lanes.loop(zero(keys), count, [lanes.constant(0.0)] * size, widen)
    store_vectors(lanes, largest, elements(lanes, out), places(lanes, zero(out), size))


def emit_attend(lanes: Lanes, size: int, rotary: bool, half: bool, drops: bool, *arguments: Any) -> None:
    """One query over the keys before it.

    Arguments: addresses of (query row, its bias, angles, packed keys, packed values, the keys' extent), the
    number of keys, addresses of (output row, common shift of the scores, one over the sum); and for dropout the
    address of its marks, bytes from one key's marks to the next, and address of the scale.
    """
    query, bias, angles, keys, values, extent, seen, out, shift_at, inverse_at, *dropout = arguments
    marks, stride, scale_at = dropout
    q = load_query(lanes, size, half, angles if rotary else None, query, bias)
    k, v = elements(lanes, keys), elements(lanes, values)
    shift = common_shift(lanes, q, k, elements(lanes, extent), seen)

    def mix(j: Any, carried: list[Any]) -> list[Any]:
        at = places(lanes, lanes.builder.mul(j, j.type(size * lanes.count)), size)
        weight = lanes.exp2(lanes.dot(q, load_vectors(lanes, k, at), shift))
        value, total = load_vectors(lanes, v, at), lanes.add(carried[0], weight)
        if drops:
            weight = lanes.where_marked(advance(lanes, marks, stride, j), weight)
        mixed = [lanes.fma(weight, x, old) for x, old in zip(value, carried[1:], strict=True)]
        return [total, *mixed]

    total, *mixed = lanes.loop(zero(seen), seen, [lanes.constant(0.0)] * (size + 1), mix)
    inverse = lanes.div(lanes.constant(1.0), total)
    factor = lanes.mul(inverse, load_scale(lanes, scale_at)) if drops else inverse
    lanes.store_heads([lanes.mul(x, factor) for x in mixed], elements(lanes, out, half), zero(out))
    lanes.store(shift, elements(lanes, shift_at), zero(out))
    lanes.store(inverse, elements(lanes, inverse_at), zero(out))


def advance(lanes: Lanes, address: Any, stride: Any, count: Any) -> Any:
    """The address `count` strides further on."""
    return lanes.builder.add(address, lanes.builder.mul(count, stride))


def load_scale(lanes: Lanes, at: Any) -> Any:
    return lanes.broadcast(lanes.builder.load(elements(lanes, at)))


def common_shift(lanes: Lanes, q: list[Any], k: Any, extent: Any, seen: Any) -> Any:
    """What is added to a query's scores: minus the greatest, or zero where the keys' extent is small."""
    slot = cgutils.alloca_once_value(lanes.builder, lanes.constant(0.0))
    reach = load_vectors(lanes, extent, places(lanes, zero(seen), len(q)))
    bound = lanes.dot([lanes.absolute(x) for x in q], reach)
    with lanes.builder.if_then(lanes.any_above(bound, SAFE_SCORE), likely=False):

        def peak(j: Any, carried: list[Any]) -> list[Any]:
            at = places(lanes, lanes.builder.mul(j, j.type(len(q) * lanes.count)), len(q))
            return [lanes.maximum(carried[0], lanes.dot(q, load_vectors(lanes, k, at)))]

        (greatest,) = lanes.loop(zero(seen), seen, [lanes.constant(-math.inf)], peak)
        lanes.builder.store(lanes.sub(lanes.constant(0.0), greatest), slot)
    return lanes.builder.load(slot)


# Backward, a query's record in scratch: the query, its output's gradient, its own gradient (`size` vectors
# each), minus the weighted mean of the slopes, and the common shift of the scores.


def record_vectors(size: int) -> int:
    return 3 * size + 2


def emit_pack_query(lanes: Lanes, size: int, rotary: bool, half: bool, drops: bool, *arguments: Any) -> None:
    """Write a query's record: (its row, bias, angles, output row, its gradient, shift, inverse, record, scale).

    With the weights' common factor moved into the output's gradient, the loops work on 2**score alone. The
    scale of the weights that dropout keeps belongs to that factor.
    """
    query, bias, angles, out, out_back, shift_at, inverse_at, record, scale_at = arguments
    q = load_query(lanes, size, half, angles if rotary else None, query, bias)
    inverse = lanes.load(elements(lanes, inverse_at), zero(out))
    o = lanes.load_heads(elements(lanes, out, half), zero(out), size)
    g = lanes.load_heads(elements(lanes, out_back, half), zero(out), size)
    g = [lanes.mul(x, inverse) for x in g]
    mean = lanes.sub(lanes.constant(0.0), lanes.dot(g, o))
    if drops:
        scale = load_scale(lanes, scale_at)
        g = [lanes.mul(x, scale) for x in g]
    shift = lanes.load(elements(lanes, shift_at), zero(out))
    everything = [*q, *g, *([lanes.constant(0.0)] * size), mean, shift]
    store_vectors(lanes, everything, elements(lanes, record), places(lanes, zero(record), len(everything)))


def emit_unpack_query(lanes: Lanes, size: int, rotary: bool, half: bool, drops: bool, *arguments: Any) -> None:
    """Add the gradient in a query's record to its row's: (record, angles, row gradient, bias sums)."""
    del half, drops  # gradients are summed in float32
    record, angles, row_back, sums = arguments
    at = places(lanes, zero(record), 3 * size)[2 * size :]
    scale = lanes.constant(1 / math.sqrt(size))
    x = [lanes.mul(value, scale) for value in load_vectors(lanes, elements(lanes, record), at)]
    add_heads(lanes, turned(lanes, x, angles, back=True) if rotary else x, row_back, sums)


def emit_keys_back(lanes: Lanes, size: int, rotary: bool, half: bool, drops: bool, *arguments: Any) -> None:
    """The gradients of one key and value, or of two neighbouring ones, from all queries that see them.

    The weights are recomputed from the scores: that is cheaper than to store and fetch them.
    Arguments: (addresses of records, number of queries, bias of keys, bias of values, bias sums); for dropout
    the address of the first query's marks for the first key, bytes to the next query's and to the next key's;
    and for each key: number of the first query that sees it, addresses of (key row, value row, angles, key's
    row gradient, value's row gradient).
    """
    records, count, k_bias, v_bias, sums, first_marks, query_stride, key_stride = arguments[:8]
    keys = [arguments[8:14], arguments[14:]] if len(arguments) > 14 else [arguments[8:]]
    pointer = elements(lanes, records)
    k = [load_biased(lanes, size, half, key[3] if rotary else None, key[1], k_bias) for key in keys]
    v = [load_biased(lanes, size, half, None, key[2], v_bias) for key in keys]
    gradients = [lanes.constant(0.0)] * (2 * size)
    marks = [advance(lanes, first_marks, key_stride, key_stride.type(n)) for n in range(len(keys))]

    def see(i: Any, carried: list[Any], which: Sequence[int]) -> list[Any]:
        at = places(
            lanes, lanes.builder.mul(i, i.type(record_vectors(size) * lanes.count)), record_vectors(size)
        )
        record = load_vectors(lanes, pointer, at)
        q, g, q_back, mean, shift = record[:size], record[size : 2 * size], record[2 * size : -2], *record[-2:]
        following: list[list[Any]] = []
        for n in which:
            weight = kept = lanes.exp2(lanes.dot(q, k[n], shift))
            if drops:
                own = advance(lanes, marks[n], query_stride, i)
                kept = lanes.where_marked(own, weight)
                along = lanes.add(lanes.where_marked(own, lanes.dot(g, v[n])), mean)
            else:
                along = lanes.dot(g, v[n], mean)
            slope = lanes.mul(weight, along)
            old = carried[2 * size * len(following) :]
            k_back = [lanes.fma(slope, q[c], old[c]) for c in range(size)]
            v_back = [lanes.fma(kept, g[c], old[size + c]) for c in range(size)]
            q_back = [lanes.fma(slope, k[n][c], q_back[c]) for c in range(size)]
            following.append([*k_back, *v_back])
        store_vectors(lanes, q_back, pointer, at[2 * size : 3 * size])
        return [x for both in following for x in both]

    # The first of two keys is seen by one query more, perhaps.
    joint = keys[-1][0]
    gradients = lanes.loop(keys[0][0], joint, gradients, lambda i, x: see(i, x, [0]))
    gradients += [lanes.constant(0.0)] * (2 * size * (len(keys) - 1))
    gradients = lanes.loop(joint, count, gradients, lambda i, x: see(i, x, range(len(keys))))
    for n, key in enumerate(keys):
        own = gradients[2 * size * n : 2 * size * (n + 1)]
        k_back = [lanes.mul(x, lanes.constant(1 / LOG2_E)) for x in own[:size]]  # queries were in base 2
        k_back = turned(lanes, k_back, key[3], back=True) if rotary else k_back
        vectors = sums.type(FLOAT_BYTES * size * lanes.count)
        k_sums = lanes.builder.add(sums, vectors)
        add_heads(lanes, k_back, key[4], k_sums)
        add_heads(lanes, own[size:], key[5], lanes.builder.add(k_sums, vectors))


def emit_add_sums(lanes: Lanes, size: int, rotary: bool, half: bool, drops: bool, *arguments: Any) -> None:
    """Add a group's sums to the gradient of the bias, and clear them: (sums, bias gradient)."""
    del rotary, half, drops
    sums, bias_back = arguments
    pointer, at = elements(lanes, sums), places(lanes, zero(sums), size)
    x = load_vectors(lanes, pointer, at)
    store_vectors(lanes, [lanes.constant(0.0)] * size, pointer, at)
    before = lanes.load_heads(elements(lanes, bias_back), zero(sums), size)
    after = [lanes.add(*both) for both in zip(before, x, strict=True)]
    lanes.store_heads(after, elements(lanes, bias_back), zero(sums))


pack = staged(emit_pack)
pack_bias = staged(emit_pack_bias)
extent = staged(emit_extent)
attend = staged(emit_attend)
pack_query = staged(emit_pack_query)
unpack_query = staged(emit_unpack_query)
keys_back = staged(emit_keys_back)
add_sums = staged(emit_add_sums)
