"""How long a run with hints will take: some steps and a small measurement, in memory and thrown away."""

from __future__ import annotations

from dataclasses import replace

import torch

from internalize.kinds.hints.config import HintsConfig
from internalize.kinds.hints.counting import count, evaluation_flops
from internalize.kinds.hints.experiment import HintsExperiment
from internalize.runtime.streams import Streams
from internalize.runtime.trials import median_seconds, seconds_of

TRIAL_SECONDS = 1.0
"""Steps are taken for so long; at least one call of them."""
TRIAL_INPUTS = 512
"""Of the measurement that is timed; the others take as much longer as they have more products."""


def seconds_of_run(config: HintsConfig, device: torch.device) -> float:
    few = replace(config.evaluation, samples=min(config.evaluation.samples, TRIAL_INPUTS))
    experiment = HintsExperiment(replace(config, evaluation=few), device, {})
    streams = Streams(config.seed, device)
    state = experiment.init(streams)
    a_measurement = median_seconds(lambda: experiment.evaluate(state, streams))
    measuring = a_measurement * count(config).measuring_flops / evaluation_flops(experiment)
    training = 0.0
    while training < TRIAL_SECONDS and not experiment.done(state):
        training += seconds_of(lambda: experiment.advance(state, streams))
    return training * config.all_steps / state.step + measuring
