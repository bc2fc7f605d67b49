"""What a network costs in floating-point operations and bytes.

For GPT-2 it is counted from the shape of the model: a product of (a, b) and (b, c) counts 2abc; layer norms,
softmax and GELU are left out, as is usual. For any other network torch counts while it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from internalize.models.config import ModelConfig

if TYPE_CHECKING:
    from internalize.models.language_model import LanguageModel
    from internalize.models.own_network import OwnNetwork


def parameters(model: ModelConfig, vocabulary: int, context: int) -> int:
    """Number of trained numbers."""
    d, m = model.width, model.mlp_width
    layer = 4 * d + (3 * d * d + 3 * d) + (d * d + d) + (d * m + m) + (m * d + d)
    positions = context * d if model.positions == "absolute" else 0
    return vocabulary * d + positions + model.depth * layer + 2 * d


def token_flops(model: ModelConfig, seen: int) -> int:
    """One token through all layers when `seen` positions (with its own) can be attended to."""
    d, m = model.width, model.mlp_width
    products = 2 * (3 * d * d + d * d + 2 * d * m)
    attention = 2 * 2 * d * seen
    return model.depth * (products + attention)


def answer_flops(model: ModelConfig, vocabulary: int, prompt: int, written: int) -> int:
    """Reading a prompt and writing tokens one by one with a key-value cache.

    The last token written is never read back; logits are needed once for each written token.
    """
    read = sum(token_flops(model, position + 1) for position in range(prompt + written - 1))
    return read + written * 2 * model.width * vocabulary


def training_flops(model: ModelConfig, vocabulary: int, batch: int, prompt: int, answer: int) -> int:
    """One training step on sequences of prompt and answer tokens: forward, and twice that backward.

    Useful work only: in the last layer queries, projection and MLP at the answer's positions alone.
    """
    d, m, length = model.width, model.mlp_width, prompt + answer - 1
    attended = sum(range(prompt, length + 1))
    last = length * 2 * 2 * d * d + answer * 2 * (2 * d * d + 2 * d * m) + 2 * 2 * d * attended
    earlier = sum(token_flops(model, i + 1) for i in range(length)) // model.depth * (model.depth - 1)
    return 3 * batch * (earlier + last + answer * 2 * d * vocabulary)


class NetworkCosts(Protocol):
    """What a network costs. This depends on its shape, not on its weights."""

    def parameters(self) -> int:
        """Number of trained numbers."""

    def answer_flops(self, prompt: int, written: int) -> int:
        """Operations to read a prompt and write so many tokens."""

    def training_flops(self, batch: int, prompt: int, answer: int) -> int:
        """Operations of one training step on sequences of prompt and answer tokens."""

    def kept_bytes(self, batch: int, length: int) -> int:
        """What a forward pass keeps for the backward one."""


def costs_of(model: LanguageModel) -> NetworkCosts:
    from internalize.models.own_network import OwnNetwork

    return CountedCosts(model) if isinstance(model, OwnNetwork) else ShapeCosts(model)


@dataclass(frozen=True)
class ShapeCosts:
    """GPT-2's. Only its shape is read."""

    model: LanguageModel

    def parameters(self) -> int:
        return parameters(self.model.config, self.model.vocabulary, self.model.context)

    def answer_flops(self, prompt: int, written: int) -> int:
        return answer_flops(self.model.config, self.model.vocabulary, prompt, written)

    def training_flops(self, batch: int, prompt: int, answer: int) -> int:
        return training_flops(self.model.config, self.model.vocabulary, batch, prompt, answer)

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
