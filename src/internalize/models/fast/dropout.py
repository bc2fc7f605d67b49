"""Dropout on the fast path: embeddings with entries dropped, and marks that tell attention what to drop.

With dropout nothing can be shared: two sequences with the same tokens have different rows, from the embeddings
on. So there is a row for each token of a tile, and the first layer is like the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from internalize.models.dropout import Drops, embedding_site
from internalize.models.fast.attention import Attended, Level, ShardPlan, TilePlan
from internalize.models.fast.layers import Norm, Workspace
from internalize.models.fast.weights import Buffer, Weights
from internalize.models.gpt2 import LAYER_NORM_EPSILON
from internalize.models.kernels.drops import drop_back, drop_rows, mark_weights
from internalize.models.kernels.rows import add_rows, normalise


def numbers_of(drops: Drops, site: int) -> tuple[Any, int, float]:
    """A site's key, the limit and the scale as the kernels want them."""
    return np.uint64(drops.keys[site] % (1 << 64)), drops.limit, drops.scale


def bias_sums(work: Workspace, bias_back: Buffer) -> Any:
    """Where a layer norm sums its gradient for the bias before it, (width,); unused if dropout is between."""
    return work.unused if work.drops else bias_back.array


def mark_dropped(drops: Drops, site: int, plan: TilePlan, level: Level, heads: int, to: Attended) -> None:
    """Decide which attention weights of a layer are dropped."""
    positions = plan.full.row.shape[1]
    shape = level.count, positions, heads
    if to.marks.shape[1:] != shape[1:] or len(to.marks) < level.count:
        to.marks = np.zeros(shape, np.uint8)
    key, limit, scale = numbers_of(drops, site)
    to.scale[0] = scale
    mark_weights(key, limit, level.place, to.marks)


class DroppedEmbedding:
    """Rows of the first layer: a row of the table of (token, position) pairs, with entries dropped."""

    def __init__(
        self, work: Workspace, weights: Weights, gradient: dict[str, Buffer], pairs: int, width: int
    ) -> None:
        self.work, self.weights, self.gradient = work, weights, gradient
        self.x = Buffer.zeros(pairs, width)
        self.x_back = Buffer.zeros(pairs, width)
        self.branch = Buffer.zeros(work.rows, width)
        self.nothing = np.zeros((1, width), np.float32)
        self.norm = Norm(work.rows, width, work.dtype, work.unused)

    def begin(self, plan: ShardPlan) -> None:
        """Fill the table."""
        n = len(plan.token_of)
        torch.index_select(
            self.weights.embedding.tensor, 0, torch.from_numpy(plan.token_of), out=self.x.tensor[:n]
        )
        if self.weights.positions is not None:
            self.x.tensor[:n] += self.weights.positions.tensor[torch.from_numpy(plan.position_of)]
        self.x_back.tensor[:n].zero_()

    def enter(self, plan: TilePlan) -> None:
        assert plan.drops is not None
        numbers, level, work = numbers_of(plan.drops, embedding_site()), plan.full, self.work
        drop_rows(*numbers, level.place, self.x.array, level.below, work.no_bias, self.branch.array)
        normalise(
            self.nothing,
            np.zeros(level.count, np.int32),
            self.branch.array,
            work.no_bias,
            work.full.x.array,
            self.norm.unit.array,
            self.norm.scale.array,
            LAYER_NORM_EPSILON,
        )

    def leave(self, plan: TilePlan) -> None:
        assert plan.drops is not None
        numbers, level, work = numbers_of(plan.drops, embedding_site()), plan.full, self.work
        drop_back(*numbers, level.place, work.full.back.array, self.branch.array, work.unused)
        add_rows(self.x_back.array, level.below, self.branch.array)

    def end(self, plan: ShardPlan) -> None:
        """From the table's gradient to those of the embeddings."""
        back = self.x_back.array[: len(plan.token_of)]
        add_rows(self.gradient["wte.weight"].array, plan.token_of, back)
        if self.weights.positions is not None:
            add_rows(self.gradient["wpe.weight"].array, plan.position_of, back)
