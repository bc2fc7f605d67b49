"""What a run will cost, counted before it begins. Each kind does it in a file `counting.py` of its own."""

from __future__ import annotations

from dataclasses import dataclass

from internalize.runs.checkpoint import KEPT
from internalize.runtime.execution import KeepStages, keeps_stage


@dataclass(frozen=True)
class Counted:
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
    """While it trains, where it trains: weights, optimizer, examples, and what a step keeps."""

    @property
    def flops(self) -> float:
        return self.training_flops + self.measuring_flops


def measurements(begun: int, ended: int, every: int) -> int:
    """How often a stage is measured that lasts from step `begun` to step `ended`.

    At every multiple of `every` steps, counted over the whole run, and at the stage's end.
    """
    return ended // every - begun // every + (ended % every > 0)


def disk_bytes(keep_stages: KeepStages, stages: int, weights: int, checkpoint: int, model: int) -> int:
    """weights, checkpoint, model: bytes of a stage's end, of a checkpoint and of the final model."""
    kept = sum(keeps_stage(keep_stages, stage, stages) for stage in range(1, stages + 1))
    return kept * weights + KEPT * checkpoint + model
