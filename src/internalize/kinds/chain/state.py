"""The state of a chain experiment: model, optimizer, progress, and running averages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from internalize.curricula import Progress, ScheduleConfig
from internalize.models.language_model import LanguageModel
from internalize.models.parameters import AdamW
from internalize.models.path import AnswerStats, Kernel, Step


class AnswerAverages:
    """Loss and accuracy at each answer position: a window since the last row, and a running average."""

    def __init__(self, positions: int, device: torch.device) -> None:
        """positions: the most an answer can have, T+1."""
        self.window = torch.zeros(2, positions, device=device)
        self.counts = torch.zeros(positions, device=device)
        self.running = torch.zeros(2, positions, device=device)
        self.running_counts = torch.zeros(positions, device=device)

    def add(self, stats: AnswerStats, memory: int) -> None:
        """memory: iterations that the running average reaches back."""
        answer = stats.loss.shape[0]
        new = torch.stack([stats.loss, stats.correct])
        self.window[:, :answer] += new
        self.counts[:answer] += 1
        # early on, the plain mean; later an exponential one
        self.running_counts[:answer] += 1
        share = 1.0 / self.running_counts[:answer].clamp(max=memory)
        self.running[:, :answer] += (new - self.running[:, :answer]) * share

    def read_window(self) -> dict[str, float]:
        """Means since the last call: over all positions, and the worst position's loss. Empties the window."""
        seen = self.counts > 0
        per_position = self.window[:, seen] / self.counts[seen]
        mean = self.window[:, seen].sum(1) / self.counts[seen].sum()
        loss, accuracy, worst = torch.stack([mean[0], mean[1], per_position[0].max()]).tolist()
        self.window.zero_()
        self.counts.zero_()
        return {"loss": loss, "token_accuracy": accuracy, "worst_loss": worst}

    def signal(self, schedule: ScheduleConfig) -> float:
        """The running loss or accuracy, at the worst position or averaged over all, as the schedule wants."""
        row = self.running[0 if schedule.signal == "loss" else 1, self.running_counts > 0]
        if schedule.judge == "mean":
            return float(row.mean())
        return float(row.max() if schedule.signal == "loss" else row.min())

    def begin_stage(self) -> None:
        self.running.zero_()
        self.running_counts.zero_()

    def tensors(self) -> dict[str, Tensor]:
        return {
            "window": self.window,
            "counts": self.counts,
            "running": self.running,
            "running_counts": self.running_counts,
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for name, own in self.tensors().items():
            own.copy_(tensors[name])


class ChainState:
    """Changed in place by every step."""

    def __init__(
        self,
        model: LanguageModel,
        optimizer: AdamW,
        step: Step,
        averages: AnswerAverages,
        progress: Progress,
        kernel: Kernel,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.step = step
        self.averages = averages
        self.progress = progress
        self.kernel = kernel

    def weights(self) -> dict[str, Tensor]:
        return self.model.weights()

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
            "kernel": self.kernel,
        }


def part_of(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The tensors of one part of a saved state, by their names within it."""
    prefix = f"{part}/"
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
