"""Which rows of a batch are the same, so that each is computed once.

A position's activations depend on the tokens up to it alone. After sorting, sequences that begin alike are
neighbours, and each needs rows of its own only from the first token in which it differs from the one before.
"""

from __future__ import annotations

from typing import Any

from numba import njit


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
