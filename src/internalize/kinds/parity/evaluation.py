"""The layer as a predictor, and what it really computes: on every input if there are few, and by its weights.

Two independent ways. *By inputs*: all 2^d for d ≤ 24, otherwise a stated sample. *By the weights*, for any d:
write a row as integers of the right parities plus a rest ε. Over x ∈ {0,1}^d the rest moves the sum by at most
the sum of its positive or of its negative entries; if both are below ½ every bit read off is right.

Beside it the contrast: the same layer trained directly on the final parity, without a chain and without phases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from internalize.kinds.parity.config import SAMPLE, ParityConfig
from internalize.kinds.parity.descent import PhaseBatch, descend, row_d_batch
from internalize.measure.internalization import Internalization, check_internalization
from internalize.measure.predictor import Prediction
from internalize.models.linear_attention import initial_weights, parity_activation
from internalize.models.parameters import digest_of
from internalize.runtime.kind import Streams
from internalize.statistics import clopper_pearson
from internalize.tasks.parity import BLOCK_BITS, MOST_ENUMERATED, HiddenParity, all_bits, uniform_inputs

# The verdict ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LayerPredictor:
    """Reads x, writes `steps` bits, answers with the last one. One step is the direct answer."""

    W: Tensor
    """(D, D) float64."""
    d: int
    steps: int

    @property
    def model_class(self) -> str:
        return f"one linear-attention layer with the parity activation on {len(self.W)} positions"

    @cached_property
    def weights_digest(self) -> str:
        """Only what the mask lets through counts as a weight."""
        return digest_of([("W", self.W.tril() + 0.0)])  # no negative zeros

    def outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, d) bits to (batch, steps) outputs f and the bits read off them, each appended in its turn.

        An output is read as 1 if it is above ½. With integer weights every output is a bit already.
        """
        content = x.to(torch.float64)
        rows = self.W[self.d - 1 : self.d - 1 + self.steps]
        reached = content @ rows[:, : self.d].T
        outputs, bits = torch.empty_like(reached), torch.empty_like(reached)
        for step in range(self.steps):
            outputs[:, step] = parity_activation(reached[:, step])
            bits[:, step] = outputs[:, step] > 0.5
            # the new token is seen by every later row
            for later in range(step + 1, self.steps):
                weight = float(rows[later, self.d + step])
                if weight != 0.0:
                    reached[:, later] += weight * bits[:, step]
        return outputs, bits

    def answer(self, inputs: Tensor) -> Prediction:
        """(batch, d) bits; a forward pass counts the multiplications and additions of the whole triangle."""
        _, bits = self.outputs(inputs)
        count = len(inputs)
        seen = torch.arange(self.d, self.d + self.steps, dtype=torch.float64)
        flops = float((seen * (seen + 1)).sum())
        return Prediction(
            output=bits[:, -1].to(torch.int64),
            forward_passes=torch.full((count,), self.steps, dtype=torch.int64),
            flops=torch.full((count,), flops, dtype=torch.float64),
        )


@dataclass(frozen=True)
class Verdict:
    """The layer W^(k) asked directly, and W^(1) asked for the chain."""

    inputs_checked: int
    exhaustive: bool
    direct_wrong: int
    """Inputs on which the direct answer of W^(k) is not the parity."""
    direct_deviation: float
    """max |f_W(x)_d - y|: 0 if the output is the very bit, below ½ if the bit is read off it rightly."""
    chain_wrong: int
    """Inputs on which some token of the chain that W^(1) writes is not the prefix parity."""
    direct_by_weights: bool
    chain_by_weights: bool
    support_found: tuple[int, ...]
    """The coordinates of row d with |W| > ½, numbered from 1."""
    support_recovered: bool
    """Whether these are the hidden ones; signs are left aside."""
    internalization: Internalization

    @property
    def exact(self) -> bool:
        """Right on every input: all were looked at, or the weights prove it."""
        return self.direct_wrong == 0 and (self.exhaustive or self.direct_by_weights)

    @property
    def chain_exact(self) -> bool:
        return self.chain_wrong == 0 and (self.exhaustive or self.chain_by_weights)

    @property
    def internalized(self) -> bool:
        """The strict definition on every input. That both answers agree on a sample would not be enough."""
        proved = self.exhaustive or (self.direct_by_weights and self.chain_by_weights)
        return self.internalization.holds and proved

    @property
    def error_bound(self) -> float:
        """The direct answer's share of wrong inputs, or for a sample an upper bound of it (95 %)."""
        if self.exhaustive:
            return self.direct_wrong / self.inputs_checked
        return clopper_pearson(self.direct_wrong, self.inputs_checked, 0.9).high


def judge(
    parity: HiddenParity, W: Tensor, W_chain: Tensor, generator: torch.Generator, sample: int | None = None
) -> Verdict:
    """W: W^(k), asked directly; W_chain: W^(1), asked for the chain.

    sample: how many inputs are drawn; if not given, all are asked up to d = 24. Drawing consumes the generator.
    """
    direct, chain = LayerPredictor(W, parity.d, 1), LayerPredictor(W_chain, parity.d, parity.k)
    exhaustive = sample is None and parity.d <= MOST_ENUMERATED
    drawn = None if exhaustive else sample or SAMPLE
    seed = generator.get_state()
    checked, direct_wrong, chain_wrong, deviation = 0, 0, 0, 0.0
    for x in _inputs(parity, generator, drawn):
        truth = parity.chain(x)
        outputs, bits = direct.outputs(x)
        checked += len(x)
        direct_wrong += int((bits[:, 0] != truth[:, -1]).sum())
        deviation = max(deviation, float((outputs[:, 0] - truth[:, -1]).abs().max()))
        chain_wrong += int((chain.outputs(x)[1] != truth).any(1).sum())
    generator.set_state(seed)  # the definition is checked on the same inputs
    found = support_of(W, parity.d)
    return Verdict(
        inputs_checked=checked,
        exhaustive=exhaustive,
        direct_wrong=direct_wrong,
        direct_deviation=deviation,
        chain_wrong=chain_wrong,
        direct_by_weights=direct_by_weights(parity, W),
        chain_by_weights=chain_by_weights(parity, W_chain),
        support_found=found,
        support_recovered=sorted(found) == sorted(parity.support),
        internalization=check_internalization(direct, chain, _inputs(parity, generator, drawn), exhaustive),
    )


def _inputs(parity: HiddenParity, generator: torch.Generator, drawn: int | None) -> Iterator[Tensor]:
    if drawn is None:
        yield from all_bits(parity.d)
        return
    block = 2**BLOCK_BITS
    for begun in range(0, drawn, block):
        yield uniform_inputs(min(block, drawn - begun), parity.d, generator)


def support_of(W: Tensor, d: int) -> tuple[int, ...]:
    """The coordinates that row d attends to, by |W| > ½, numbered from 1."""
    return tuple(int(j) + 1 for j in torch.nonzero(W[d - 1, :d].abs() > 0.5).flatten())


def direct_by_weights(parity: HiddenParity, W: Tensor) -> bool:
    """Whether row d's weights prove the direct answer right on all 2^d inputs."""
    return _proves(W[parity.d - 1, : parity.d], parity.indicator(parity.k))


def chain_by_weights(parity: HiddenParity, W: Tensor) -> bool:
    """Whether rows d … d+k-1 prove every token of the chain right on all inputs, one after the other.

    Once the tokens before it are right they are parities of x themselves, so row d+l-1 computes the parity of
    all coordinates that its odd weights bring in, directly or through a token, and that has to be the prefix.
    """
    d, prefixes = parity.d, torch.stack([parity.indicator(t) for t in range(1, parity.k + 1)])
    for before, wanted in enumerate(prefixes):
        row = W[d - 1 + before, : d + before]
        odd = torch.remainder(torch.round(row), 2)
        through = torch.remainder(odd[:d] + odd[d:] @ prefixes[:before], 2)
        if not torch.equal(through, wanted) or not _proves(row, odd):
            return False
    return True


def _proves(row: Tensor, odd: Tensor) -> bool:
    """Whether the row answers the parity of the coordinates where `odd` is 1, for all bits it may read."""
    nearest = odd + 2 * torch.round((row - odd) / 2)
    rest = row - nearest
    return float(rest.clamp(min=0).sum()) < 0.5 and float(rest.clamp(max=0).sum()) > -0.5


# The contrast --------------------------------------------------------------------------------------------

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
