"""A GPT-2-type transformer with the weight names and layout of Hugging Face's GPT-2.

Pre-LN, residual, GELU in its tanh form, tied unembedding. This is the plain, readable path: it runs on any
device and is what every faster path is compared with. Dropout stands apart, in `models/dropout.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from internalize.models.config import ModelConfig, initial_spread
from internalize.models.language_model import LanguageModel

if TYPE_CHECKING:
    from jaxtyping import Float, Int

LAYER_NORM_EPSILON = 1e-5
ROTARY_BASE = 10_000.0


class Conv1D(nn.Module):
    """Hugging Face's name for an affine map whose weight is stored as (inputs, outputs)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        return torch.addmm(self.bias, x.flatten(0, -2), self.weight).unflatten(0, x.shape[:-1])


@dataclass
class LayerCache:
    """Keys and values of the positions a layer has already seen, each (batch, heads, seen, head size)."""

    keys: Float[Tensor, "batch heads seen head_size"]
    values: Float[Tensor, "batch heads seen head_size"]


class Attention(nn.Module):
    """Causal multi-head attention, scores divided by the root of the head size."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.rotary = config.positions == "rotary"
        self.c_attn = Conv1D(config.width, 3 * config.width)
        self.c_proj = Conv1D(config.width, config.width)

    def forward(
        self, x: Float[Tensor, "batch new width"], cache: LayerCache | None
    ) -> tuple[Float[Tensor, "batch new width"], LayerCache]:
        """x: (batch, new, width), the positions after those in the cache. Returns the same shape."""
        seen = 0 if cache is None else cache.keys.shape[2]
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=-1)
        )
        if self.rotary:
            q, k = rotate(q, seen), rotate(k, seen)
        if cache is not None:
            k = torch.cat([cache.keys, k], dim=2)
            v = torch.cat([cache.values, v], dim=2)
        if seen == 0:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        elif x.shape[1] == 1:
            mixed = F.scaled_dot_product_attention(q, k, v)
        else:
            mask = torch.ones(x.shape[1], k.shape[2], dtype=torch.bool, device=x.device).tril(seen)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.c_proj(mixed.transpose(1, 2).flatten(2)), LayerCache(k, v)


class GPT2MLP(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.c_fc = Conv1D(config.width, config.mlp_width)
        self.c_proj = Conv1D(config.mlp_width, config.width)

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        out: Tensor = self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))
        return out


class Block(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.width, eps=LAYER_NORM_EPSILON)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.width, eps=LAYER_NORM_EPSILON)
        self.mlp = GPT2MLP(config)

    def forward(
        self, x: Float[Tensor, "batch new width"], cache: LayerCache | None
    ) -> tuple[Float[Tensor, "batch new width"], LayerCache]:
        mixed, cache = self.attn(self.ln_1(x), cache)
        x = x + mixed
        return x + self.mlp(self.ln_2(x)), cache


def _table(rows: int, width: int) -> nn.Embedding:
    """Uninitialised: torch's own numbers would be drawn in vain, and on the device `meta`, where shapes are
    checked, drawing them imports its whole compiler."""
    return nn.Embedding.from_pretrained(torch.empty(rows, width), freeze=False)


class Trunk(nn.Module):
    """Embeddings, layers and the last layer norm: what Hugging Face calls `transformer`."""

    def __init__(self, config: ModelConfig, vocabulary: int, context: int) -> None:
        super().__init__()
        self.wte = _table(vocabulary, config.width)
        if config.positions == "absolute":
            self.wpe = _table(context, config.width)
        self.h = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.ln_f = nn.LayerNorm(config.width, eps=LAYER_NORM_EPSILON)


class GPT2(LanguageModel):
    """Weights are uninitialised until `initialise` or a load."""

    places: Tensor | None = None
    """(context,) the absolute position of the first token of a sequence, of the second, …; 0, 1, 2, … if not
    given. No weight: whoever trains or asks the model sets it."""

    def __init__(self, config: ModelConfig, vocabulary: int, context: int) -> None:
        super().__init__(config, vocabulary, context)
        self.transformer = Trunk(config, vocabulary, context)

    def embed(self, tokens: Int[Tensor, "batch new"], seen: int = 0) -> Float[Tensor, "batch new width"]:
        """Token and position embeddings of (batch, new) ids that follow `seen` earlier ones."""
        x: Tensor = self.transformer.wte(tokens)
        if self.config.positions == "absolute":
            here = slice(seen, seen + tokens.shape[1])
            x = x + self.transformer.wpe.weight[here if self.places is None else self.places[here]]
        return x

    def forward(
        self, tokens: Int[Tensor, "batch new"], first: int = 0, cache: list[LayerCache] | None = None
    ) -> tuple[Float[Tensor, "batch new-{first} vocabulary"], list[LayerCache]]:
        seen = 0 if cache is None else cache[0].keys.shape[2]
        if seen + tokens.shape[1] > self.context:
            raise ValueError(f"reads at most {self.context} tokens, got {seen + tokens.shape[1]}")
        x = self.embed(tokens, seen)
        grown = []
        for i, block in enumerate(self.transformer.h):
            x, layer = block(x, None if cache is None else cache[i])
            grown.append(layer)
        x = self.transformer.ln_f(x[:, first:])
        return x @ self.transformer.wte.weight.T, grown

    def matrices(self) -> list[nn.Parameter]:
        """The weights of attention and MLPs, without embeddings, in the order of all parameters."""
        return [own for name, own in self.named_parameters() if ".h." in name and own.ndim == 2]

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Hugging Face's GPT-2 initialisation, drawn in the order of the parameters' names."""
        plain_std = initial_spread(self.config)
        residual_std = plain_std / (2 * self.config.depth) ** 0.5
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif ".ln_" in name:
                parameter.fill_(1.0)
            else:
                std = residual_std if name.endswith("c_proj.weight") else plain_std
                parameter.normal_(0.0, std, generator=generator)


def rotate(
    x: Float[Tensor, "batch heads new head_size"], seen: int
) -> Float[Tensor, "batch heads new head_size"]:
    """Rotary positions: turn the pairs (i, i + size/2) of every head by an angle that grows with position.

    x: (batch, heads, new, head size), at positions seen, seen + 1, …
    """
    half = x.shape[-1] // 2
    position = torch.arange(seen, seen + x.shape[2], device=x.device, dtype=torch.float32)
    frequency = ROTARY_BASE ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = position[:, None] * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


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
        patterns.append(attention_pattern(block.attn, block.ln_1(x)).mean(dim=0))
        x, _ = block(x, None)
        stream.append(x)
    logits = model.transformer.ln_f(x[:, -1]) @ model.transformer.wte.weight.T
    return tuple(patterns), stream, logits


def attention_pattern(
    attention: Attention, x: Float[Tensor, "batch length width"]
) -> Float[Tensor, "batch heads length length"]:
    """(batch, length, width), normalised, to the attention weights (batch, heads, length, length)."""
    q, k, _ = attention.c_attn(x).chunk(3, dim=-1)
    q, k = (part.unflatten(-1, (attention.heads, -1)).transpose(1, 2) for part in (q, k))
    if attention.rotary:
        q, k = rotate(q, 0), rotate(k, 0)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(dim=-1)
