"""Sizes and weights of the generic transformer, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """All sizes of a transformer, so that its cost is known before anything is allocated."""

    tokens: int
    """Number of token ids."""
    positions: int
    """Length of the sequences that it reads."""
    embedding: int
    depth: int
    heads: int
    head_size: int
    mlp_widths: tuple[int, ...]
    """Hidden widths of every layer's MLP, from its input to its output."""

    @property
    def mlp_width(self) -> int:
        """The widest hidden layer."""
        return max(self.mlp_widths)

    @property
    def mlp_parameters(self) -> int:
        """Weights and biases of one layer's MLP."""
        widths = (self.embedding, *self.mlp_widths, self.embedding)
        return sum((a + 1) * b for a, b in pairwise(widths))

    @property
    def parameters(self) -> int:
        """Weights of all layers; the embedding tables are not counted."""
        attention = 4 * self.heads * self.head_size * self.embedding
        return self.depth * (attention + self.mlp_parameters)

    @property
    def flops(self) -> float:
        """Operations of one forward pass on one sequence, all positions of all layers, two a product."""
        projections = 4 * self.positions * self.heads * self.head_size * self.embedding
        mixing = 2 * self.positions**2 * self.heads * self.head_size
        return 2.0 * self.depth * (projections + mixing + self.positions * self.mlp_parameters)


@dataclass(frozen=True)
class HeadWeights:
    """One attention head: W_Q, W_K, W_V (head size, embedding) and W_C (embedding, head size)."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor


@dataclass(frozen=True)
class AffineWeights:
    """x ↦ weight·x + bias: (outputs, inputs) and (outputs,)."""

    weight: Tensor
    bias: Tensor
