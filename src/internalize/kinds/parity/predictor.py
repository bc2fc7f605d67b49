"""The layer as a predictor: the chain written out, or the direct answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from internalize.measure.predictor import Prediction
from internalize.models.linear_attention import parity_activation
from internalize.models.parameters import digest_of


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
