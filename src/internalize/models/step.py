"""One training step of a transformer: from a batch to the gradient and the loss at every answer position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from internalize.models.gpt2 import GPT2


@dataclass
class AnswerStats:
    """What one training step saw at each of the answer's K+1 positions (K states and EOS)."""

    loss: Tensor
    """(K+1,) mean over the batch of the next-token log loss."""
    correct: Tensor
    """(K+1,) share of the batch whose most likely token is the right one."""


class Step(Protocol):
    """Fills the model's flat gradient (overwriting it) with that of the mean loss over the answer."""

    def __call__(self, tokens: Tensor, prompt: int) -> AnswerStats:
        """tokens: (batch, length) int64, prompt and answer with its EOS; the answer starts at index `prompt`.

        The model reads all but the last token; positions prompt-1 … length-2 predict tokens[:, prompt:].
        """
        ...


class PlainStep:
    """The step by autograd: any device, any position encoding; every faster step is compared with it."""

    def __init__(self, model: GPT2, gradient: Tensor) -> None:
        """gradient: the flat gradient that `flatten_parameters(model)` returned."""
        self.model = model
        self.gradient = gradient

    def __call__(self, tokens: Tensor, prompt: int) -> AnswerStats:
        self.gradient.zero_()
        logits, _ = self.model(tokens[:, :-1], first=prompt - 1)
        target = tokens[:, prompt:]
        loss = cross_entropy(logits.transpose(1, 2), target, reduction="none")
        loss.mean().backward()  # type: ignore[no-untyped-call]
        correct = (logits.detach().argmax(-1) == target).to(torch.float32)
        return AnswerStats(loss.detach().mean(0), correct.mean(0))
