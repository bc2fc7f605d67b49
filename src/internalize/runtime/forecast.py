"""What a run will cost, told before it begins: operations, bytes, memory, and seconds by a few timed steps.

Each kind makes its forecasts from what is here, in its own folder; whoever plans, announces or refuses a run
reads them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Literal

from internalize.errors import require
from internalize.runs.checkpoint import KEPT
from internalize.runs.provenance import usable_cores
from internalize.runtime.execution import KeepStages, keeps_stage

if TYPE_CHECKING:
    import torch

NO_MACHINE = 10**16
"""Bytes that no machine has."""
OPERATIONS_A_SECOND = 5e10
"""Of one core, in training steps of the paper's shapes (`internalize bench`: 40 to 90 thousand millions)."""
SECONDS_A_STEP = 1e-3
"""Beyond what is counted: data, optimizer, bookkeeping."""
YEAR = 365.25 * 24 * 3600
MOST_YEARS = 10
"""By the rule of thumb: whoever asks for a longer run has mistyped."""
CORES_OF_A_GPU = 1_000
"""How many cores compute as fast as one. Its steps come one after the other all the same."""
PATIENCE = 0.5
"""Seconds that timing one thing may take, beyond its first three calls."""


@dataclass(frozen=True)
class Need:
    """Memory that a run cannot do without, in whatever way it is computed."""

    bytes: int
    field: str
    """Of the config: what would have to be smaller."""
    what: str
    """What the memory is for, in a few words."""


@dataclass(frozen=True)
class Forecast:
    """Of one run.

    Operations are those of matrix products, and of no others: (a, b) times (b, c) counts 2abc, a backward pass
    two such products for each of the forward pass.
    """

    training_flops: float
    measuring_flops: float
    """Of all measurements, on the way and at the end."""
    disk_bytes: float
    """Weights at stage ends, the last checkpoints and the final model."""
    memory_bytes: float
    """At its peak, where it trains: weights, optimizer, examples, and what a step keeps."""
    parameters: int = 0
    steps: int = 0
    """At the most."""
    least: tuple[Need, ...] = ()
    """Lower bounds of its memory: what they refuse cannot be done; the rest may still be too much."""
    on_processor: bool = False
    """Whether it computes on the processor whatever the device: its matrices are small."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Of its products."""
    seconds: float | None = None
    """Of this machine, by a few timed steps; None where nobody asked for that."""

    @property
    def flops(self) -> float:
        return self.training_flops + self.measuring_flops

    @property
    def rough_seconds(self) -> float:
        """A rule of thumb for one core, where timing would take too long."""
        return self.flops / OPERATIONS_A_SECOND + self.steps * SECONDS_A_STEP

    def require_memory(self, device: torch.device) -> None:
        """Refuse what this machine cannot hold, by the field that is too large. A GPU's memory is not asked.

        And what would never end.
        """
        if device.type != "cpu" and not self.on_processor:
            self.require_sense()
            return
        from internalize.constructions import transformer as memory

        for need in self.least:
            memory.require_memory(need.bytes, need.field, need.what)
        self.require_time(usable_cores())

    def require_time(self, cores: int) -> None:
        """Refuse what takes many years even if so many cores shared the products of every step."""
        least = self.flops / (cores * OPERATIONS_A_SECOND) + self.steps * SECONDS_A_STEP
        years = _told(self.rough_seconds / YEAR)
        text = f"it would take about {years} years of one core: fewer steps or a smaller model take less"
        require(least <= MOST_YEARS * YEAR, "run", text)

    def require_sense(self) -> None:
        """Refuse what no machine can hold, or end."""
        for need in self.least:
            said = (
                f"{need.what} would need about {need.bytes / 1e9:.3g} GB of memory, more than any machine has"
            )
            require(need.bytes < NO_MACHINE, need.field, said)
        self.require_time(CORES_OF_A_GPU)


def _told(years: float) -> str:
    return f"{years:,.0f}" if years < 1e6 else f"{years:.1g}"


def measurements(begun: int, ended: int, every: int) -> int:
    """How often a stage is measured that lasts from step `begun` to step `ended`.

    At every multiple of `every` steps, counted over the whole run, and at the stage's end.
    """
    return ended // every - begun // every + (ended % every > 0)


def disk_bytes(keep_stages: KeepStages, stages: int, weights: int, checkpoint: int, model: int) -> int:
    """weights, checkpoint, model: bytes of a stage's end, of a checkpoint and of the final model."""
    if keep_stages == "all":
        kept = stages
    else:  # at most as many as there are powers of two, and the last
        ends = {1 << power for power in range(stages.bit_length())} | {stages}
        kept = sum(keeps_stage(keep_stages, stage, stages) for stage in ends)
    return kept * weights + KEPT * checkpoint + model


# Timing ----------------------------------------------------------------------------------------------------


def seconds_of(function: Callable[[], object]) -> float:
    """Of one call."""
    start = perf_counter()
    function()
    return perf_counter() - start


def median_seconds(function: Callable[[], object]) -> float:
    """Of some calls, after one to warm up."""
    function()
    times: list[float] = []
    while len(times) < 2 or (len(times) < 20 and sum(times) < PATIENCE):
        times.append(seconds_of(function))
    return statistics.median(times)
