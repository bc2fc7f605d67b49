"""States keep their positions: when words are taken away, the position embeddings move along.

A learned absolute position knows which symbol to look at: the one that predicts q_t looks at σ_t. But when q_1
is no longer shown, q_2 is predicted one place earlier, q_3 too, and so on: with every stage every position of
the answer has to learn anew what its neighbour knew. Here the rows of the position table are put in another
order instead, so that q_t is always predicted by the row that has predicted it from the beginning. A model
stays a plain GPT-2 that reads positions 0, 1, 2, …; what is new at a stage is only what is new.

Rows are named by what they do in the whole chain: row t-1 predicts q_t (t = 1 … T), row T predicts EOS.
"""

from __future__ import annotations

import torch
from torch import Tensor

from internalize.curricula import Shown
from internalize.models.adamw import AdamW
from internalize.models.gpt2 import GPT2


def row_order(shown: Shown, horizon: int, rows: int) -> list[int]:
    """For a format, which row of the whole chain stands at each place: those it needs, then all others."""
    needed = [*(t - 1 for t in shown), horizon]
    return [*needed, *(row for row in range(rows) if row not in set(needed))]


def moves(before: Shown, after: Shown, horizon: int, rows: int) -> list[int]:
    """Where each place of the order for `after` finds its row in the order for `before`."""
    place = {row: at for at, row in enumerate(row_order(before, horizon, rows))}
    return [place[row] for row in row_order(after, horizon, rows)]


class KeptPositions:
    """The position table of a model in training, and everything that belongs to its rows."""

    def __init__(self, model: GPT2, optimizer: AdamW, first: int, horizon: int) -> None:
        """first: the position that predicts the first state of an answer."""
        table = model.transformer.wpe.weight
        self.first = first
        self.horizon = horizon
        self.rows = table.shape[0] - first
        start = table.storage_offset()
        self._slice = slice(start, start + table.numel())
        self._shape = table.shape
        self._optimizer = optimizer
        self._moves: dict[tuple[Shown, Shown], Tensor] = {}

    def move_training(self, before: Shown, after: Shown) -> None:
        """For a new stage: weights and the optimizer's memory of them."""
        self._move([self._optimizer.parameters, *self._optimizer.tensors().values()], before, after)

    def move_weights(self, before: Shown, after: Shown) -> None:
        """For one step in another format."""
        self._move([self._optimizer.parameters], before, after)

    def move_weights_back(self, before: Shown, after: Shown) -> None:
        """After that step: the weights, and the gradient that it gave."""
        self._move([self._optimizer.parameters, self._optimizer.gradient], after, before)

    @torch.no_grad()
    def _move(self, tensors: list[Tensor], before: Shown, after: Shown) -> None:
        if before == after:
            return
        if (before, after) not in self._moves:
            found = moves(before, after, self.horizon, self.rows)
            self._moves[before, after] = torch.tensor(found, device=tensors[0].device)
        order = self._moves[before, after]
        for tensor in tensors:
            rows = tensor[self._slice].view(self._shape)[self.first :]
            rows.copy_(rows.index_select(0, order))


def moved_copy(model: GPT2, before: Shown, after: Shown, first: int, horizon: int) -> GPT2:
    """Another model of the same weights, its positions in the order for another format."""
    other = GPT2(model.config, model.vocabulary, model.context).to(next(model.parameters()).device)
    weights = {name: tensor.clone() for name, tensor in model.weights().items()}
    other.load(weights, "model")
    table = other.transformer.wpe.weight
    order = torch.tensor(moves(before, after, horizon, table.shape[0] - first), device=table.device)
    with torch.no_grad():
        table[first:] = table[first:].index_select(0, order)
    return other
