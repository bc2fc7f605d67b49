"""One training step of a transformer: from a batch to the gradient and the loss at every answer position."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from internalize.models.dropout import logits_with_dropout
from internalize.models.gpt2 import GPT2
from internalize.models.language_model import LanguageModel

Precision = Literal["fp32", "bf16"]
"""bf16: matrix products in bfloat16; weights, optimizer, layer norm and softmax stay in fp32."""


@dataclass
class AnswerStats:
    """What one training step saw at each of the answer's K+1 positions (K states and EOS)."""

    loss: Tensor
    """(K+1,) mean over the batch of the next-token log loss."""
    correct: Tensor
    """(K+1,) share of the batch whose most likely token is the right one."""


class Step(Protocol):
    """Fills the model's flat gradient (overwriting it) with that of the mean loss over the answer."""

    def __call__(self, tokens: Tensor, prompt: int, drops: torch.Generator | None = None) -> AnswerStats:
        """tokens: (batch, length) int64, prompt and answer with its EOS; the answer starts at index `prompt`.

        The model reads all but the last token; positions prompt-1 … length-2 predict tokens[:, prompt:].
        drops: decides what dropout sets to 0, for models that have it; consumed.
        """
        ...


class PlainStep:
    """The step by autograd: any network, any device; every faster step is compared with it."""

    def __init__(self, model: LanguageModel, gradient: Tensor, precision: Precision = "fp32") -> None:
        """gradient: the flat gradient that `flatten_parameters(model)` returned."""
        self.model = model
        self.gradient = gradient
        self.precision = precision

    def __call__(self, tokens: Tensor, prompt: int, drops: torch.Generator | None = None) -> AnswerStats:
        self.gradient.zero_()
        with self._products(tokens.device):
            logits = self._logits(tokens[:, :-1], prompt - 1, drops)
        logits = logits.float()
        target = tokens[:, prompt:]
        loss = cross_entropy(logits.transpose(1, 2), target, reduction="none")
        loss.mean().backward()
        correct = (logits.detach().argmax(-1) == target).to(torch.float32)
        return AnswerStats(loss.detach().mean(0), correct.mean(0))

    def _logits(self, tokens: Tensor, first: int, drops: torch.Generator | None) -> Tensor:
        if drops is not None:
            assert isinstance(self.model, GPT2)  # a config with another network has no dropout
            return logits_with_dropout(self.model, tokens, first, drops)
        logits: Tensor = self.model(tokens, first=first)[0]
        return logits

    def _products(self, device: torch.device) -> AbstractContextManager[object]:
        """How matrix products are computed; not every device has autocast, so it is asked only when needed."""
        return torch.autocast(device.type, torch.bfloat16) if self.precision == "bf16" else nullcontext()
