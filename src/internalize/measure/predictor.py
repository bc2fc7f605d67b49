"""A predictor: what definitions, matrices, self-play and constructions have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class Prediction:
    """Answers to a batch of inputs, and what each of them cost."""

    output: Tensor
    """(batch,) int64: the answer; -1 where none was given."""
    forward_passes: Tensor
    """(batch,) int64: calls of the network."""
    flops: Tensor
    """(batch,) float64: floating-point operations of these calls."""


class Predictor(Protocol):
    """A program that answers inputs."""

    @property
    def model_class(self) -> str:
        """The class of hypotheses it belongs to: same text, same class."""

    @property
    def weights_digest(self) -> str:
        """A hash of its parameters θ."""

    def answer(self, inputs: Tensor) -> Prediction:
        """(batch, …) inputs of the task."""
