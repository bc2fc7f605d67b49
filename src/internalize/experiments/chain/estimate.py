"""How long a training will take and how much memory: measured on a few steps of a throw-away copy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from internalize.curricula import Shown
from internalize.experiments.chain.config import ChainConfig
from internalize.experiments.chain.experiment import ChainExperiment
from internalize.experiments.chain.state import ChainState
from internalize.experiments.streams import Streams
from internalize.measure import cost

PATIENCE = 0.5
"""Seconds that timing one thing may take, beyond its first three calls."""
TRIAL_ANSWERS = 64
LARGE_STEP = 2e10
"""Operations above which a step is timed on a part of its batch, so that the estimate stays quick."""


@dataclass(frozen=True)
class Estimate:
    parameters: int
    seconds: float
    megabytes: float


def estimate(config: ChainConfig, device: torch.device) -> Estimate:
    """Time the first format and the last, and take the stages in between as a straight line.

    Adaptive schedules are taken as if they used all their iterations, in equal shares.
    """
    full = ChainExperiment(config, device, {})
    first, last = full.curriculum.formats(1)[0], full.curriculum.formats(full.curriculum.stages)[-1]
    batch = _trial_batch(full, first)
    trial = ChainExperiment(replace(config, batch=batch), device, {})
    streams = Streams(config.seed, device)
    state = trial.init(streams)
    formats = [first] if first == last else [first, last]
    per_step = sum(_seconds_of_step(trial, state, streams, shown) for shown in formats) / len(formats)
    update = _median_seconds(state.optimizer.step)
    parameters = sum(p.numel() for p in state.model.parameters())
    seconds = config.iterations * (per_step * config.batch / batch + update) + _evaluation_seconds(full, state)
    return Estimate(parameters, seconds, megabytes(full, first, parameters))


def _evaluation_seconds(experiment: ChainExperiment, state: ChainState) -> float:
    """All measurements of a run, from a few answers at full length; with stages half as long on average."""
    config = experiment.config
    symbols = experiment.inputs.sample(
        (TRIAL_ANSWERS, config.horizon), Streams(0, experiment.device)("estimate")
    )
    predictor = experiment.predictor(state, config.horizon + 1)
    an_answer = _median_seconds(lambda: predictor.generate(symbols)) / TRIAL_ANSWERS
    times = config.iterations // config.evaluation_interval + experiment.curriculum.stages
    answers = 2 * (times * config.evaluation.samples + config.evaluation.final_samples)
    return answers * an_answer / (1 if experiment.curriculum.stages == 1 else 2)


def _trial_batch(experiment: ChainExperiment, shown: Shown) -> int:
    config, renderer = experiment.config, experiment.renderer
    flops = cost.training_flops(
        config.model, renderer.vocabulary.size, config.batch, renderer.prompt_length, len(shown) + 1
    )
    return max(1, min(config.batch, int(config.batch * LARGE_STEP / flops)))


def _seconds_of_step(experiment: ChainExperiment, state: ChainState, streams: Streams, shown: Shown) -> float:
    """Data, forward and backward pass."""

    def step() -> None:
        symbols, states = experiment.data(0, streams)
        state.step(experiment.renderer.sequence(symbols, states, shown), experiment.renderer.prompt_length)

    return _median_seconds(step)


def _median_seconds(function: Callable[[], object]) -> float:
    """Of some calls, after one to warm up."""
    function()
    times: list[float] = []
    while len(times) < 2 or (len(times) < 20 and sum(times) < PATIENCE):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def megabytes(experiment: ChainExperiment, shown: Shown, parameters: int) -> float:
    """Weights, gradient and two optimizer moments; and what a forward pass keeps for the backward one.

    Kept for each token and layer: about eleven rows of the width and three of the MLP; and two scores for
    each pair of positions and head where attention is not fused.
    """
    config, renderer = experiment.config, experiment.renderer
    length = renderer.prompt_length + len(shown)
    model = config.model
    tokens = config.batch * length
    kept = model.depth * tokens * (11 * model.width + 3 * model.mlp_width + 2 * model.heads * length)
    return 4 * (4 * parameters + kept) / 2**20
