"""Greedy answers of a language model, many rows at once, with the cache of keys and values. Never samples.

Prompts of different lengths are filled up on the left, behind a mask: then the next token of every row is at
the same place. Rows are sorted by length, so that most batches need little filling or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from internalize.kinds.text.config import TextConfig
from internalize.kinds.text.network import drawing_from, takes, weights_of
from internalize.kinds.text.rendering import Markers, Rendered
from internalize.kinds.text.state import SlotStats, TextStep
from internalize.models.config import ModelConfig
from internalize.models.gpt2 import GPT2, LAYER_NORM_EPSILON
from internalize.models.parameters import flatten_parameters
from internalize.models.path import make_step, rule


@dataclass(frozen=True)
class Prompts:
    """What a model is asked, and at which position ids it will write."""

    prompt: list[int]
    places: list[int] | None = None
    """Where positions are kept: the place in the whole chain of each token that remains of it."""
    chain: int = 0
    """Tokens of the whole chain, where positions are kept."""


@torch.no_grad()
def write_answers(
    model: nn.Module,
    asked: Sequence[Prompts],
    markers: Markers,
    limit: int,
    batch: int,
    chain_budget: int | None = None,
) -> list[list[int]]:
    """What the model writes after each prompt: up to and with the end marker, or `limit` tokens.

    chain_budget: write exactly so many tokens before the answer marker, whatever the model would rather do.
    """
    was_training = model.training
    model.eval()
    order = sorted(range(len(asked)), key=lambda i: len(asked[i].prompt))
    written: list[list[int]] = [[] for _ in asked]
    try:
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            rows = _write(model, [asked[i] for i in chosen], markers, limit, chain_budget)
            for i, row in zip(chosen, rows, strict=True):
                written[i] = row
    finally:
        model.train(was_training)
    return written


class _Places:
    """The position ids at which a batch goes on."""

    def __init__(self, asked: Sequence[Prompts], limit: int, markers: Markers, most: int, device: Any) -> None:
        self.kept = asked[0].places is not None
        self.marker = markers.answer
        self.most = most - 1
        self.prompt = torch.tensor([len(row.prompt) for row in asked], device=device)
        if self.kept:
            rows = [_filled(row.places or [], limit) for row in asked]
            self.places = torch.tensor(rows, device=device)
            self.whole = torch.tensor([row.chain for row in asked], device=device)
            self.since = torch.full((len(asked),), -1, device=device)

    def next(self, i: int, token: Tensor) -> Tensor:
        """(batch, 1) of the token written as number i."""
        if not self.kept:
            return (self.prompt + i).clamp(max=self.most)[:, None]
        began = (self.since < 0) & (token == self.marker)
        self.since = torch.where(began, 0, torch.where(self.since >= 0, self.since + 1, self.since))
        after = torch.where(self.since >= 0, self.whole + self.since, self.places[:, i])
        return (self.prompt + after).clamp(max=self.most)[:, None]


def _filled(places: list[int], limit: int) -> list[int]:
    """Beyond what remains a model goes on place by place."""
    last = places[-1] if places else -1
    return (places + [last + 1 + i for i in range(limit)])[:limit]


def fill_up(
    prompts: Sequence[list[int]], pad: int, device: torch.device
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """(batch, longest) prompts filled up on the left; a mask and position ids where any had to be."""
    longest = max(map(len, prompts))
    gaps = [longest - len(prompt) for prompt in prompts]
    filled = [[pad] * gap + list(prompt) for gap, prompt in zip(gaps, prompts, strict=True)]
    tokens = torch.tensor(filled, device=device)
    if not any(gaps):
        return tokens, None, None
    mask = (torch.arange(longest, device=device) >= torch.tensor(gaps, device=device)[:, None]).long()
    return tokens, mask, (mask.cumsum(1) - 1).clamp(min=0)


def read_on(
    model: nn.Module, tokens: Tensor, mask: Tensor | None, positions: Tensor | None, cache: Any
) -> tuple[Tensor, Any]:
    """(batch, vocabulary) logits after the last of the tokens, and the cache with all of them."""
    more: dict[str, Any] = {}
    if positions is not None and takes(model, "position_ids"):
        more["position_ids"] = positions
    if takes(model, "logits_to_keep"):
        more["logits_to_keep"] = 1
    found = model(input_ids=tokens, attention_mask=mask, past_key_values=cache, use_cache=True, **more)
    return found.logits[:, -1].float(), found.past_key_values


def _write(
    model: nn.Module, asked: Sequence[Prompts], markers: Markers, limit: int, chain_budget: int | None
) -> list[list[int]]:
    device = next(model.parameters()).device
    tokens, mask, positions = fill_up([row.prompt for row in asked], markers.pad, device)
    places = _Places(asked, limit, markers, _positions_of(model), device)
    cache: Any = None
    columns: list[Tensor] = []
    ended = torch.zeros(len(asked), dtype=torch.bool, device=device)
    for i in range(limit):
        logits, cache = read_on(model, tokens, mask, positions, cache)
        if chain_budget is not None and i <= chain_budget:
            _hold_to_budget(logits, markers, i == chain_budget)
        token = torch.where(ended, markers.end, logits.argmax(-1))
        columns.append(token)
        ended |= token == markers.end
        if bool(ended.all()):
            break
        tokens = token[:, None]
        positions = places.next(i, token)
        if mask is not None:
            mask = torch.cat([mask, mask.new_ones(len(asked), 1)], 1)
    rows: list[list[int]] = torch.stack(columns, 1).tolist()
    return [row[: row.index(markers.end) + 1] if markers.end in row else row for row in rows]


def _hold_to_budget(logits: Tensor, markers: Markers, begins: bool) -> None:
    """Make the answer begin now, or keep it from beginning."""
    if begins:
        logits[:, markers.answer] = torch.inf
    else:
        logits[:, [markers.answer, markers.end]] = -torch.inf


def _positions_of(model: Any) -> int:
    """Position ids beyond the model's table would be an error; rotary models have no table."""
    most = getattr(model.config, "max_position_embeddings", None)
    return int(most) if isinstance(most, int) and most > 0 else 2**31


AS_OURS = {
    "activation_function": "gelu_new",
    "layer_norm_epsilon": LAYER_NORM_EPSILON,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
"""What a config of Hugging Face's GPT-2 must say to mean our GPT-2."""


def fast_shape(library: Any, config: TextConfig, device: torch.device) -> ModelConfig | None:
    """Our shape of transformers' config where the fast path computes the same and is faster; else None."""
    if config.kernel == "plain" or library.model_type != "gpt2" or device.type != "cpu":
        return None
    same = all(getattr(library, name, wanted) == wanted for name, wanted in AS_OURS.items())
    special = (
        config.dropout > 0 or config.checkpointing or config.accumulate > 1 or config.lora.rank is not None
    )
    if special or not same:
        return None
    shape = ModelConfig(library.n_layer, library.n_embd, library.n_head, library.n_inner)
    return shape if rule(shape) == "fused" else None  # few large heads: not yet measured on text


def share_storage(model: nn.Module, shape: ModelConfig) -> tuple[GPT2, Tensor, Tensor]:
    """Our GPT-2 with the model's weights, the flat weights and the flat gradient of both."""
    library: Any = model
    vocabulary = library.get_input_embeddings().num_embeddings
    with drawing_from(torch.Generator().manual_seed(0)):  # what torch draws for new layers is loaded over
        own = GPT2(shape, vocabulary, library.config.n_positions)
    own.load(weights_of(model), "model")
    parameters, gradient = flatten_parameters(own)
    theirs = dict(model.named_parameters())
    for name, parameter in own.named_parameters():
        theirs[name].data = parameter.data
        theirs[name].grad = parameter.grad
    return own, parameters, gradient


class FastTextStep:
    """Fills the flat gradient as `TextStep` does, by the fast path where the rows have one form."""

    def __init__(self, plain: TextStep, own: GPT2) -> None:
        self.plain = plain
        self.own = own
        self.fast = make_step("fast", plain.precision, own, plain.gradient)

    def __call__(self, rows: Sequence[Rendered], drops: torch.Generator | None = None) -> SlotStats:
        first = rows[0]
        if any(row.positions != first.positions or row.slots != first.slots for row in rows):
            return self.plain(rows, drops)
        if self.plain.renderer.positions == "kept":
            self.own.places = torch.tensor(first.positions)
        found = self.fast(torch.tensor([row.tokens for row in rows]), first.prompt)
        counts = torch.zeros(self.plain.renderer.slots)
        loss, correct = torch.zeros_like(counts), torch.zeros_like(counts)
        where = torch.tensor(first.slots)
        for total, values in ((loss, found.loss), (correct, found.correct), (counts, torch.ones(len(where)))):
            total[where] = len(rows) * values
        return SlotStats(loss, correct, counts)
