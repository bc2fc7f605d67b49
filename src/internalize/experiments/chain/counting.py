"""What a chain run will cost, counted from its config alone: operations, and bytes of what it writes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import torch

from internalize.experiments.chain.config import ChainConfig
from internalize.experiments.chain.estimate import megabytes
from internalize.experiments.chain.evaluation import modes
from internalize.experiments.chain.experiment import ChainExperiment
from internalize.experiments.execution import KeepStages, keeps_stage
from internalize.measure import cost
from internalize.runs.checkpoint import KEPT

BYTES = 4
"""Of a number in fp32, which weights and moments always are."""


@dataclass(frozen=True)
class Counted:
    """Of one run."""

    training_flops: float
    measuring_flops: float
    disk_bytes: int
    """Weights at stage ends, the last checkpoints (weights and two moments each) and the final model."""
    memory_bytes: float
    """On the device, while it trains."""


def count(config: ChainConfig, keep_stages: KeepStages = "all") -> Counted:
    """Adaptive schedules are taken as if they used all their iterations, in equal shares."""
    experiment = ChainExperiment(config, torch.device("cpu"), {})
    renderer, curriculum, model = experiment.renderer, experiment.curriculum, config.model
    size, prompt = renderer.vocabulary.size, renderer.prompt_length
    parameters = cost.parameters(model, size, renderer.context)
    training, measuring = Fraction(0), Fraction(0)
    for stage, iterations in enumerate(shares(config.iterations, curriculum.stages), start=1):
        formats = curriculum.formats(stage)
        steps = (cost.training_flops(model, size, config.batch, prompt, len(shown) + 1) for shown in formats)
        training += Fraction(iterations * sum(steps), len(formats))
        answers = sum(
            cost.answer_flops(model, size, prompt, len(mode.shown) + 1) for mode in modes(curriculum, stage)
        )
        times = 1 + iterations // config.evaluation_interval
        final = config.evaluation.final_samples if stage == curriculum.stages else 0
        measuring += 2 * answers * (times * config.evaluation.samples + final)  # in distribution and out of it
    stages = range(1, curriculum.stages + 1)
    kept = sum(keeps_stage(keep_stages, stage, curriculum.stages) for stage in stages)
    first = max(curriculum.formats(1), key=len)
    return Counted(
        float(training),
        float(measuring),
        BYTES * parameters * (kept + 3 * KEPT + 1),
        megabytes(experiment, first, parameters) * 2**20,
    )


def shares(iterations: int, stages: int) -> list[int]:
    """Iterations of each stage: equal, and the remainder to the last."""
    share = iterations // stages
    return [share] * (stages - 1) + [iterations - share * (stages - 1)]
