"""Dropout as in Hugging Face's GPT-2: which numbers are dropped, and the plain pass that drops them.

What a step drops is a function of its stream and of each entry's place alone: nothing is drawn in an order. So
the fast path, on any number of threads, drops the same entries as the plain pass here.

The numbers are those of SplitMix64 (Java's SplittableRandom; Steele, Lea and Flood 2014): word i of a site is
mix(key + i · GAMMA). `mix` is a bijection of 64 bits, and the sequence of its values passes BigCrush, a battery
of tests for random numbers. Each word decides four entries by 16 bits each, so rates are rounded to 1/65,536.
Every site (a layer's attention weights, for instance) has a key of its own, 64 bits that the stream gives anew
in every step: two sites would have to begin near each other on a circle of 2^64 words to share any. Whoever
knows some words can tell the others, but dropout has no adversary. Two multiplications give four entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from internalize.models.gpt2 import GPT2, Attention, Block

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

GAMMA, FIRST_FACTOR, SECOND_FACTOR = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""SplitMix64's constants, as unsigned numbers of 64 bits."""
ENTRIES = 4
"""How many entries each word of 64 bits decides."""
STEPS = 1 << 16


@dataclass(frozen=True)
class Drops:
    """What one training step drops. A site's number names it: see `embedding_site` and those after it."""

    keys: tuple[int, ...]
    """For each site, a signed number of 64 bits."""
    limit: int
    """An entry is kept if its number, from -32,768 to 32,767, is at least this."""
    scale: float
    """What is kept is multiplied by this, so that the mean stays."""

    @classmethod
    def draw(cls, rate: float, depth: int, generator: torch.Generator) -> Drops:
        """Consumes the generator."""
        dropped = min(round(rate * STEPS), STEPS - 1)
        size, ends = (sites(depth),), (-(1 << 63), (1 << 63) - 1)
        keys = torch.randint(*ends, size, generator=generator, device=generator.device)
        return cls(tuple(keys.tolist()), dropped - STEPS // 2, STEPS / (STEPS - dropped))

    @classmethod
    def nothing(cls, depth: int) -> Drops:
        """Every entry is kept."""
        return cls((0,) * sites(depth), -STEPS // 2, 1.0)

    def factors(self, site: int, rows: Int[Tensor, " *rows"], entries: int) -> Float[Tensor, "*rows {entries}"]:
        """0 or `scale` for each entry of rows with these numbers; a row has its words for itself."""
        words = -(-entries // ENTRIES)
        counter = rows[..., None] * words + torch.arange(words, device=rows.device)
        numbers = mix(counter * signed(GAMMA) + self.keys[site]).view(torch.int16)
        kept: Bool[Tensor, "*rows entries"] = numbers[..., :entries] >= self.limit
        return kept * self.scale


def sites(depth: int) -> int:
    return 1 + 3 * depth


def embedding_site() -> int:
    """Its rows: (sequence, position), each with an entry for each component."""
    return 0


def weights_site(layer: int) -> int:
    """A layer's attention weights. Its rows: (sequence, query, key), each with an entry for each head."""
    return 1 + 3 * layer


def attention_site(layer: int) -> int:
    """What a layer's attention adds to the residual stream. Its rows: (sequence, position)."""
    return 2 + 3 * layer


def mlp_site(layer: int) -> int:
    """What a layer's MLP adds to the residual stream. Its rows: (sequence, position)."""
    return 3 + 3 * layer


def signed(word: int) -> int:
    """An unsigned number of 64 bits as torch has it: there are no unsigned ones to compute with."""
    return word - (1 << 64) if word >> 63 else word


def mix(z: Int[Tensor, " *shape"]) -> Int[Tensor, " *shape"]:
    """SplitMix64's output function, on numbers of 64 bits; products and sums go round."""
    z = (z ^ _shifted(z, 30)) * signed(FIRST_FACTOR)
    z = (z ^ _shifted(z, 27)) * signed(SECOND_FACTOR)
    return z ^ _shifted(z, 31)


def _shifted(z: Int[Tensor, " *shape"], by: int) -> Int[Tensor, " *shape"]:
    """To the right, filled with zeros instead of the sign."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def logits_with_dropout(
    model: GPT2, tokens: Int[Tensor, "batch length"], first: int, drops: Drops
) -> Float[Tensor, "batch length-{first} vocabulary"]:
    """(batch, length) tokens to logits (batch, length - first, vocabulary) from position `first` on."""
    trunk = model.transformer
    place = torch.arange(tokens.numel(), device=tokens.device).view(tokens.shape)
    x = model.embed(tokens)
    x = x * drops.factors(embedding_site(), place, x.shape[-1])
    for i, block in enumerate(trunk.h):
        assert isinstance(block, Block)
        start = first if i + 1 == len(trunk.h) else 0
        here = place[:, start:]
        mixed = _attention(block.attn, block.ln_1(x), here, drops, weights_site(i))
        x = x[:, start:] + mixed * drops.factors(attention_site(i), here, x.shape[-1])
        x = x + block.mlp(block.ln_2(x)) * drops.factors(mlp_site(i), here, x.shape[-1])
    logits: Tensor = trunk.ln_f(x) @ trunk.wte.weight.T
    return logits


def _attention(
    attention: Attention,
    x: Float[Tensor, "batch length width"],
    place: Int[Tensor, "batch queries"],
    drops: Drops,
    site: int,
) -> Float[Tensor, "batch queries width"]:
    """Only the last positions ask: place has the numbers of their rows."""
    length, first = x.shape[1], x.shape[1] - place.shape[1]
    q, k, v = (
        part.unflatten(-1, (attention.heads, -1)).transpose(1, 2)
        for part in attention.c_attn(x).chunk(3, dim=-1)
    )
    scores = q[:, :, first:] @ k.transpose(2, 3) / q.shape[-1] ** 0.5
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril(first)
    weights = F.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1)
    rows = place[..., None] * length + torch.arange(length, device=x.device)
    weights = weights * drops.factors(site, rows, attention.heads).permute(0, 3, 1, 2)
    mixed: Tensor = attention.c_proj((weights @ v).transpose(1, 2).flatten(2))
    return mixed
