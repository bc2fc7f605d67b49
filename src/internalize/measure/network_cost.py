"""What a network costs: for GPT-2 by formulas on its shape, for any other counted by torch as it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from internalize.measure import cost
from internalize.models.language_model import LanguageModel
from internalize.models.own_network import OwnNetwork


class Costs(Protocol):
    """Of a network, whatever its weights."""

    def parameters(self) -> int:
        """Number of trained numbers."""

    def answer_flops(self, prompt: int, written: int) -> int:
        """Operations to read a prompt and write so many tokens."""

    def training_flops(self, batch: int, prompt: int, answer: int) -> int:
        """Operations of one training step on sequences of prompt and answer tokens."""

    def kept_bytes(self, batch: int, length: int) -> int:
        """What a forward pass keeps for the backward one."""


def costs_of(model: LanguageModel) -> Costs:
    return CountedCosts(model) if isinstance(model, OwnNetwork) else ShapeCosts(model)


@dataclass(frozen=True)
class ShapeCosts:
    """GPT-2's. Only its shape is read."""

    model: LanguageModel

    def parameters(self) -> int:
        return cost.parameters(self.model.config, self.model.vocabulary, self.model.context)

    def answer_flops(self, prompt: int, written: int) -> int:
        return cost.answer_flops(self.model.config, self.model.vocabulary, prompt, written)

    def training_flops(self, batch: int, prompt: int, answer: int) -> int:
        return cost.training_flops(self.model.config, self.model.vocabulary, batch, prompt, answer)

    def kept_bytes(self, batch: int, length: int) -> int:
        """For each token and layer about eleven rows of the width and three of the MLP; and two scores for
        each pair of positions and head where attention is not fused.
        """
        shape = self.model.config
        token = 11 * shape.width + 3 * shape.mlp_width + 2 * shape.heads * length
        return 4 * shape.depth * batch * length * token


@dataclass(frozen=True)
class CountedCosts:
    """A user's network's: it reads all tokens again for every token it writes."""

    model: OwnNetwork

    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    def answer_flops(self, prompt: int, written: int) -> int:
        return sum(self.model.flops(prompt + i) for i in range(written))

    def training_flops(self, batch: int, prompt: int, answer: int) -> int:
        """Forward, and twice that backward."""
        return 3 * batch * self.model.flops(prompt + answer - 1)

    def kept_bytes(self, batch: int, length: int) -> int:
        return batch * self.model.kept_bytes(length)
