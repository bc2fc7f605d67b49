"""Greedy generation with a key-value cache, many sequences at once. Never samples."""

from __future__ import annotations

import torch
from torch import Tensor

from internalize.models.decoder import Decoder


@torch.no_grad()
def generate(
    decoder: Decoder, prompt: Tensor, eos: int, limit: int, forced_states: int | None = None
) -> Tensor:
    """(batch, length) prompt to (batch, at most `limit`) tokens; after its EOS a row repeats EOS.

    forced_states: write exactly this many tokens and then EOS, whatever the model would rather do.
    """
    if forced_states is not None:
        limit = forced_states + 1
    logits = decoder.prefill(prompt)
    written: list[Tensor] = []
    ended = torch.zeros(prompt.shape[0], dtype=torch.bool, device=prompt.device)
    for i in range(limit):
        if forced_states is not None:
            logits[:, eos] = float("inf") if i == forced_states else float("-inf")
        token = torch.where(ended, eos, logits.argmax(dim=-1))
        written.append(token)
        ended |= token == eos
        if i + 1 == limit or bool(ended.all()):
            break
        logits = decoder.append(token)
    return torch.stack(written, dim=1)
