"""A construction as a predictor: one call of the network, no word written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from internalize.constructions.checking import chunk_size
from internalize.constructions.construction import Construction
from internalize.measure.predictor import Prediction
from internalize.models.digest import digest_of


@dataclass(frozen=True)
class ConstructionPredictor:
    """Answers (batch, T) symbols with the final state."""

    construction: Construction

    @property
    def model_class(self) -> str:
        shape = self.construction.shape
        widths = "×".join(str(width) for width in shape.mlp_widths)
        return (
            f"softmax attention, ReLU MLP, no residual: depth {shape.depth}, embedding {shape.embedding}, "
            f"{shape.heads} heads of {shape.head_size}, MLP {widths}, {shape.positions} positions"
        )

    @cached_property
    def weights_digest(self) -> str:
        return digest_of(sorted(self.construction.network.state_dict().items()))

    def answer(self, inputs: Tensor) -> Prediction:
        """One forward pass an input."""
        pieces = [self.construction.answer(piece) for piece in inputs.split(chunk_size(self.construction))]
        count = len(inputs)
        return Prediction(
            output=torch.cat(pieces) if pieces else torch.empty(0, dtype=torch.int64),
            forward_passes=torch.ones(count, dtype=torch.int64),
            flops=torch.full((count,), self.construction.shape.flops, dtype=torch.float64),
        )
