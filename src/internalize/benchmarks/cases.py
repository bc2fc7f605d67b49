"""What is timed: four configurations of the paper, on counters, over stages of the left curriculum."""

from __future__ import annotations

from dataclasses import dataclass

from internalize.kinds.chain import ChainConfig
from internalize.models.gpt2 import ModelConfig
from internalize.models.step import Precision

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

    def config(self) -> ChainConfig:
        """The experiment whose iterations are timed; it never ends a stage and logs next to nothing."""
        return ChainConfig(
            task=f"C{self.order}",
            horizon=self.length,
            method="left",
            iterations=10**9,
            batch=self.batch,
            model=self.model,
            kernel="fast",
            precision=self.precision,
            log_every=10**6,
        )

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
