"""Reading token by token, for generation."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from internalize.models.language_model import LanguageModel


class Decoder(Protocol):
    """A model that reads a prompt once and is then given one token at a time."""

    def prefill(self, tokens: Tensor) -> Tensor:
        """(batch, length) tokens; the logits (batch, vocabulary) after the last."""

    def append(self, tokens: Tensor) -> Tensor:
        """(batch,) next tokens; the logits (batch, vocabulary) after them."""

    def go_on(self, tokens: Tensor) -> Tensor:
        """(batch, new) tokens right after the prompt, as if nothing had come after it yet; the last logits."""


class PlainDecoder:
    """Any model with its own cache, on any device."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self._cache: Any = None
        self._prompt: Any = None

    def prefill(self, tokens: Tensor) -> Tensor:
        logits, self._cache = self.model(tokens, first=tokens.shape[1] - 1)
        self._prompt = self._cache  # it does not change when the model reads on
        return logits[:, 0]

    def append(self, tokens: Tensor) -> Tensor:
        logits, self._cache = self.model(tokens[:, None], cache=self._cache)
        return logits[:, 0]

    def go_on(self, tokens: Tensor) -> Tensor:
        logits, self._cache = self.model(tokens, first=tokens.shape[1] - 1, cache=self._prompt)
        return logits[:, 0]
