"""States keep their positions: when words are taken away, the position embeddings move along.

A learned absolute position knows which symbol to look at: the one that predicts q_t looks at σ_t. But when q_1
is no longer shown, q_2 is predicted one place earlier, q_3 too, and so on: at every stage every position of the
answer has to learn anew what its neighbour knew. Here the rows of the position table are put in another order
instead. A model stays a plain GPT-2 that reads positions 0, 1, 2, …; what is new is only what is new:

- All states but the first one shown are predicted, at every stage, by the row that has predicted them from the
  beginning.
- The first one is predicted by a *direct* row, which has to look at all symbols so far. There are two of them,
  and they take turns: a stage and the one before have different ones, so that a model can tell the two formats
  apart and rehearse the earlier one.
- A direct row begins as the sum of the last one, which looks at all symbols but the newest, and of the row that
  has predicted the same state out loud, which looks at the newest.

Rows are named by what they do in the whole chain: row t-1 predicts q_t (t = 1 … T), row T predicts EOS, and row
T+1 is left over. Rows 0 and T+1 are the direct ones.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from internalize.curricula import Curriculum
from internalize.models.gpt2 import GPT2
from internalize.models.parameters import AdamW


def direct_row(curriculum: Curriculum, stage: int) -> int:
    """The row that predicts the first state shown: another one whenever that state is another one."""
    first = [curriculum.shown(s)[0] for s in range(1, stage + 1)]
    changes = sum(a != b for a, b in pairwise(first))
    return curriculum.horizon + 1 if changes % 2 else 0


def row_order(curriculum: Curriculum, stage: int) -> list[int]:
    """Which row stands at each place of a stage's answer: those it needs, then all others."""
    later = [t - 1 for t in curriculum.shown(stage)[1:]]
    needed = [direct_row(curriculum, stage), *later, curriculum.horizon]
    return [*needed, *(row for row in range(curriculum.horizon + 2) if row not in set(needed))]


def moves(curriculum: Curriculum, before: int, after: int) -> list[int]:
    """Where each place of one stage's order finds its row in the order of the stage before."""
    place = {row: at for at, row in enumerate(row_order(curriculum, before))}
    return [place[row] for row in row_order(curriculum, after)]


class KeptPositions:
    """The position table of a model in training, and everything that belongs to its rows."""

    def __init__(self, model: GPT2, optimizer: AdamW, first: int, curriculum: Curriculum) -> None:
        """first: the position that predicts the first state of an answer."""
        table = model.transformer.wpe.weight
        assert table.shape[0] - first == curriculum.horizon + 2
        self.first = first
        self.curriculum = curriculum
        start = table.storage_offset()
        self._slice = slice(start, start + table.numel())
        self._shape = table.shape
        self._optimizer = optimizer
        self._moves: dict[tuple[int, int], Tensor] = {}

    def begin_stage(self, before: int, stage: int) -> None:
        """From a stage to the next one: weights and the optimizer's memory of them, and a new direct row."""
        tensors = [self._optimizer.parameters, *self._optimizer.tensors().values()]
        self._move(tensors, before, stage)
        if direct_row(self.curriculum, before) != direct_row(self.curriculum, stage):
            self._begin_direct_row(before, stage)

    @torch.no_grad()
    def _begin_direct_row(self, before: int, stage: int) -> None:
        order = row_order(self.curriculum, stage)
        rows = self._rows(self._optimizer.parameters)
        place = {row: rows[at] for at, row in enumerate(order)}
        last = place[direct_row(self.curriculum, before)]
        aloud = place[self.curriculum.shown(stage)[0] - 1]
        mean = torch.stack([place[row] for row in range(self.curriculum.horizon)]).mean(0)
        rows[0] = last + aloud - mean

    def move_weights(self, stage: int, shown: int) -> None:
        """For one step in the format of another stage."""
        self._move([self._optimizer.parameters], stage, shown)

    def move_weights_back(self, stage: int, shown: int) -> None:
        """After that step: the weights, and the gradient that it gave."""
        self._move([self._optimizer.parameters, self._optimizer.gradient], shown, stage)

    def _rows(self, tensor: Tensor) -> Tensor:
        return tensor[self._slice].view(self._shape)[self.first :]

    @torch.no_grad()
    def _move(self, tensors: list[Tensor], before: int, after: int) -> None:
        if before == after:
            return
        if (before, after) not in self._moves:
            found = moves(self.curriculum, before, after)
            self._moves[before, after] = torch.tensor(found, device=tensors[0].device)
        order = self._moves[before, after]
        for tensor in tensors:
            rows = self._rows(tensor)
            rows.copy_(rows.index_select(0, order))
