"""The contrast: the same layer trained directly on the final parity, without a chain and without phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from internalize.kinds.parity.config import ParityConfig
from internalize.kinds.parity.data import PhaseBatch, row_d_batch
from internalize.kinds.parity.descent import descend
from internalize.kinds.parity.evaluation import LayerPredictor, direct_by_weights
from internalize.models.linear_attention import initial_weights
from internalize.runtime.streams import Streams
from internalize.tasks.parity import HiddenParity, uniform_inputs

STEP_SIZES = (0.1, 0.3, 1.0, 3.0, 7.0)
"""Step sizes that are tried, in 1/(d+1); the best one counts. Descent is stable below 8."""
WANDERING = (10.0, 30.0)
"""Step sizes beyond stability: descent no longer descends but wanders, and may stumble on a short parity."""
TEST_INPUTS = 20_000
SMALLEST_D, SMALLEST_K = 8, 3
"""Below these, direct training has so few inputs or so short a parity that it is no contrast."""


@dataclass(frozen=True)
class Contrast:
    """Direct training at its best step size."""

    accuracy: float
    """Bits answered rightly on fresh inputs; ½ is guessing."""
    exact: bool
    """Whether the weights compute the parity on every input."""
    step_size: float


def worth_contrasting(config: ParityConfig) -> bool:
    return config.d >= SMALLEST_D and config.k >= SMALLEST_K


def train_directly(
    config: ParityConfig,
    parity: HiddenParity,
    steps: int,
    streams: Streams,
    step_sizes: Sequence[float] = STEP_SIZES,
) -> Contrast:
    """Row d against y on k fresh batches of B, `steps` steps on each: as many as the curriculum had.

    Consumes streams("direct", batch) and streams("direct test"). Every step size sees the same examples;
    weights are judged as they are and rounded, and the better counts.
    """
    k = parity.k
    batches = [row_d_batch(parity, k, config.examples, streams("direct", i)) for i in range(k)]
    tries = [_one_try(parity, batches, steps, size / (parity.d + 1), streams) for size in step_sizes]
    return max(tries, key=lambda contrast: (contrast.exact, contrast.accuracy))


def _one_try(
    parity: HiddenParity,
    batches: list[PhaseBatch],
    steps: int,
    eta: float,
    streams: Streams,
) -> Contrast:
    row = np.zeros((1, parity.d))
    for batch in batches:
        row = descend(batch, row, steps, eta).weights
    x = uniform_inputs(TEST_INPUTS, parity.d, streams("direct test"))
    y = parity.chain(x)[:, -1]
    best = Contrast(0.0, False, eta)
    for weights in (row, np.rint(row)):
        W = initial_weights(parity.d, parity.k)
        W[parity.d - 1, : parity.d] = torch.from_numpy(weights[0])
        accuracy = float((LayerPredictor(W, parity.d, 1).outputs(x)[1][:, 0] == y).double().mean())
        tried = Contrast(accuracy, direct_by_weights(parity, W), eta)
        best = max(best, tried, key=lambda contrast: (contrast.exact, contrast.accuracy))
    return best
