"""The fast training step: same numbers as `PlainStep`, on the CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from internalize.models.fast.plan import plan_shard, sorted_tokens
from internalize.models.fast.shard import Shard
from internalize.models.fast.threads import Workers
from internalize.models.fast.weights import Gradients, Weights
from internalize.models.fast.workspace import Workspace
from internalize.models.gpt2 import GPT2
from internalize.models.step import AnswerStats, Precision

ROWS_A_TILE = 1600


class FastStep:
    """Splits the batch over threads, each of which does forward and backward passes tile by tile.

    The result is a pure function of parameters, batch and number of threads: tiles are summed in their order,
    threads in theirs.
    """

    def __init__(
        self, model: GPT2, gradient: Tensor, precision: Precision = "fp32", threads: int | None = None
    ) -> None:
        """gradient: the flat one that `flatten_parameters(model)` returned; threads: torch's if not given."""
        self.model, self.precision = model, precision
        self.workers = Workers(threads)
        self.weights = Weights(model, precision)
        self.gradients = [Gradients(model, gradient)]
        self.gradients += [
            Gradients(model, torch.zeros_like(gradient)) for _ in range(self.workers.threads - 1)
        ]
        self.shards: list[Shard] = []
        self.capacity = (0, 0)

    @torch.no_grad()
    def __call__(self, tokens: Tensor, prompt: int, drops: torch.Generator | None = None) -> AnswerStats:
        """drops: never given, models with dropout take the plain path."""
        batch, answer = tokens.shape[0], tokens.shape[1] - prompt
        parts = np.array_split(sorted_tokens(tokens), min(self.workers.threads, batch))
        self._reserve(len(parts), len(parts[0]), tokens.shape[1] - 1, answer)
        self.weights.refresh()
        weight = 1 / (batch * answer)
        stats = np.zeros((len(parts), 2, answer))

        def work(i: int) -> None:
            tile = tile_size(self.model, tokens.shape[1] - 1, answer, len(parts[i]))
            model = self.model
            plan = plan_shard(parts[i], prompt - 1, model.vocabulary, model.config.depth, tile)
            if model.places is not None:
                plan.position_of = model.places.numpy().astype(np.int32)[plan.position_of]
            self.shards[i].run(plan, weight, stats[i, 0], stats[i, 1])

        self.workers.run(work, len(parts))
        total = self.gradients[0]
        for other in self.gradients[1 : len(parts)]:
            total.add(other)
        total.unfold()
        loss, correct = torch.from_numpy(stats.sum(0) / batch).to(torch.float32)
        return AnswerStats(loss, correct)

    def _reserve(self, shards: int, sequences: int, positions: int, answer: int) -> None:
        """Make sure that the buffers are large enough for a tile."""
        tile = tile_size(self.model, positions, answer, sequences)
        need = tile * positions, tile * answer
        if len(self.shards) >= shards and need[0] <= self.capacity[0] and need[1] <= self.capacity[1]:
            return
        self.capacity = max(need[0], self.capacity[0]), max(need[1], self.capacity[1])
        pairs = self.model.vocabulary * self.model.context
        self.shards = [
            Shard(self.weights, own, Workspace(self.model, self.precision, *self.capacity), pairs)
            for own in self.gradients[:shards]
        ]


def tile_size(model: GPT2, positions: int, answer: int, sequences: int) -> int:
    """Sequences a tile, all tiles alike: enough rows to make products efficient, few enough for the caches."""
    rows = answer if model.config.depth == 1 else positions
    tiles = -(-sequences * rows // ROWS_A_TILE)
    return -(-sequences // tiles)
