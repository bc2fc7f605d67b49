"""Attention over few large heads by batched products, in the place of `FusedAttention`.

That one has its heads side by side in a vector, most of which one or two heads leave empty. Here a tile's
queries, keys and values are gathered into blocks, (sequences · heads, positions, head size), which torch
multiplies: some queries at a time with all keys up to the last of them, later ones being masked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from internalize.models.config import ModelConfig
from internalize.models.fast.attention import Attended, FusedAttention, Level, Products, rotary_angles
from internalize.models.kernels.few import add_heads, put_heads, softmax_back, take_heads
from internalize.models.path import rule

if TYPE_CHECKING:
    from jaxtyping import Float

# Enough for the products, few enough that little is masked: sequences of 2,002 tokens are trained 1.7 times as
# fast as with all queries at once.
QUERIES_AT_ONCE = 64
ONE = np.float32(1.0)


class Space:
    """Memory that grows to what is asked of it and is used again."""

    def __init__(self) -> None:
        self.memory = torch.empty(0)

    def of(self, *shape: int) -> Float[Tensor, " *shape"]:
        """Uninitialised."""
        need = math.prod(shape)
        if self.memory.numel() < need:
            self.memory = torch.empty(need)
        return self.memory[:need].view(shape)


@dataclass
class Asking:
    """The sequences of a tile that have rows of their own in a level, and where these lie."""

    query_row: Any
    key_row: Any
    out_row: Any
    first: Any
    """(sequences,) as in `Level`."""
    start: int
    """The least of `first`: the blocks of queries begin here."""

    @classmethod
    def of(cls, source: Products, level: Level) -> Asking:
        rows = source.query_row, source.key_row, level.row, level.first
        positions = source.key_row.shape[1]
        some = level.first < positions
        query_row, key_row, out_row, first = rows if some.all() else (array[some] for array in rows)
        return cls(query_row, key_row, out_row, first, int(first.min(initial=positions)))

    @property
    def queries(self) -> tuple[Any, Any, int]:
        return self.query_row, self.first, self.start

    @property
    def keys(self) -> tuple[Any, Any, int]:
        """Of every position, whoever computed it."""
        return self.key_row, np.zeros_like(self.first), 0

    @property
    def outs(self) -> tuple[Any, Any, int]:
        return self.out_row, self.first, self.start


@dataclass
class Piece:
    """Some queries of every sequence, the keys that the last of them sees, and the weights between them."""

    queries: slice
    keys: slice
    weights: Float[Tensor, "blocks queries keys"]


class Blocks:
    """What the forward pass of a layer leaves for the backward pass."""

    def __init__(self) -> None:
        self.spaces = [Space() for _ in range(4)]
        self.asking: Asking
        self.q: Tensor
        self.k: Tensor
        self.v: Tensor
        self.pieces: list[Piece]

    def reserve(self, asking: Asking, heads: int, size: int) -> None:
        """Room for queries, keys, values, each (sequences · heads, positions, size), and attention weights."""
        self.asking = asking
        sequences, positions = asking.key_row.shape
        blocks, queries = sequences * heads, positions - asking.start
        self.q = self.spaces[0].of(blocks, queries, size)
        self.k, self.v = (space.of(blocks, positions, size) for space in self.spaces[1:3])
        ends = [(a, min(a + QUERIES_AT_ONCE, queries)) for a in range(0, queries, QUERIES_AT_ONCE)]
        shapes = [(blocks, b - a, asking.start + b) for a, b in ends]
        sizes = [math.prod(shape) for shape in shapes]
        weights = self.spaces[3].of(sum(sizes)).split(sizes)
        self.pieces = [
            Piece(slice(a, b), slice(0, asking.start + b), own.view(shape))
            for (a, b), own, shape in zip(ends, weights, shapes, strict=True)
        ]


class FewHeads:
    """Attention of one model shape with its own scratch memory, as `FusedAttention`; computes in float32."""

    def __init__(self, config: ModelConfig, context: int, half: bool) -> None:
        """half: rows are read and written in the type they have."""
        del half
        self.heads, self.size, self.width = config.heads, config.head_size, config.width
        self.rotary = config.positions == "rotary"
        self.angles = rotary_angles(context, self.size) if self.rotary else np.zeros((1, 1), np.float32)
        self.scale = np.float32(self.size**-0.5)
        self.no_bias = np.zeros(self.width, np.float32)
        self.spaces = [Space() for _ in range(5)]
        self.mask = torch.full((QUERIES_AT_ONCE, QUERIES_AT_ONCE), -torch.inf).triu(1)

    def forward(self, source: Products, bias: Any, level: Level, to: Attended) -> None:
        """bias: (3 width,) of the product that made queries, keys and values."""
        kept = to.kept = to.kept or Blocks()
        asking = Asking.of(source, level)
        kept.reserve(asking, self.heads, self.size)
        q_bias, k_bias, v_bias = bias.reshape(3, self.width)
        turned, straight = (self.angles, self.rotary), (self.angles, False)
        kv, keys = source.kv.array, asking.keys
        take_heads(source.q.array, 0, q_bias, *asking.queries, self.scale, *turned, self.split(kept.q))
        take_heads(kv, source.k_column, k_bias, *keys, ONE, *turned, self.split(kept.k))
        take_heads(kv, source.v_column, v_bias, *keys, ONE, *straight, self.split(kept.v))
        mixed = self.spaces[0].of(*kept.q.shape)
        for piece in kept.pieces:
            self.weigh(kept, piece)
            torch.bmm(piece.weights, kept.v[:, piece.keys], out=mixed[:, piece.queries])
        put_heads(self.split(mixed), *asking.outs, to.out.array)

    def weigh(self, kept: Blocks, piece: Piece) -> None:
        """The softmax of the scores, each query's over the positions up to its own."""
        count = piece.weights.shape[1]
        torch.bmm(kept.q[:, piece.queries], kept.k[:, piece.keys].mT, out=piece.weights)
        piece.weights[:, :, -count:] += self.mask[:count, :count]
        torch.softmax(piece.weights, -1, out=piece.weights)

    def backward(
        self, source: Products, bias: Any, level: Level, saved: Attended, out_back: Any, bias_back: Any
    ) -> None:
        """Adds to the gradients in `source` and to bias_back."""
        del bias, level  # the forward pass kept what it made of them
        kept: Blocks = saved.kept
        asking, turned, straight = kept.asking, (self.angles, self.rotary), (self.angles, False)
        back = self.spaces[0].of(*kept.q.shape)
        take_heads(out_back, 0, self.no_bias, *asking.outs, ONE, *straight, self.split(back))
        q_back, k_back, v_back = (
            space.of(*like.shape)
            for space, like in zip(self.spaces[1:4], (kept.q, kept.k, kept.v), strict=True)
        )
        for piece in reversed(kept.pieces):
            self.through(kept, piece, back[:, piece.queries], (q_back, k_back, v_back))
        q_bias, k_bias, v_bias = bias_back.reshape(3, self.width)
        kv, keys = source.kv_back, asking.keys
        add_heads(self.split(q_back), *asking.queries, self.scale, *turned, source.q_back, 0, q_bias)
        add_heads(self.split(k_back), *keys, ONE, *turned, kv, source.k_column, k_bias)
        add_heads(self.split(v_back), *keys, ONE, *straight, kv, source.v_column, v_bias)

    def through(
        self,
        kept: Blocks,
        piece: Piece,
        back: Float[Tensor, "blocks queries size"],
        gradients: tuple[Tensor, Tensor, Tensor],
    ) -> None:
        """Gradients of queries, keys and values. The last piece, which sees all keys, comes first."""
        q_back, k_back, v_back = gradients[0][:, piece.queries], *(g[:, piece.keys] for g in gradients[1:])
        beta = 0 if piece is kept.pieces[-1] else 1
        v_back.baddbmm_(piece.weights.mT, back, beta=beta)
        slope = self.spaces[4].of(*piece.weights.shape)
        torch.bmm(back, kept.v[:, piece.keys].mT, out=slope)
        softmax_back(piece.weights.numpy(), slope.numpy())
        torch.bmm(slope, kept.k[:, piece.keys], out=q_back)
        k_back.baddbmm_(slope.mT, kept.q[:, piece.queries], beta=beta)

    def split(self, block: Float[Tensor, "blocks positions size"]) -> Any:
        """As the kernels see it: (sequences, heads, positions, size)."""
        return block.view(-1, self.heads, *block.shape[1:]).numpy()


def attention_for(config: ModelConfig, context: int, half: bool) -> FusedAttention | FewHeads:
    """The one that is faster for the shape; half: whether rows are bfloat16."""
    if rule(config) == "products":
        return FewHeads(config, context, half)
    return FusedAttention(config, context, half, config.dropout is not None)
