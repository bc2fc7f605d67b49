"""The state of a text experiment: model, optimizer, progress, and running averages by place in the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from internalize.curricula import Progress, ScheduleConfig
from internalize.errors import require
from internalize.kinds.text.network import answer_logits, drawing_from, weights_of
from internalize.kinds.text.rendering import UNSCORED, Batch, Rendered, TextRenderer, collate
from internalize.measure.ledger import Ledger
from internalize.models.config import Precision
from internalize.models.parameters import AdamW
from internalize.runtime.kind import Streams

RARE = 0.01
"""A slot that fewer than this share of the rows have is not judged: its loss is mostly noise."""


@dataclass(frozen=True)
class SlotStats:
    """What one step saw at each slot of the answer block (a place in the chain or in the answer): sums."""

    loss: Tensor
    """(slots,)"""
    correct: Tensor
    """(slots,)"""
    counts: Tensor
    """(slots,) scored tokens."""


class SlotAverages:
    """Loss and accuracy at each slot: a window since the last row, and a running average that forgets."""

    def __init__(self, slots: int, device: torch.device) -> None:
        self.window = torch.zeros(3, slots, device=device)
        self.running = torch.zeros(3, slots, device=device)
        self.newest: tuple[tuple[int, float], ...] = ()
        """Slot and loss of each common slot in the newest row: shown to people, no part of what is saved."""

    def add(self, stats: SlotStats, memory: int) -> None:
        """memory: iterations that the running average reaches back."""
        new = torch.stack([stats.loss, stats.correct, stats.counts])
        self.window += new
        self.running.mul_(1 - 1 / memory).add_(new)

    def read_window(self) -> dict[str, float]:
        """Means since the last call: over all tokens, and the worst slot's loss. Empties the window."""
        loss, correct, counts = self.window
        common = self._common(counts)
        by_slot = loss[common] / counts[common]
        means = torch.stack([loss.sum() / counts.sum(), correct.sum() / counts.sum(), by_slot.max()])
        numbers, single = means.tolist(), by_slot.tolist()
        self.newest = tuple(zip(common.nonzero()[:, 0].tolist(), single, strict=True))
        self.window.zero_()
        return dict(zip(("loss", "token_accuracy", "worst_loss"), numbers, strict=True))

    def signal(self, schedule: ScheduleConfig) -> float:
        """The running loss or accuracy, at the worst slot or averaged over all, as the schedule wants."""
        counts = self.running[2]
        common = self._common(counts)
        row = self.running[0 if schedule.signal == "loss" else 1][common] / counts[common]
        if schedule.judge == "mean":
            return float(row.mean())
        return float(row.max() if schedule.signal == "loss" else row.min())

    @staticmethod
    def _common(counts: Tensor) -> Tensor:
        return (counts > 0) & (counts >= RARE * counts.max())

    def begin_stage(self) -> None:
        self.running.zero_()

    def tensors(self) -> dict[str, Tensor]:
        return {"window": self.window, "running": self.running}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for name, own in self.tensors().items():
            require(bool((tensors[name][2] >= 0).all()), f"averages.{name}", "has counts below 0")
            own.copy_(tensors[name])


class TextState:
    """Changed in place by every step."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: AdamW,
        averages: SlotAverages,
        progress: Progress,
        trained_only: bool,
        step: Callable[..., SlotStats],
        ledger: Ledger | None,
    ) -> None:
        """trained_only: only what is trained is saved; the rest is in the folder that the model came from.
        ledger: None where the training was begun before its cost was counted."""
        self.model = model
        self.optimizer = optimizer
        self.averages = averages
        self.progress = progress
        self.trained_only = trained_only
        self.step = step
        self.ledger = ledger

    def weights(self) -> dict[str, Tensor]:
        return weights_of(self.model, self.trained_only)

    def tensors(self) -> dict[str, Tensor]:
        parts = {
            "model": self.weights(),
            "optimizer": self.optimizer.tensors(),
            "averages": self.averages.tensors(),
        }
        return {f"{part}/{name}": tensor for part, named in parts.items() for name, tensor in named.items()}

    def scalars(self) -> dict[str, Any]:
        return {
            "progress": asdict(self.progress),
            "optimizer": self.optimizer.scalars(),
            "cost": None if self.ledger is None else self.ledger.to_json(),
        }


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


def cool_down(left: int, steps: int | None) -> float:
    """The share of the learning rate when so many steps are left: a straight fall over the last of them."""
    return min(1.0, left / steps) if steps else 1.0


def rows_at(iteration: int, batch: int, rows: int, streams: Streams) -> list[int]:
    """A function of its arguments alone; consumes streams("order", epoch)."""
    first = iteration * batch
    chosen = []
    for index in range(first, first + batch):
        epoch, within = divmod(index, rows)
        chosen.append(_order(streams.seed, epoch, rows)[within])
    return chosen


@lru_cache(maxsize=4)
def _order(seed: int, epoch: int, rows: int) -> list[int]:
    """On the processor whatever the device, so that a GPU sees the same rows."""
    order: list[int] = torch.randperm(rows, generator=Streams(seed)("order", epoch)).tolist()
    return order
