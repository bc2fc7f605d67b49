"""How long a training will take and how much memory: measured on a few steps of a throw-away copy."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch

from internalize.curricula import Shown
from internalize.experiments.chain.config import ChainConfig
from internalize.experiments.chain.experiment import ChainExperiment
from internalize.experiments.chain.state import ChainState
from internalize.experiments.streams import Streams
from internalize.measure import cost

PATIENCE = 0.5
"""Seconds that timing one format may take, beyond its first two steps."""
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
    per_step = [_seconds_of_step(trial, state, streams, shown) for shown in formats]
    seconds = config.iterations * sum(per_step) / len(per_step) * config.batch / batch
    parameters = sum(p.numel() for p in state.model.parameters())
    return Estimate(parameters, seconds, _megabytes(full, first, parameters))


def _trial_batch(experiment: ChainExperiment, shown: Shown) -> int:
    config, renderer = experiment.config, experiment.renderer
    flops = cost.training_flops(
        config.model, renderer.vocabulary.size, config.batch, renderer.prompt_length, len(shown) + 1
    )
    return max(1, min(config.batch, int(config.batch * LARGE_STEP / flops)))


def _seconds_of_step(experiment: ChainExperiment, state: ChainState, streams: Streams, shown: Shown) -> float:
    """The median time of a step, after one to warm up."""
    times: list[float] = []
    for i in range(20):
        start = time.perf_counter()
        symbols, states = experiment.data(i, streams)
        state.step(experiment.renderer.sequence(symbols, states, shown), experiment.renderer.prompt_length)
        state.optimizer.step()
        times.append(time.perf_counter() - start)
        if i >= 2 and sum(times[1:]) > PATIENCE:
            break
    return sorted(times[1:])[(len(times) - 1) // 2]


def _megabytes(experiment: ChainExperiment, shown: Shown, parameters: int) -> float:
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
