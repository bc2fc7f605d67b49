"""Whether a model can be trained and asked here: one small forward pass, before anything is written.

`AutoModelForCausalLM` also makes models that look ahead, that keep no cache, or that lose count of the
positions in a padded row. Such a model would train, and then give wrong numbers or an error. The trial is made
on random weights, few layers and few words: it costs little, however large the model is.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from internalize.errors import BadInput, require
from internalize.kinds.text.completeness import require_weights
from internalize.kinds.text.config import LoraFields
from internalize.kinds.text.evaluation import TextCosts
from internalize.kinds.text.generation import fill_up, read_on
from internalize.kinds.text.network import (
    ModelSource,
    add_adapters,
    answer_logits,
    drawing_from,
    naming_the_model,
    outline,
    quietly,
    takes,
)
from internalize.kinds.text.rendering import Batch, RemovalConfig

if TYPE_CHECKING:
    from internalize.kinds.text.material import Material

LAYERS, VOCABULARY, LENGTH = 2, 1_024, 6
"""Of the small model, and tokens of its longest row."""
CLOSE = 1e-3
"""Logits are the same if they differ by at most this share of the largest: far more than rounding gives."""
FAILED = "is no model that can be trained here"


@dataclass(frozen=True)
class _Trial:
    """What decides how a trial ends: configs that differ in their data or method share it."""

    described: str
    """The model's config."""
    length: int
    """Tokens of the longer row."""
    pad: int
    source: ModelSource = field(compare=False)


@dataclass(frozen=True)
class _Abilities:
    """What some of the models that pass the trial can do."""

    positions: bool
    """They take position ids."""
    checkpointing: bool
    """They can compute inner layers again instead of keeping them."""


@lru_cache(maxsize=4)  # seeds of one experiment share their material
def require_model(material: Material, removal: RemovalConfig, checkpointing: bool) -> None:
    """Refuse a model that does not do what training and answering rely on, and weights of another one."""
    source = material.model
    with naming_the_model(source.path, "model", FAILED):
        TextCosts.of(_outline(material))
    if source.has_weights:
        _require_weights(source)
    length, pad = min(LENGTH, material.context), material.renderer.markers.pad
    found = _carry_out(_Trial(source.config.to_json_string(), length, pad, source))
    kind = f"the type {source.config.model_type}"
    free = removal.positions == "closed" or found.positions
    require(free, "removal.positions", f"must be closed: {kind} takes no position ids")
    able = found.checkpointing or not checkpointing
    require(able, "checkpointing", f"must be left out: {kind} cannot compute its layers again")


@lru_cache(maxsize=16)
def _carry_out(trial: _Trial) -> _Abilities:
    """Refuses a model that does not pass."""
    source = trial.source
    with quietly():
        try:
            model: Any = _tried(_shortened(source.config), trial)
        except BadInput:
            raise
        except Exception:  # not every type of model can be so short
            with naming_the_model(source.path, "model", FAILED):
                model = _tried(copy.deepcopy(source.config), trial)
    return _Abilities(takes(model, "position_ids"), bool(model.supports_gradient_checkpointing))


@lru_cache(maxsize=4)
def require_adapters(material: Material, fields: LoraFields) -> None:
    """Refuse adapters that the model has no place for."""
    model = _outline(material)
    with torch.device("meta"):
        add_adapters(model, fields, material.tokenizer, torch.Generator("cpu").manual_seed(0))


def _outline(material: Material) -> nn.Module:
    return outline(material.model, material.tokenizer.size)


def _require_weights(source: ModelSource) -> None:
    drawing = drawing_from(torch.Generator().manual_seed(0))  # the library would draw what is missing
    with drawing, quietly(), naming_the_model(source.path, "model"):
        require_weights(source.path, copy.deepcopy(source.config), outline(source, 0))


def _shortened(config: Any) -> Any:
    """The same with few layers and few words."""
    short = copy.deepcopy(config)
    short.num_hidden_layers = min(config.num_hidden_layers, LAYERS)
    short.vocab_size = min(config.vocab_size, VOCABULARY)
    if isinstance(getattr(config, "pad_token_id", None), int) and config.pad_token_id >= short.vocab_size:
        short.pad_token_id = 0
    return short


@torch.no_grad()
def _tried(config: Any, trial: _Trial) -> nn.Module:
    """A model of the config that has passed the trial."""
    from transformers import AutoModelForCausalLM

    generator = torch.Generator().manual_seed(0)
    with drawing_from(generator):
        model: nn.Module = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    model = model.float().eval()
    for weight in model.parameters():
        if weight.dim() > 1:  # as they are first drawn, one token hardly changes another's logits
            weight.normal_(0, weight.shape[-1] ** -0.5, generator=generator)
    cached = takes(model, "past_key_values")
    kind = f"the type {config.model_type}"
    require(cached, "model", f"{kind} keeps no keys and values (past_key_values): answers cannot be written")
    drawn = torch.randint(1, config.vocab_size, (2, trial.length), generator=generator).tolist()
    rows = [drawn[0], drawn[1][:-2]]
    _require_causal(model, rows[0], kind)
    _require_padding(model, rows, trial.pad if trial.pad < config.vocab_size else 0, kind)
    return model


def _logits(model: nn.Module, rows: list[list[int]]) -> Tensor:
    """(rows, length, vocabulary) as a training step computes them."""
    tokens = torch.tensor(rows)
    return answer_logits(model, Batch(tokens, tokens, tokens, None, 0, 0)).float()


def _same(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() <= CLOSE * other.abs().max())


def _require_causal(model: nn.Module, row: list[int], kind: str) -> None:
    """Another last token changes nothing before it."""
    other = row[0] if row[0] != row[-1] else row[-1] - 1
    before, after = (_logits(model, [tokens])[0, :-1] for tokens in (row, [*row[:-1], other]))
    looks = f"{kind} sees the tokens that it should predict: only causal models are trained here"
    whole: Any = model
    idle = getattr(whole.config, "is_decoder", None) is False
    hint = ' (its config.json may need "is_decoder": true)' if idle else ""
    require(_same(before, after), "model", looks + hint)


def _require_padding(model: nn.Module, rows: list[list[int]], pad: int, kind: str) -> None:
    """Rows of different lengths, filled up on the right to be read and on the left to be written after."""
    alone = [_logits(model, [row])[0] for row in rows]
    gap = [pad] * (len(rows[0]) - len(rows[1]))
    together = _logits(model, [rows[0], rows[1] + gap])
    read = all(_same(together[i, : len(row)], alone[i]) for i, row in enumerate(rows))
    tokens, mask, positions = fill_up([row[:-1] for row in rows], pad, torch.device("cpu"))
    _, cache = read_on(model, tokens, mask, positions, None)
    newest = torch.tensor([row[-1:] for row in rows])
    assert mask is not None
    mask = torch.cat([mask, torch.ones_like(newest)], 1)
    lengths = torch.tensor([[len(row) - 1] for row in rows])
    written, _ = read_on(model, newest, mask, lengths, cache)
    wrote = all(_same(written[i], alone[i][-1]) for i in range(len(rows)))
    differs = f"{kind} answers rows of different lengths differently together than one by one"
    require(read and wrote, "model", f"{differs}: such models are not trained here")
