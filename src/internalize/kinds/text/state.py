"""The state of a text experiment: model, optimizer, progress, and running averages by place in the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from internalize.curricula import Progress, ScheduleConfig
from internalize.kinds.text.network import weights_of
from internalize.models.parameters import AdamW

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

    def add(self, stats: SlotStats, memory: int) -> None:
        """memory: iterations that the running average reaches back."""
        new = torch.stack([stats.loss, stats.correct, stats.counts])
        self.window += new
        self.running.mul_(1 - 1 / memory).add_(new)

    def read_window(self) -> dict[str, float]:
        """Means since the last call: over all tokens, and the worst slot's loss. Empties the window."""
        loss, correct, counts = self.window
        common = self._common(counts)
        worst = (loss[common] / counts[common]).max()
        numbers = torch.stack([loss.sum() / counts.sum(), correct.sum() / counts.sum(), worst]).tolist()
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
    ) -> None:
        """trained_only: only what is trained is saved; the rest is in the folder that the model came from."""
        self.model = model
        self.optimizer = optimizer
        self.averages = averages
        self.progress = progress
        self.trained_only = trained_only
        self.step = step

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
        return {"progress": asdict(self.progress), "optimizer": self.optimizer.scalars()}


def part_of(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The tensors of one part of a saved state, by their names within it."""
    prefix = f"{part}/"
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
