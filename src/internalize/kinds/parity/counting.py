"""What a parity run will cost, counted from its config alone: products, bytes on disk and in memory.

Two things depend on how training goes. A phase that ends by its loss is taken at its longest. And descent looks
at a row's examples (`descent.py`) at the beginning of every call, which is counted, and again when one of them
may have left its cell, which is not: a few times more, as a rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from internalize.kinds.parity.baseline import STEP_SIZES, TEST_INPUTS, worth_contrasting
from internalize.kinds.parity.config import ParityConfig
from internalize.kinds.parity.experiment import UNWATCHED_STEPS, WATCHED_STEPS
from internalize.kinds.parity.verdict import SAMPLE
from internalize.kinds.parity.watch import WORK
from internalize.runtime.counted import Counted, disk_bytes
from internalize.runtime.execution import KeepStages
from internalize.tasks.parity import MOST_ENUMERATED

BYTES = 8
"""Of a number in float64, which weights are."""


def count(config: ParityConfig, keep_stages: KeepStages = "all") -> Counted:
    phases = [Phase(config, phase) for phase in range(1, config.k + 1)]
    weights = BYTES * (config.d + config.k) ** 2
    return Counted(
        float(sum(phase.training_flops for phase in phases)),
        float(sum(phase.watching_flops for phase in phases) + verdict_flops(config) + contrast_flops(config)),
        disk_bytes(keep_stages, config.k, weights, 3 * weights, 2 * weights),  # W now, before and after phase 1
        float(phases[0].memory_bytes + 3 * weights),
    )


@dataclass(frozen=True)
class Phase:
    """One phase of the training."""

    config: ParityConfig
    phase: int

    @property
    def widths(self) -> list[int]:
        """What each trained row reads: phase 1 trains the k rows of the chain, every later one row d alone."""
        d = self.config.d
        return list(range(d, d + self.config.k)) if self.phase == 1 else [d]

    @property
    def calls(self) -> list[int]:
        """Steps of each call of the descent, at the most."""
        most = WATCHED_STEPS if self._watched else UNWATCHED_STEPS
        whole, rest = divmod(self.config.most_steps, most)
        return [most] * whole + [rest] * (rest > 0)

    @property
    def training_flops(self) -> int:
        """G = Σ a aᵀ once; in every call all ⟨w, a⟩ once; and G w before every step and after the last."""
        batch = self.config.examples
        descents = (descent_flops(width, steps, batch) for steps in self.calls for width in self.widths)
        return gram_flops(max(self.widths), batch) + sum(descents)

    @property
    def watching_flops(self) -> int:
        """⟨u, x⟩ and ⟨u_pop, x⟩ of every example after the steps that are looked at; and u_pop itself."""
        batch, flops = self.config.examples, 0
        for steps in self.calls:
            for width in self._watched:
                looks = _looks(steps + 1, width * batch)
                flops += 2 * (2 * looks * width * batch) + 2 * looks * width**2
        return flops

    @property
    def _watched(self) -> list[int]:
        """The rows that are watched, by what they read."""
        if not (self.config.watch and self.config.rounds):
            return []
        return self.widths[:1] if self.config.zero_init else self.widths

    @property
    def memory_bytes(self) -> int:
        """Bits and targets of the examples, a byte each, and their τ, eight; the path where it is watched."""
        rows, columns = len(self.widths), max(self.widths)
        path = (max(self.calls) + 1) * rows * columns if self._watched else 0
        return self.config.examples * (columns + rows + BYTES * rows) + BYTES * path


def gram_flops(columns: int, batch: int) -> int:
    return 2 * columns**2 * batch


def descent_flops(width: int, steps: int, batch: int) -> int:
    """Of one row, in one call."""
    return 2 * width * batch + (steps + 1) * 2 * width**2


def _looks(steps: int, products: int) -> int:
    """How many of so many weights are looked at: evenly many, and the last."""
    every = math.ceil(steps * products / WORK)
    return len(range(0, steps, every)) + ((steps - 1) % every > 0)


def verdict_flops(config: ParityConfig) -> int:
    """The direct answer and the chain on all inputs or on a sample, for the counts and for the definition; and
    the proof by weights, in which each token brings in those before it."""
    inputs = 2**config.d if config.d <= MOST_ENUMERATED else SAMPLE
    return 2 * inputs * 2 * config.d * (1 + config.k) + config.d * config.k * (config.k - 1)


def contrast_flops(config: ParityConfig) -> int:
    """Row d on k batches at each step size, asked twice: as it is and rounded."""
    if not (config.contrast and worth_contrasting(config)):
        return 0
    d, batch = config.d, config.examples
    tries = len(STEP_SIZES) * (config.k * descent_flops(d, config.most_steps, batch) + 2 * TEST_INPUTS * 2 * d)
    return config.k * gram_flops(d, batch) + tries
