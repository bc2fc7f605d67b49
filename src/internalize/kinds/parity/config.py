"""What a parity experiment computes: the identity of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from internalize.configs.codec import LEFT_OUT_UNLESS_SET, typed
from internalize.configs.named import Copies, Source
from internalize.errors import require, require_seed
from internalize.tasks.parity import MOST_ENUMERATED, HiddenParity

if TYPE_CHECKING:
    import torch

    from internalize.kinds.parity.experiment import ParityExperiment

Regime = Literal["theorem", "threshold"]

# The theorem leaves its constants open. These are chosen once and for all d and k: η = 1/(d+1), the largest
# step that its tracking lemma allows (c = d/(d+1)); T = 20 d (C = 20); and 4 d³ examples where it asks for
# C d³ log(kT/δ), which the watch reports.
STEPS_PER_D = 20
BATCH_PER_D3 = 4
DELTA = 0.05
"""δ, the theorem's probability of failure, for the size of the batch it asks for."""


def theorem_batch(d: int, k: int, steps: int) -> float:
    """The examples that the theorem asks for, C d³ log(kT/δ), with the C of T = C d."""
    return steps * d**2 * math.log(k * steps / DELTA)


PAPER_BATCH = 1024
PAPER_STEP_SIZE = 1e-3
THRESHOLD = 1e-8
SAMPLE = 2**20
"""Inputs drawn to check the final answers on, where there are too many to look at all."""
LEAST_STEP_SIZE = 1e-12
"""Below it nothing would move before the end of time."""
PATIENCE = 300.0
"""Without rounding, a phase is given up as stalled after PATIENCE / step size steps: η·steps is the time of the
underlying flow, in which the slowest direction decays as exp(-time/8) or faster."""

MOST_CHECKED = 1_000_000_000
"""Inputs that the last check may draw."""


@dataclass(frozen=True)
@typed()
class ParityConfig:
    """One linear-attention layer learns a hidden parity with its chain shown, then internalizes it."""

    kind: ClassVar[str] = "parity"

    d: int = 20
    """Coordinates of an input."""
    k: int = 9
    """Coordinates that the hidden parity is over, and phases."""
    regime: Regime = "theorem"
    """theorem: T steps in each phase, then round; threshold: no rounding, the next phase when the loss is
    small."""
    seed: int = 0
    """Everything random in the run is a function of this number."""
    support: tuple[int, ...] | None = None
    """i_1 … i_k in order, numbered from 1; random by seed if not given."""
    batch: int | None = None
    """B, fresh examples a phase; 4 d³ if not given (threshold: 1024)."""
    step_size: float | None = None
    """η; 1/(d+1) if not given (threshold: 0.001)."""
    steps: int | None = None
    """T, gradient steps in each phase; 20 d if not given (threshold: at the most, 300/η)."""
    threshold: float = THRESHOLD
    """A phase ends when its training loss is below this (regime threshold)."""
    zero_init: bool = False
    """Begin with W = 0: then only the direct answer is guaranteed, not the chain."""
    watch: bool = True
    """Whether every quantity of the proof is measured beside its bound (regime theorem)."""
    contrast: bool = True
    """Whether the layer is also trained directly on the parity (d ≥ 8, k ≥ 3), with as many examples."""

    wandering: bool | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """Whether direct training is also tried at step sizes beyond stability, where it wanders."""
    check_inputs: int | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """Inputs drawn to check the final answers on, beside the proof by weights; all if not given and d ≤ 24."""

    def __post_init__(self) -> None:
        require(self.d >= 1, "d", f"must be at least 1, got {self.d}")
        require(1 <= self.k <= self.d, "k", f"must lie in 1…d = {self.d}, got {self.k}")
        require(self.batch is None or self.batch >= 1, "batch", f"must be at least 1, got {self.batch}")
        require(self.steps is None or self.steps >= 1, "steps", f"must be at least 1, got {self.steps}")
        good = self.check_inputs is None or 1 <= self.check_inputs <= MOST_CHECKED
        require(good, "check-inputs", f"must lie in 1…{MOST_CHECKED:,}, got {self.check_inputs}")
        _positive("step-size", self.step_size)
        good = self.step_size is None or self.step_size >= LEAST_STEP_SIZE
        require(good, "step-size", f"must be at least {LEAST_STEP_SIZE:g}, got {self.step_size}")
        _positive("threshold", self.threshold)
        good = not self.rounds or self.threshold == THRESHOLD
        require(good, "threshold", "belongs to --regime threshold: by the theorem a phase ends after T steps")
        good = self.contrast or not self.wandering
        require(good, "wandering", "needs --contrast: it is direct training, too")
        require_seed(self.seed)
        if self.support is not None:
            parity = HiddenParity(self.d, self.support)
            require(parity.k == self.k, "support", f"must name k = {self.k} coordinates, got {parity.k}")

    @property
    def rounds(self) -> bool:
        return self.regime == "theorem"

    @property
    def examples(self) -> int:
        """B."""
        return self.batch or (BATCH_PER_D3 * self.d**3 if self.rounds else PAPER_BATCH)

    @property
    def eta(self) -> float:
        """η."""
        return self.step_size or (1 / (self.d + 1) if self.rounds else PAPER_STEP_SIZE)

    @property
    def most_steps(self) -> int:
        """T, or the most steps of a phase that ends by its loss."""
        return self.steps or (STEPS_PER_D * self.d if self.rounds else math.ceil(PATIENCE / self.eta))

    @property
    def inputs_checked(self) -> int:
        """Inputs on which the final answers are checked: all, or so many drawn."""
        return self.check_inputs or (2**self.d if self.d <= MOST_ENUMERATED else SAMPLE)

    @property
    def samples_per_step(self) -> int:
        return self.examples

    def check(self, copies: Copies) -> list[Source]:
        """Nothing here names a user's file."""
        return []

    def label(self) -> str:
        return f"parity-d{self.d}-k{self.k}-{self.regime}-s{self.seed}"

    def build(self, device: torch.device, copies: Copies) -> ParityExperiment:
        """The computation is on the processor, whatever the device: its matrices are small."""
        from internalize.kinds.parity.experiment import ParityExperiment

        return ParityExperiment(self)


def _positive(field: str, value: float | None) -> None:
    good = value is None or (math.isfinite(value) and value > 0)
    require(good, field, f"must be a number more than 0, got {value}")
