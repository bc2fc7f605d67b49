"""Which rows of a batch have to be computed, and fused attention over them.

A plan finds the batch's different prefixes and puts them into tiles that stay in the cache. Attention then
reads and writes rows by the plan's numbers: the kernels' long argument lists live here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from internalize.models.config import ModelConfig
from internalize.models.dropout import Drops
from internalize.models.fast.weights import Buffer
from internalize.models.gpt2 import ROTARY_BASE
from internalize.models.kernels.attention import backward_kernel, forward_kernel, head_groups, scratch_floats
from internalize.models.kernels.rows import number_pairs, number_rows

if TYPE_CHECKING:
    from jaxtyping import Int


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
    place: Any = None
    """(count,) with dropout: the row's number among all (sequence, position) of the batch. It decides what is
    dropped in the row."""


@dataclass
class TilePlan:
    """A few neighbouring sequences of the sorted batch."""

    tokens: Any
    """(batch, length) token ids."""
    pair: Any
    """(batch, positions) row in the shard's table of (token, position) pairs."""
    full: Level
    """All prefixes, above the table."""
    answer: Level
    """Prefixes that predict an answer token, above `full`, or above the table in a model of one layer."""
    start: int
    """The first position that predicts an answer token."""
    drops: Drops | None = None
    """What is dropped, in a model with dropout."""


@dataclass
class ShardPlan:
    """One thread's part of the batch."""

    token_of: Any
    """(pairs,) the token of each pair."""
    position_of: Any
    """(pairs,) the position of each pair."""
    tiles: list[TilePlan]


def sorted_tokens(tokens: Int[Tensor, "batch length"]) -> Any:
    """(batch, length), sequences in the order of their tokens, so that shared prefixes are neighbours."""
    array = tokens.numpy()
    keys = np.ascontiguousarray(array, dtype=">u4").view(f"S{4 * array.shape[1]}")[:, 0]
    return array[np.argsort(keys, kind="stable")]


def plan_shard(tokens: Any, start: int, vocabulary: int, depth: int, tile: int) -> ShardPlan:
    """tokens: (batch, length) sorted; tile: number of sequences in each tile."""
    batch, positions = tokens.shape[0], tokens.shape[1] - 1
    known = np.full((vocabulary, positions), -1, np.int32)
    token_of = np.empty(known.size, np.int32)
    position_of = np.empty(known.size, np.int32)
    pair = np.empty((batch, positions), np.int32)
    pairs = number_pairs(tokens, known, token_of, position_of, pair)
    tiles = [plan_tile(tokens[b : b + tile], pair[b : b + tile], start, depth) for b in range(0, batch, tile)]
    return ShardPlan(token_of[:pairs], position_of[:pairs], tiles)


def plan_with_dropout(
    tokens: Any, start: int, vocabulary: int, tile: int, before: int, drops: Drops
) -> ShardPlan:
    """The same for a model with dropout: no sequences share rows, because each drops entries of its own.

    tokens: in any order; before: how many sequences of the batch lie before the shard's.
    """
    plan = plan_shard(tokens, start, vocabulary, depth=2, tile=tile)
    positions = tokens.shape[1] - 1
    for own in plan.tiles:
        batch = len(own.tokens)
        row = np.arange(batch * positions, dtype=np.int32).reshape(batch, positions)
        place = row.astype(np.int64) + before * positions
        answers = row[:, start:]
        answer_row = np.full_like(row, -1)
        answer_row[:, start:] = np.arange(answers.size, dtype=np.int32).reshape(answers.shape)
        firsts = np.zeros(batch, np.int32), np.full(batch, start, np.int32)
        own.full = Level(row.size, firsts[0], row, own.pair.ravel(), place.ravel())
        own.answer = Level(answers.size, firsts[1], answer_row, answers.ravel(), place[:, start:].ravel())
        own.drops = drops
        before += batch
    return plan


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


@dataclass
class Products:
    """Where a layer's queries, keys and values lie, and the same places in their gradients (float32)."""

    q: Buffer
    kv: Buffer
    k_column: int
    v_column: int
    query_row: Any
    key_row: Any
    q_back: Any = None
    kv_back: Any = None


@dataclass
class Attended:
    """What attention writes: mixed values (rows, width), and for each query and head two numbers."""

    out: Buffer
    shift: Buffer
    inverse: Buffer
    marks: Any = field(default_factory=lambda: np.zeros((0, 0, 0), np.uint8))
    """(rows, positions, heads) with dropout: 0 where a query's weight is dropped."""
    scale: Any = field(default_factory=lambda: np.ones(1, np.float32))
    """(1,) with dropout: what the weights that are kept are multiplied by."""
    kept: Any = None
    """What `FewHeads` keeps for the backward pass instead of the two numbers."""


class FusedAttention:
    """Attention of one model shape with its own scratch memory, hence for one thread."""

    def __init__(self, config: ModelConfig, context: int, half: bool, drops: bool = False) -> None:
        rotary = config.positions == "rotary"
        self.size = config.head_size
        self.groups = head_groups(config.heads)
        self.forward_kernels: list[Callable[..., None]] = []
        self.backward_kernels: list[Callable[..., None]] = []
        for _, lanes, _ in self.groups:
            self.forward_kernels.append(forward_kernel(lanes, self.size, rotary, half, drops))
            self.backward_kernels.append(backward_kernel(lanes, self.size, rotary, half, drops))
        self.angles = rotary_angles(context, self.size) if rotary else np.zeros((1, 1), np.float32)
        self.scratch = np.zeros(0, np.float32)

    def forward(self, source: Products, bias: Any, level: Level, to: Attended) -> None:
        """bias: (3 width,) of the product that made queries, keys and values."""
        arguments = self._arguments(source, bias, level, to)
        for (head, _, count), kernel in zip(self.groups, self.forward_kernels, strict=True):
            kernel(head, count, *arguments)

    def backward(
        self, source: Products, bias: Any, level: Level, saved: Attended, out_back: Any, bias_back: Any
    ) -> None:
        """Adds to the gradients in `source` and to bias_back."""
        arguments = self._arguments(source, bias, level, saved)
        for (head, _, count), kernel in zip(self.groups, self.backward_kernels, strict=True):
            kernel(head, count, *arguments, out_back, source.q_back, source.kv_back, bias_back)

    def _arguments(self, source: Products, bias: Any, level: Level, to: Attended) -> tuple[Any, ...]:
        need = scratch_floats(source.key_row.shape[1], self.size)
        if self.scratch.size < need:
            self.scratch = np.zeros(need, np.float32)
        return (
            source.q.array,
            source.kv.array,
            source.k_column,
            source.v_column,
            bias,
            self.angles,
            source.query_row,
            source.key_row,
            level.first,
            level.row,
            to.out.array,
            to.shift.array,
            to.inverse.array,
            to.marks,
            to.scale,
            self.scratch,
        )


def rotary_angles(positions: int, size: int) -> Any:
    """(positions, size): the cosines of the half's angles, then the sines; float32 as in the plain path."""
    half = size // 2
    frequency = np.float32(ROTARY_BASE) ** (-np.arange(half, dtype=np.float32) / np.float32(half))
    angle = np.arange(positions, dtype=np.float32)[:, None] * frequency
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
