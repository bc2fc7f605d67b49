"""The logit lens and the attention of a model, over the same tokens that the probes read.

The lens applies the last layer norm and the unembedding to the stream of every layer: what would the model say
if it stopped here? Attention is summed up by what matters for the next state: to say q_j after q_i one needs
q_i and σ_{i+1} … σ_j, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from internalize.curricula import Shown
from internalize.models.gpt2 import GPT2
from internalize.models.passes import run_with_attention
from internalize.sequences import Renderer

CHUNK = 250


@dataclass(frozen=True)
class Lens:
    """What the layers would say, and where they look."""

    next_token: Tensor
    """(layers+1, K+1): how often the next answer token (the last is EOS) is the likeliest of all tokens."""
    states: Tensor
    """(layers+1, positions, T): how often the likeliest state is q_t."""
    attention: tuple[Tensor, ...]
    """For each layer (heads, positions, positions), the mean over inputs."""
    samples: int


@dataclass(frozen=True)
class Mass:
    """Attention from the place that says one state, in one layer: shares that sum to one."""

    layer: int
    said: int
    """j of the state q_j said there."""
    after: int
    """i of the state q_i that it goes on from."""
    needed: float
    """On σ_{i+1} … σ_j, mean over heads."""
    needed_strongest: float
    """The same for the head that looks there most."""
    previous: float
    """On the token of q_i."""
    needed_if_even: float
    """What attention spread evenly over all earlier places would put on σ_{i+1} … σ_j."""


@torch.no_grad()
def look(model: GPT2, renderer: Renderer, symbols: Tensor, states: Tensor, shown: Shown) -> Lens:
    """On true sequences that show these states."""
    first_state, count = renderer.vocabulary.first_state, len(renderer.vocabulary.state_names)
    start = renderer.prompt_length - 1
    said: list[Tensor] = []
    agreed: list[Tensor] = []
    patterns: list[list[Tensor]] = []
    for part, true in zip(symbols.split(CHUNK), states.split(CHUNK), strict=True):
        tokens = renderer.sequence(part, true, shown)
        seen, stream, _ = run_with_attention(model, tokens[:, :-1])
        logits = [model.transformer.ln_f(x) @ model.transformer.wte.weight.T for x in stream]
        right = [(x[:, start:].argmax(-1) == tokens[:, start + 1 :]).sum(0) for x in logits]
        said.append(torch.stack(right))
        likeliest = torch.stack([x[..., first_state : first_state + count].argmax(-1) for x in logits])
        agreed.append((likeliest[..., None] == true[None, :, None, 1:]).sum(dim=1))
        patterns.append([pattern * len(part) for pattern in seen])
    n = len(symbols)
    attention = tuple(sum(pieces[1:], pieces[0]) / n for pieces in zip(*patterns, strict=True))
    return Lens(sum(said[1:], said[0]) / n, sum(agreed[1:], agreed[0]) / n, attention, n)


def attention_mass(lens: Lens, renderer: Renderer, shown: Shown) -> list[Mass]:
    """For every layer and every shown state."""
    found = []
    for layer, pattern in enumerate(lens.attention, start=1):
        for i, j in enumerate(shown):
            query = renderer.prompt_length - 1 + i
            before = shown[i - 1] if i else 0
            row = pattern[:, query]  # (heads, positions)
            needed = row[:, before:j].sum(dim=1)  # σ_{before+1} … σ_j stand at places before … j-1
            place = query if i else renderer.horizon  # q_0 stands after σ_T
            found.append(
                Mass(
                    layer=layer,
                    said=j,
                    after=before,
                    needed=float(needed.mean()),
                    needed_strongest=float(needed.max()),
                    previous=float(row[:, place].mean()),
                    needed_if_even=(j - before) / (query + 1),
                )
            )
    return found


def position_names(renderer: Renderer, shown: Shown) -> tuple[str, ...]:
    """σ1 … σT, q0, LEN where there is one, then the states shown."""
    symbols = (f"σ{t}" for t in range(1, renderer.horizon + 1))
    hint = ("LEN",) if renderer.length_hint else ()
    return (*symbols, "q0", *hint, *(f"q{t}" for t in shown))
