"""Inputs with hints: a circuit's input bits, its gates' values as further inputs, and the label (paper §5).

At stage r the r rightmost of the H hints are removed: replaced by noise, or by the neutral value. Bits are
0 and 1 in the binary form; in the bipolar form a bit b is written (-1)^b, so that ⊕ becomes a product and the
neutral 0 becomes 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from internalize.tasks.circuits import Circuit, Form, Replacement
from internalize.tasks.parity import uniform_inputs


def written(bits: Tensor, form: Form) -> Tensor:
    """Bits as the numbers that a network reads, float32."""
    numbers = bits.to(torch.float32, copy=True)
    return numbers if form == "binary" else numbers.mul_(-2.0).add_(1.0)


def middle(form: Form) -> float:
    """The number between the two labels: on which side an output lies is the answer."""
    return 0.5 if form == "binary" else 0.0


def neutral_number(form: Form) -> float:
    """What the neutral bit 0 is written as."""
    return 0.0 if form == "binary" else 1.0


def answers(outputs: Tensor, form: Form) -> Tensor:
    """(batch,) outputs of a network to the (batch,) bits that they mean, int64."""
    above = outputs > middle(form)
    return (above if form == "binary" else ~above).to(torch.int64)


@dataclass(frozen=True)
class Bits:
    """A sample in bits; all tensors are uint8."""

    x: Tensor
    """(batch, d)."""
    hints: Tensor
    """(batch, H): those that are shown, and what stands for the others."""
    label: Tensor
    """(batch,): the clean label."""
    noisy_label: Tensor
    """(batch,): flipped with the noise's probability."""


@dataclass(frozen=True)
class HintedTask:
    """A circuit and how its hints are shown."""

    circuit: Circuit
    replacement: Replacement = "noise"
    label_noise: float = 0.0
    """Probability that a label is flipped."""
    bias: float = 0.5
    """Share of ones in a biased input."""
    biased_share: float = 0.0
    """How many of the inputs are biased; the others are uniform."""

    @property
    def hints(self) -> int:
        """H, the number of hints."""
        return len(self.circuit.hint_names)

    def sample(self, removed: Tensor, batch: int, generator: torch.Generator) -> Bits:
        """A batch for each entry of `removed`, the (steps,) numbers of hints removed; consumes the generator.

        The rows of a step are consecutive: row s·batch is the first of step s.
        """
        count, d, hints = len(removed) * batch, self.circuit.inputs, self.hints
        drawn = uniform_inputs(count, d + hints, generator)
        x = self._inputs(drawn[:, :d].contiguous(), generator)
        values, label = self.circuit.evaluate(x)
        instead = drawn[:, d:] if self.replacement == "noise" else torch.zeros_like(values)
        shown = torch.arange(hints) < hints - removed[:, None]
        seen = torch.where(shown.repeat_interleave(batch, dim=0), values, instead)
        flipped = torch.zeros_like(label)
        if self.label_noise > 0:
            flipped = (self._uniform(count, generator) < self.label_noise).to(torch.uint8)
        return Bits(x, seen, label, label ^ flipped)

    def _inputs(self, uniform: Tensor, generator: torch.Generator) -> Tensor:
        """Some of the uniform inputs made biased, where the task says so."""
        if self.biased_share == 0:
            return uniform
        count, d = uniform.shape
        biased = (self._uniform(count * d, generator).view(count, d) < self.bias).to(torch.uint8)
        chosen = self._uniform(count, generator) < self.biased_share
        return torch.where(chosen[:, None], biased, uniform)

    def _uniform(self, count: int, generator: torch.Generator) -> Tensor:
        return torch.rand(count, generator=generator, device=generator.device).cpu()


def numbers(bits: Bits, form: Form) -> Tensor:
    """(batch, d + H) float32: what a network with places for hints reads."""
    return written(torch.cat([bits.x, bits.hints], dim=1), form)
