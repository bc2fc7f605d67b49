"""How long a parity run will take: a call of phase 1, one of phase 2, and parts of the final measurements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from internalize.kinds.parity.baseline import STEP_SIZES, worth_contrasting
from internalize.kinds.parity.batch import row_d_batch
from internalize.kinds.parity.config import ParityConfig
from internalize.kinds.parity.counting import Phase, gram_flops
from internalize.kinds.parity.descent import descend
from internalize.kinds.parity.experiment import ParityExperiment
from internalize.kinds.parity.predictor import LayerPredictor
from internalize.kinds.parity.state import ParityState
from internalize.kinds.parity.verdict import SAMPLE
from internalize.measure.internalization import check_internalization
from internalize.runtime.streams import Streams
from internalize.runtime.trials import median_seconds, seconds_of
from internalize.tasks.parity import BLOCK_BITS, MOST_ENUMERATED, HiddenParity, uniform_inputs

TRIAL_STEPS = 100
"""Where every step is watched; elsewhere a whole call is timed."""


def seconds_of_run(config: ParityConfig, device: torch.device) -> float:
    """Phases that end by their loss are taken at their longest, unless one call sees the end. Whatever the
    device, it is the processor."""
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
    inputs = 2**config.d if config.d <= MOST_ENUMERATED else SAMPLE
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
        for size in STEP_SIZES:
            descend(batch, np.zeros((1, parity.d)), config.most_steps, size / (parity.d + 1))

    return config.k * (making + seconds_of(train))
