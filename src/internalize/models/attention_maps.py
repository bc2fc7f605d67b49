"""A GPT-2 pass that shows what it usually keeps to itself: attention and the residual stream."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from internalize.models.gpt2 import GPT2, Attention, Block, rotate


def run_with_attention(model: GPT2, tokens: Tensor) -> tuple[tuple[Tensor, ...], list[Tensor], Tensor]:
    """The plain pass over (batch, length) tokens.

    Returns for each layer the mean attention (heads, length, length) over the batch, the residual stream
    (batch, length, width) before the first and after every layer, and the logits at the last position.
    """
    x = model.embed(tokens)
    stream, patterns = [x], []
    for block in cast(list[Block], list(model.transformer.h)):
        patterns.append(attention_pattern(block.attn, block.ln_1(x)).mean(dim=0))
        x, _ = block(x, None)
        stream.append(x)
    logits = model.transformer.ln_f(x[:, -1]) @ model.transformer.wte.weight.T
    return tuple(patterns), stream, logits


def attention_pattern(attention: Attention, x: Tensor) -> Tensor:
    """(batch, length, width), normalised, to the attention weights (batch, heads, length, length)."""
    q, k, _ = attention.c_attn(x).chunk(3, dim=-1)
    q, k = (part.unflatten(-1, (attention.heads, -1)).transpose(1, 2) for part in (q, k))
    if attention.rotary:
        q, k = rotate(q, 0), rotate(k, 0)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(dim=-1)
