"""One training step on rows of text: from rendered rows to the gradient and the loss at every slot."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from internalize.kinds.text.network import answer_logits, drawing_from
from internalize.kinds.text.rendering import UNSCORED, Batch, Rendered, TextRenderer, collate
from internalize.kinds.text.state import SlotStats
from internalize.models.path import Precision


class TextStep:
    """Fills the flat gradient (overwriting it) with that of the mean loss over all scored tokens."""

    def __init__(
        self, model: nn.Module, gradient: Tensor, renderer: TextRenderer, precision: Precision, parts: int
    ) -> None:
        """parts: how many parts the rows are computed in, one after the other; less memory, same gradient."""
        self.model = model
        self.gradient = gradient
        self.renderer = renderer
        self.precision = precision
        self.parts = parts

    def __call__(self, rows: Sequence[Rendered], drops: torch.Generator | None = None) -> SlotStats:
        """drops: decides what dropout sets to 0, for models that have it."""
        self.gradient.zero_()
        scored = sum(len(row.slots) for row in rows)
        totals = torch.zeros(3, self.renderer.slots + 1, device=self.gradient.device)
        size = -(-len(rows) // self.parts)
        with nullcontext() if drops is None else drawing_from(drops):
            for start in range(0, len(rows), size):
                self._part(self.collate(rows[start : start + size]), scored, totals)
        loss, correct, counts = totals[:, :-1]
        return SlotStats(loss, correct, counts)

    def collate(self, rows: Sequence[Rendered]) -> Batch:
        renderer, device = self.renderer, self.gradient.device
        return collate(rows, renderer.markers.pad, renderer.positions == "kept", device)

    def _part(self, batch: Batch, scored: int, totals: Tensor) -> None:
        """Adds its share of the gradient, and its sums to the totals."""
        with self._products(batch.tokens.device):
            logits = answer_logits(self.model, batch)
        logits = logits.float()
        slots, targets = batch.slots[:, batch.first :], batch.targets[:, batch.first :]
        wanted = torch.where(slots == UNSCORED, UNSCORED, targets)
        losses = cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=UNSCORED, reduction="none")
        (losses.sum() / scored).backward()
        with torch.no_grad():
            where = torch.where(slots == UNSCORED, totals.shape[1] - 1, slots).flatten()
            right = (logits.argmax(-1) == targets).flatten().to(torch.float32)
            totals.index_add_(1, where, torch.stack([losses.detach(), right, torch.ones_like(right)]))

    def _products(self, device: torch.device) -> AbstractContextManager[object]:
        """How matrix products are computed; not every device has autocast, so it is asked only when needed."""
        return torch.autocast(device.type, torch.bfloat16) if self.precision == "bf16" else nullcontext()


def clip(gradient: Tensor, most: float) -> None:
    """Shorten the gradient to a norm of at most so much; without waiting for the device."""
    gradient.mul_((most / (torch.linalg.vector_norm(gradient) + 1e-6)).clamp(max=1.0))


def warm_up(done: int, steps: int) -> float:
    """The share of the learning rate for the step after `done` others: a straight rise over so many steps."""
    return min(1.0, (done + 1) / steps) if steps else 1.0
