"""What a chain run will cost, counted from its config alone: operations, bytes on disk and in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import torch

from internalize.curricula import Shown
from internalize.curricula.schedule import EqualShares
from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.chain.evaluation import modes
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.runtime.counted import Counted, disk_bytes, measurements
from internalize.runtime.execution import KeepStages

BYTES = 4
"""Of a number in fp32, which weights and moments always are."""


def count(config: ChainConfig, keep_stages: KeepStages = "all") -> Counted:
    """Adaptive schedules are taken as if they used all their iterations, in equal shares."""
    experiment = ChainExperiment(config, torch.device("cpu"), {})
    costs, curriculum, prompt = experiment.costs, experiment.curriculum, experiment.renderer.prompt_length
    parameters = costs.parameters()
    training = Fraction(0)
    for stage, iterations in enumerate(EqualShares(config.iterations, curriculum.stages).sizes(), start=1):
        formats = curriculum.formats(stage)
        steps = (costs.training_flops(config.batch, prompt, len(shown) + 1) for shown in formats)
        training += Fraction(iterations * sum(steps), len(formats))
    measuring = sum(
        asked.answers * costs.answer_flops(prompt, asked.written) for asked in measured_answers(experiment)
    )
    weights = BYTES * parameters
    return Counted(
        float(training),
        float(measuring),
        disk_bytes(keep_stages, curriculum.stages, weights, 3 * weights, weights),  # two moments a weight
        megabytes(experiment, max(curriculum.formats(1), key=len), parameters) * 2**20,
    )


@dataclass(frozen=True)
class Asked:
    """Answers of one length that a model is measured by."""

    answers: int
    written: int
    """Tokens of each, EOS included."""


def measured_answers(experiment: ChainExperiment) -> Iterator[Asked]:
    """All answers of all measurements of a run, if every answer is as long as it was taught to be."""
    config, curriculum = experiment.config, experiment.curriculum
    shares = EqualShares(config.iterations, curriculum.stages)
    begun = 0
    for stage in range(1, curriculum.stages + 1):
        times = measurements(begun, shares.end(stage), config.evaluation_interval)
        final = config.evaluation.final_samples if stage == curriculum.stages else 0
        inputs = 2 * (times * config.evaluation.samples + final)  # in distribution and out of it
        for mode in modes(curriculum, stage):
            yield Asked(inputs, len(mode.shown) + 1)
        begun = shares.end(stage)


def megabytes(experiment: ChainExperiment, shown: Shown, parameters: int) -> float:
    """Weights, gradient and two optimizer moments; and what a forward pass keeps for the backward one."""
    length = experiment.renderer.prompt_length + len(shown)
    return (BYTES * 4 * parameters + experiment.costs.kept_bytes(experiment.config.batch, length)) / 2**20
