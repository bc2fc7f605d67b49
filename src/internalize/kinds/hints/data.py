"""Fresh training examples, made in bulk, and how many hints each step goes without."""

from __future__ import annotations

import torch
from torch import Tensor

from internalize.curricula.schedule import EqualShares
from internalize.kinds.hints.config import HintsConfig
from internalize.runtime.streams import Streams
from internalize.tasks.hints import Bits, Form, HintedTask, written

BULK = 256
"""Steps drawn at once, so that drawing costs little beside training."""


def numbers(bits: Bits, form: Form) -> Tensor:
    """(batch, d + H) float32: what a network with places for hints reads."""
    return written(torch.cat([bits.x, bits.hints], dim=1), form)


class HintedData:
    """Inputs and labels of a step: a function of the streams and the step alone.

    The last bulk drawn is kept, as a cache and nothing more.
    """

    def __init__(self, config: HintsConfig, task: HintedTask, device: torch.device) -> None:
        self.config = config
        self.task = task
        self.device = device
        self._cached: tuple[Streams, int] | None = None
        self._inputs: list[Tensor]
        self._labels: list[Tensor]

    @property
    def stages(self) -> int:
        return self.task.hints + 1 if self.config.method == "curriculum" else 1

    def stage_of(self, step: int) -> int:
        """The stage, from 1, that this step, from 0, belongs to."""
        return self._shares.stage_of(step)

    def stage_end(self, stage: int) -> int:
        """Steps done when the stage ends."""
        return self._shares.end(stage)

    @property
    def _shares(self) -> EqualShares:
        return EqualShares(self.config.all_steps, self.stages)

    def removed(self, bulk: int, streams: Streams) -> Tensor:
        """(BULK,) r of every step of the bulk; a mixture consumes streams("stage", bulk)."""
        hints = self.task.hints
        if self.config.method == "direct":
            return torch.full((BULK,), hints)
        if self.config.method == "mixture":
            generator = streams("stage", bulk)
            return torch.randint(hints + 1, (BULK,), generator=generator, device=generator.device).cpu()
        return torch.tensor([self.stage_of(bulk * BULK + i) - 1 for i in range(BULK)])

    def __call__(self, step: int, streams: Streams) -> tuple[Tensor, Tensor]:
        """(batch, d + H) inputs and (batch,) noisy labels of the step; consumes streams("data", bulk)."""
        bulk, within = divmod(step, BULK)
        if self._cached != (streams, bulk):
            bits = self.task.sample(self.removed(bulk, streams), self.config.batch, streams("data", bulk))
            inputs, labels = numbers(bits, self.config.form), written(bits.noisy_label, self.config.form)
            self._inputs = list(inputs.to(self.device).split(self.config.batch))
            self._labels = list(labels.to(self.device).split(self.config.batch))
            self._cached = (streams, bulk)
        return self._inputs[within], self._labels[within]
