"""What is timed: the issue's four configurations, the stages, and batches of counters C_n."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from internalize.models.fast.buffers import Precision
from internalize.models.gpt2 import ModelConfig

STAGES_OF_25 = (1, 7, 13, 19, 25)


@dataclass(frozen=True)
class Case:
    """One model shape on one counter with the left curriculum."""

    name: str
    model: ModelConfig
    order: int = 2
    """n of the counter C_n."""
    length: int = 25
    """T, the number of input symbols."""
    batch: int = 128
    precision: Precision = "fp32"
    stages: tuple[int, ...] = STAGES_OF_25

    @property
    def vocabulary(self) -> int:
        """n symbols, n states, EOS."""
        return 2 * self.order + 1

    @property
    def context(self) -> int:
        """Tokens that the model reads at stage 1: the prompt of T+1 and T states."""
        return 2 * self.length + 1

    @property
    def prompt(self) -> int:
        return self.length + 1


CASES = (
    Case("depth 1, width 64, C_2", ModelConfig(1, 64, 32, 256)),
    Case("depth 4, width 64, C_2", ModelConfig(4, 64, 32, 256)),
    Case("depth 4, width 512, C_7", ModelConfig(4, 512, 128, 2048), order=7),
    Case("depth 4, width 512, C_7, bf16", ModelConfig(4, 512, 128, 2048), order=7, precision="bf16"),
)


def make_batches(case: Case, stage: int, generator: torch.Generator) -> Tensor:
    """A fresh batch (batch, length) of the left curriculum: symbols, q_0 = 0, states from q_stage on, EOS."""
    n, shape = case.order, (case.batch, case.length)
    symbols = torch.randint(n, shape, generator=generator)
    states = symbols.cumsum(1).remainder_(n)[:, stage - 1 :] + n
    start = torch.full((case.batch, 1), n)
    end = torch.full((case.batch, 1), 2 * n)
    return torch.cat([symbols, start, states, end], dim=1)


def useful_flops(case: Case, stage: int) -> float:
    """Operations of one iteration's products that the loss sees, with the backward pass at twice the forward.

    Counted as if every sequence were computed on its own: all layers but the last at every position; in the
    last, keys and values everywhere, the rest and the logits at the answer only; causal pairs only.
    """
    model = case.model
    width, hidden = model.width, model.mlp_width
    answer = case.length - stage + 2
    positions = case.prompt + answer - 1
    pairs_full = positions * (positions + 1) / 2
    pairs_answer = pairs_full - case.length * (case.length + 1) / 2
    layer = 4 * width * width + 2 * width * hidden
    full = (model.depth - 1) * (positions * layer + 2 * width * pairs_full)
    kept = positions * 2 * width * width + answer * (layer - 2 * width * width)
    last = kept + 2 * width * pairs_answer + answer * width * case.vocabulary
    return 3 * 2 * case.batch * (full + last)
