"""The parity kind, as the runtime sees it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from internalize.configs.named import Copies
from internalize.display.terminal import readable
from internalize.kinds.parity.config import ParityConfig
from internalize.kinds.parity.descent import descend, row_d_batch
from internalize.kinds.parity.evaluation import (
    STEP_SIZES,
    TEST_INPUTS,
    WANDERING,
    LayerPredictor,
    worth_contrasting,
)
from internalize.kinds.parity.experiment import UNWATCHED_STEPS, WATCHED_STEPS, ParityExperiment, ParityState
from internalize.kinds.parity.watch import WORK
from internalize.measure.internalization import check_internalization
from internalize.runtime.execution import KeepStages
from internalize.runtime.forecast import Forecast, Need, disk_bytes, median_seconds, seconds_of
from internalize.runtime.kind import Prepared, Results, Streams, prepared
from internalize.tasks.parity import BLOCK_BITS, HiddenParity, uniform_inputs


def share_right(summary: Mapping[str, Any]) -> float:
    """Inputs on which the direct answer is right: a lower bound (95 %) where they were drawn, not all asked."""
    return 1.0 if summary["exact"] else 1.0 - float(summary["error_bound"])


def _phases(result: Mapping[str, Any]) -> str:
    return f"{result['phases']}{', stalled' if result['stalled'] else ''}"


class ParityKind:
    """One linear-attention layer learns a hidden parity with its chain shown, then internalizes it."""

    name = "parity"
    config = ParityConfig
    results = Results(
        label=ParityConfig.label,
        subject=lambda config: f"parity-d{config.d}-k{config.k}",
        unit="steps",
        accuracy=share_right,
        columns={
            "phases": _phases,
            "support found": lambda result: readable("", result["support_recovered"]),
            "exact": lambda result: readable("", result["exact"]),
            "internalized": lambda result: readable("", result["internalized"]),
        },
        rates=("support_recovered", "exact", "internalized"),
        samples_per_step=lambda config: config.examples,
    )

    def prepare(self, config: ParityConfig, copies: Copies) -> Prepared:
        sources = config.check(copies)
        return prepared(self, config, copies, lambda d: config.build(d, copies), sources, f"{__name__}:KIND")

    def forecast(
        self, prepared: Prepared, device: torch.device, keep_stages: KeepStages = "all", timed: bool = False
    ) -> Forecast:
        return foretell(prepared.config, keep_stages, timed)


KIND = ParityKind()


BYTES = 8
"""Of a number in float64, which weights are."""
TRIAL_STEPS = 100
"""Where every step is watched; elsewhere a whole call is timed."""


def foretell(config: ParityConfig, keep_stages: KeepStages, timed: bool) -> Forecast:
    first, later = Phase(config, 1), Phase(config, 2)  # phases 2 … k train row d alone, and are alike
    more = config.k - 1
    numbers = (config.d + config.k) ** 2
    weights = BYTES * numbers
    watching = first.watching_flops + more * later.watching_flops
    return Forecast(
        float(first.training_flops + more * later.training_flops),
        float(watching + verdict_flops(config) + contrast_flops(config)),
        disk_bytes(keep_stages, config.k, weights, 3 * weights, 2 * weights),  # W now, before and after phase 1
        float(first.memory_bytes + 3 * weights),
        numbers,
        config.k * config.most_steps,
        least_memory(config),
        on_processor=True,
        seconds=seconds_of_run(config) if timed else None,
    )


def least_memory(config: ParityConfig) -> tuple[Need, ...]:
    """W three times; the bits of x, a byte each and twice while they are transposed, and of z."""
    bits = config.examples * (2 * config.d + config.k)
    field = "batch" if config.batch is not None or config.d < 1_000 else "d"
    return (
        Need(bits, field, f"a batch of {config.examples:,} examples"),
        Need(3 * BYTES * (config.d + config.k) ** 2, "d", f"attention over {config.d:,} coordinates"),
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
    def calls(self) -> dict[int, int]:
        """Steps of a call of the descent, at the most → how many calls have so many."""
        most = WATCHED_STEPS if self._watched else UNWATCHED_STEPS
        whole, rest = divmod(self.config.most_steps, most)
        return {steps: times for steps, times in ((most, whole), (rest, 1)) if steps and times}

    @property
    def training_flops(self) -> int:
        """G = Σ a aᵀ once; in every call all ⟨w, a⟩ once; and G w before every step and after the last."""
        batch = self.config.examples
        descents = (
            times * descent_flops(width, steps, batch)
            for steps, times in self.calls.items()
            for width in self.widths
        )
        return gram_flops(max(self.widths), batch) + sum(descents)

    @property
    def watching_flops(self) -> int:
        """⟨u, x⟩ and ⟨u_pop, x⟩ of every example after the steps that are looked at; and u_pop itself."""
        batch, flops = self.config.examples, 0
        for steps, times in self.calls.items():
            for width in self._watched:
                looks = times * _looks(steps + 1, width * batch)
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
    inputs = config.inputs_checked
    return 2 * inputs * 2 * config.d * (1 + config.k) + config.d * config.k * (config.k - 1)


def contrast_flops(config: ParityConfig) -> int:
    """Row d on k batches at each step size, asked twice: as it is and rounded."""
    if not (config.contrast and worth_contrasting(config)):
        return 0
    d, batch = config.d, config.examples
    sizes = len(STEP_SIZES) + (len(WANDERING) if config.wandering else 0)
    tries = sizes * (config.k * descent_flops(d, config.most_steps, batch) + 2 * TEST_INPUTS * 2 * d)
    return config.k * gram_flops(d, batch) + tries


# Seconds --------------------------------------------------------------------------------------------------


def seconds_of_run(config: ParityConfig) -> float:
    """Phases that end by their loss are taken at their longest, unless one call sees the end."""
    watched = config.watch and config.rounds
    trial = replace(config, steps=min(config.most_steps, TRIAL_STEPS)) if watched else config
    experiment, streams = ParityExperiment(trial), Streams(config.seed)
    parity = experiment.parity(streams)
    _warm_up(parity, streams)
    state = experiment.init(streams)
    seconds = _seconds_of_phase(config, experiment, state, streams)
    if config.k > 1:  # phases 2 … k train row d alone, and are alike
        seconds += (config.k - 1) * _seconds_of_phase(config, experiment, state, streams)
    seconds += _seconds_of_verdict(config, state, streams)
    if config.contrast and worth_contrasting(config):
        seconds += _seconds_of_contrast(config, parity, streams)
    return seconds


def _warm_up(parity: HiddenParity, streams: Streams) -> None:
    """Compile the descent, or load what was compiled before."""
    descend(row_d_batch(parity, 1, 1, streams("estimate")), np.zeros((1, parity.d)), 1, 1.0)


def _seconds_of_phase(
    config: ParityConfig, experiment: ParityExperiment, state: ParityState, streams: Streams
) -> float:
    """A call of the next phase, as much longer as the whole phase has more products, and a measurement.

    Then the phase counts as over.
    """
    phase = state.phase + state.phase_ended
    making = seconds_of(lambda: experiment.batch(phase, streams).gram)
    a_call = seconds_of(lambda: experiment.advance(state, streams))
    ended_by_loss = state.phase_ended and not config.rounds
    done = replace(config, steps=state.step)
    more = 1.0 if ended_by_loss else _flops_of_calls(config, phase) / _flops_of_calls(done, phase)
    measuring = median_seconds(lambda: experiment.evaluate(state, streams))
    state.phase_ended = True
    return making + more * a_call + measuring


def _flops_of_calls(config: ParityConfig, number: int) -> int:
    phase = Phase(config, number)
    return phase.training_flops - gram_flops(max(phase.widths), config.examples) + phase.watching_flops


def _seconds_of_verdict(config: ParityConfig, state: ParityState, streams: Streams) -> float:
    """All inputs are asked twice: for the counts and for the definition."""
    inputs = config.inputs_checked
    block = uniform_inputs(min(inputs, 2**BLOCK_BITS), config.d, streams("estimate"))
    direct, chain = (LayerPredictor(state.W, config.d, steps) for steps in (1, config.k))
    return (
        2 * inputs / len(block) * median_seconds(lambda: check_internalization(direct, chain, [block], False))
    )


def _seconds_of_contrast(config: ParityConfig, parity: HiddenParity, streams: Streams) -> float:
    """Of k batches, one is made, and row d trained on it at every step size."""
    batch = row_d_batch(parity, parity.k, config.examples, streams("estimate"))
    making = seconds_of(lambda: row_d_batch(parity, parity.k, config.examples, streams("estimate")).gram)

    def train() -> None:
        for size in (*STEP_SIZES, *(WANDERING if config.wandering else ())):
            descend(batch, np.zeros((1, parity.d)), config.most_steps, size / (parity.d + 1))

    return config.k * (making + seconds_of(train))
