"""How long a training will take and how much memory: measured on a few steps of a throw-away copy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from internalize.curricula import Shown
from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.chain.counting import measured_answers, megabytes
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.chain.state import ChainState
from internalize.measure.predictor import generate
from internalize.models.path import make_decoder
from internalize.runtime.streams import Streams
from internalize.runtime.trials import median_seconds

TRIAL_ANSWERS = 64
LARGE_STEP = 2e10
"""Operations above which a step is timed on a part of its batch, so that the estimate stays quick."""


@dataclass(frozen=True)
class Estimate:
    parameters: int
    seconds: float
    megabytes: float


def seconds_of_run(config: ChainConfig, device: torch.device) -> float:
    """Weights from elsewhere are not read: they take as long as others."""
    return estimate(replace(config, init_from=None), device).seconds


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
    update = median_seconds(state.optimizer.step)
    parameters = sum(p.numel() for p in state.model.parameters())
    seconds = config.iterations * (per_step * config.batch / batch + update) + _evaluation_seconds(full, state)
    return Estimate(parameters, seconds, megabytes(full, first, parameters))


def _evaluation_seconds(experiment: ChainExperiment, state: ChainState) -> float:
    """All measurements of a run, from a few answers: the shortest, the longest, and a straight line between."""
    shortest, longest = 2, experiment.config.horizon + 1
    short, long = (_seconds_of_answer(experiment, state, written) for written in (shortest, longest))
    a_token = (long - short) / max(1, longest - shortest)
    return sum(
        asked.answers * (short + a_token * (asked.written - shortest)) for asked in measured_answers(experiment)
    )


def _seconds_of_answer(experiment: ChainExperiment, state: ChainState, written: int) -> float:
    """Of that many tokens, which a model that has learned nothing yet must be made to write."""
    renderer, inputs = experiment.renderer, experiment.inputs
    symbols = inputs.sample((TRIAL_ANSWERS, renderer.horizon), Streams(0, experiment.device)("estimate"))
    prompt = renderer.prompt(symbols, written if renderer.length_hint else None)

    def answer() -> None:
        decoder = make_decoder(state.kernel, state.model, TRIAL_ANSWERS)
        generate(decoder, prompt, renderer.vocabulary.eos, written, forced_states=written - 1)

    return median_seconds(answer) / TRIAL_ANSWERS


def _trial_batch(experiment: ChainExperiment, shown: Shown) -> int:
    config, prompt = experiment.config, experiment.renderer.prompt_length
    flops = experiment.costs.training_flops(config.batch, prompt, len(shown) + 1)
    return max(1, min(config.batch, int(config.batch * LARGE_STEP / flops)))


def _seconds_of_step(experiment: ChainExperiment, state: ChainState, streams: Streams, shown: Shown) -> float:
    """Data, forward and backward pass."""

    def step() -> None:
        symbols, states = experiment.data(0, streams)
        state.step(experiment.renderer.sequence(symbols, states, shown), experiment.renderer.prompt_length)

    return median_seconds(step)
