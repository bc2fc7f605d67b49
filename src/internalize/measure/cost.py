"""What an answer costs: floating-point operations, counted from the shape of the model.

A product of (a, b) and (b, c) counts 2abc; layer norms, softmax and GELU are left out, as is usual.
"""

from __future__ import annotations

from internalize.models.gpt2 import ModelConfig


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
