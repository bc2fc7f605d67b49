"""What training and measuring need of a network: tokens in, next-token logits out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from internalize.errors import require

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from internalize.models.config import ModelConfig


class LanguageModel(nn.Module, ABC):
    """A causal network over tokens: the built-in GPT-2, or a user's own."""

    def __init__(self, config: ModelConfig, vocabulary: int, context: int) -> None:
        """vocabulary: number of token ids; context: most tokens the model can read."""
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.context = context

    @abstractmethod
    def forward(
        self, tokens: Int[Tensor, "batch new"], first: int = 0, cache: Any = None
    ) -> tuple[Float[Tensor, "batch new-{first} vocabulary"], Any]:
        """Logits (batch, new - first, vocabulary) at the positions from `first` on, and the grown cache.

        tokens: (batch, new) ids; with a cache they follow the positions in it. What a cache is, each model
        knows for itself; one that was handed in does not change.
        """

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights that a training begins with; consumes the generator."""

    @property
    def hypotheses(self) -> str:
        """The class of functions that the weights choose from: same text, same class."""
        shape = self.config  # how weights are drawn at first and what is dropped on the way changes no function
        name = "" if shape.network is None else f"{shape.network}, "
        return (
            f"{name}depth {shape.depth}, width {shape.width}, {shape.heads} heads, MLP {shape.mlp_width} wide, "
            f"positions {shape.positions}; {self.vocabulary} tokens, {self.context} positions"
        )

    def weights(self) -> dict[str, Tensor]:
        """All that a file must hold to have the model again, under the names it has there; not copied."""
        return dict(self.state_dict())

    def require_fit(self, weights: Mapping[str, Tensor], field: str) -> None:
        """Refuse weights of which a name or a shape is not the model's. Reads only its own shapes."""
        own = self.weights()
        for name, tensor in own.items():
            require(name in weights, field, f"has no weights {name}")
            given, needed = tuple(weights[name].shape), tuple(tensor.shape)
            require(given == needed, field, f"{name} has shape {given}, this model needs {needed}")
        unknown = sorted(set(weights) - set(own))
        require(not unknown, field, f"has weights that this model lacks: {', '.join(unknown[:3])}")

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor], field: str) -> None:
        """Copy weights into the model, which must fit it."""
        self.require_fit(weights, field)
        for name, tensor in self.weights().items():
            tensor.copy_(weights[name])
