"""Two further passes over a GPT-2: with dropout, for training, and with its attention shown, for analyses.

Dropout is as in Hugging Face's GPT-2, but from an explicit stream: dropped are the embeddings, the attention
weights, and what attention and MLP add to the residual stream. Its last layer is computed only at the positions
that the loss looks at: most of the work of a shallow model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from internalize.models.gpt2 import GPT2, Attention, Block, rotate

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def logits_with_dropout(
    model: GPT2, tokens: Int[Tensor, "batch length"], first: int, drops: torch.Generator
) -> Float[Tensor, "batch length-{first} vocabulary"]:
    """(batch, length) tokens to logits (batch, length - first, vocabulary) from position `first` on.

    Consumes drops: embeddings, then layer by layer attention weights, attention, MLP.
    """
    p, trunk = model.config.dropout or 0.0, model.transformer
    x = drop(model.embed(tokens), p, drops)
    for i, block in enumerate(trunk.h):
        assert isinstance(block, Block)
        x = _block(block, x, first if i + 1 == len(trunk.h) else 0, p, drops)
    logits: Tensor = trunk.ln_f(x) @ trunk.wte.weight.T
    return logits


def drop(x: Float[Tensor, " *shape"], p: float, drops: torch.Generator) -> Float[Tensor, " *shape"]:
    """Each entry 0 with probability p, else divided by 1-p, so that the mean stays."""
    kept = torch.rand(x.shape, generator=drops, device=x.device) >= p
    return x * kept / (1 - p)


def _block(
    block: Block, x: Float[Tensor, "batch length width"], first: int, p: float, drops: torch.Generator
) -> Float[Tensor, "batch length-{first} width"]:
    mixed = _attention(block.attn, block.ln_1(x), first, p, drops)
    x = x[:, first:] + drop(mixed, p, drops)
    return x + drop(block.mlp(block.ln_2(x)), p, drops)


def _attention(
    attention: Attention, x: Float[Tensor, "batch length width"], first: int, p: float, drops: torch.Generator
) -> Float[Tensor, "batch length-{first} width"]:
    """(batch, length, width) to (batch, length - first, width): only positions from `first` on ask."""
    q, k, v = (
        part.unflatten(-1, (attention.heads, -1)).transpose(1, 2)
        for part in attention.c_attn(x).chunk(3, dim=-1)
    )
    scores = q[:, :, first:] @ k.transpose(2, 3) / q.shape[-1] ** 0.5
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(first)
    weights = drop(F.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1), p, drops)
    mixed: Tensor = attention.c_proj((weights @ v).transpose(1, 2).flatten(2))
    return mixed


def run_with_attention(
    model: GPT2, tokens: Int[Tensor, "batch length"]
) -> tuple[
    tuple[Float[Tensor, "heads length length"], ...],
    list[Float[Tensor, "batch length width"]],
    Float[Tensor, "batch vocabulary"],
]:
    """The plain pass over (batch, length) tokens.

    Returns for each layer the mean attention (heads, length, length) over the batch, the residual stream
    (batch, length, width) before the first and after every layer, and the logits at the last position.
    """
    x = model.embed(tokens)
    stream, patterns = [x], []
    for block in cast(list[Block], list(model.transformer.h)):
        attention = block.attn
        q, k, _ = attention.c_attn(block.ln_1(x)).chunk(3, dim=-1)
        q, k = (part.unflatten(-1, (attention.heads, -1)).transpose(1, 2) for part in (q, k))
        if attention.rotary:
            q, k = rotate(q, 0), rotate(k, 0)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        patterns.append(scores.masked_fill(later, -torch.inf).softmax(dim=-1).mean(dim=0))
        x, _ = block(x, None)
        stream.append(x)
    logits = model.transformer.ln_f(x[:, -1]) @ model.transformer.wte.weight.T
    return tuple(patterns), stream, logits
