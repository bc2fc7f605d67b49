"""Reading token by token, for generation."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from internalize.models.gpt2 import GPT2, LayerCache


class Decoder(Protocol):
    """A model that reads a prompt once and is then given one token at a time."""

    def prefill(self, tokens: Tensor) -> Tensor:
        """(batch, length) tokens; the logits (batch, vocabulary) after the last."""

    def append(self, tokens: Tensor) -> Tensor:
        """(batch,) next tokens; the logits (batch, vocabulary) after them."""


class PlainDecoder:
    """The plain model with its own cache: any device."""

    def __init__(self, model: GPT2) -> None:
        self.model = model
        self._cache: list[LayerCache] | None = None

    def prefill(self, tokens: Tensor) -> Tensor:
        logits, self._cache = self.model(tokens, first=tokens.shape[1] - 1)
        return logits[:, 0]

    def append(self, tokens: Tensor) -> Tensor:
        logits, self._cache = self.model(tokens[:, None], cache=self._cache)
        return logits[:, 0]
