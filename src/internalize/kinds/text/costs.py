"""What a language model costs, from its shape: operations of an answer and of a training step.

A product of (a, b) and (b, c) counts 2abc; norms, softmax and activations are left out, as is usual.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True)
class TextCosts:
    """Of a model, whatever its weights."""

    parameters: int
    products: int
    """Weights that every token is multiplied with, the unembedding not among them."""
    unembedding: int
    layers: int
    width: int

    @classmethod
    def of(cls, model: nn.Module) -> TextCosts:
        whole: Any = model
        config = whole.config
        head = whole.get_output_embeddings().weight
        tables = {id(head), *(id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding))}
        matrices = {id(p): p.numel() for p in model.parameters() if p.dim() == 2 and id(p) not in tables}
        return cls(
            parameters=sum(p.numel() for p in model.parameters()),
            products=sum(matrices.values()),
            unembedding=head.numel(),
            layers=_number(config, "num_hidden_layers", "n_layers", "n_layer"),
            width=_number(config, "hidden_size", "d_model", "n_embd"),
        )

    def read(self, length: int, before: int = 0) -> int:
        """Operations to read so many tokens after others, logits not counted."""
        attended = sum(range(before + 1, before + length + 1))
        return 2 * self.products * length + 4 * self.layers * self.width * attended

    def answer_flops(self, prompt: int, written: int) -> int:
        """Reading a prompt and writing tokens one by one with a cache; the last one is never read back."""
        if written == 0:
            return 0
        return self.read(prompt + written - 1) + 2 * written * self.unembedding

    def training_flops(self, prompt: int, answer: int) -> int:
        """One row of a training step: forward, and twice that backward."""
        return 3 * (self.read(prompt + answer - 1) + 2 * answer * self.unembedding)

    def kept_bytes(self, tokens: int, vocabulary: int) -> int:
        """What a forward pass keeps for the backward one: about twenty rows of the width for each token and
        layer, and the logits twice."""
        return 4 * tokens * (20 * self.layers * self.width + 2 * vocabulary)


def _number(config: Any, *names: str) -> int:
    return next((int(getattr(config, name)) for name in names if hasattr(config, name)), 0)
