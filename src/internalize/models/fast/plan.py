"""What has to be computed for a batch: its different prefixes, in tiles that stay in the cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from internalize.models.kernels.sharing import number_pairs, number_rows


@dataclass
class Level:
    """The rows that a layer writes for a tile."""

    count: int
    first: Any
    """(batch,) first position of a sequence with a row of its own."""
    row: Any
    """(batch, positions) the row of each place; rows from `first` on are the sequence's own."""
    below: Any
    """(count,) the row's number in the level that the layer reads."""


@dataclass
class TilePlan:
    """A few neighbouring sequences of the sorted batch."""

    tokens: Any
    """(batch, length)"""
    pair: Any
    """(batch, positions) row in the shard's table of (token, position) pairs."""
    full: Level
    """All prefixes, above the table."""
    answer: Level
    """Prefixes that predict an answer token, above `full`, or above the table in a model of one layer."""
    start: int
    """The first position that predicts an answer token."""


@dataclass
class ShardPlan:
    """One thread's part of the batch."""

    token_of: Any
    """(pairs,)"""
    position_of: Any
    """(pairs,)"""
    tiles: list[TilePlan]


def sorted_tokens(tokens: Tensor) -> Any:
    """(batch, length), sequences in the order of their tokens, so that shared prefixes are neighbours."""
    array = tokens.numpy()
    keys = np.ascontiguousarray(array, dtype=">u4").view(f"S{4 * array.shape[1]}")[:, 0]
    return array[np.argsort(keys, kind="stable")]


def plan_shard(tokens: Any, start: int, vocabulary: int, depth: int, tile: int) -> ShardPlan:
    """tokens: (batch, length) sorted; tile: sequences a tile."""
    batch, positions = tokens.shape[0], tokens.shape[1] - 1
    known = np.full((vocabulary, positions), -1, np.int32)
    token_of = np.empty(known.size, np.int32)
    position_of = np.empty(known.size, np.int32)
    pair = np.empty((batch, positions), np.int32)
    pairs = number_pairs(tokens, known, token_of, position_of, pair)
    tiles = [plan_tile(tokens[b : b + tile], pair[b : b + tile], start, depth) for b in range(0, batch, tile)]
    return ShardPlan(token_of[:pairs], position_of[:pairs], tiles)


def plan_tile(tokens: Any, pair: Any, start: int, depth: int) -> TilePlan:
    batch, positions = pair.shape
    full, answer = (
        (
            np.empty(batch, np.int32),
            np.empty((batch, positions), np.int32),
            np.empty(batch * positions, np.int32),
        )
        for _ in range(2)
    )
    rows, answer_rows = number_rows(tokens, pair, start, full, answer)
    below, answer_below = full[2][:rows], answer[2][:answer_rows]
    if depth == 1:
        answer_below = below[answer_below]
    return TilePlan(
        tokens,
        pair,
        Level(rows, full[0], full[1], below),
        Level(answer_rows, answer[0], answer[1], answer_below),
        start,
    )
