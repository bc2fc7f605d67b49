"""Small trained matrices beside frozen weights: LoRA, by the library peft."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from internalize.errors import BadInput
from internalize.kinds.text.config import LoraFields
from internalize.kinds.text.network import drawing_from
from internalize.kinds.text.tokenization import TextTokenizer


def require_peft() -> Any:
    try:
        import peft  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise BadInput("lora.rank", "needs the library peft: pip install 'internalize[lora]'") from None
    return peft


def add_adapters(
    model: nn.Module, fields: LoraFields, tokenizer: TextTokenizer, generator: torch.Generator
) -> nn.Module:
    """The model with everything frozen but new matrices and the markers' own rows of the embedding."""
    peft = require_peft()
    assert fields.rank is not None
    markers = tokenizer.markers
    trained = [markers.chain, markers.answer, markers.end, markers.pause, markers.pad, *markers.budgets]
    settings = peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=fields.rank,
        lora_alpha=2 * fields.rank if fields.alpha is None else fields.alpha,
        target_modules=list(fields.targets) or "all-linear",
        trainable_token_indices=sorted(trained),
        lora_dropout=0.0,
    )
    with drawing_from(generator):
        found: nn.Module = peft.get_peft_model(model, settings)
    return found


def merged(model: nn.Module) -> nn.Module:
    """A plain model of the same function: the matrices added to the weights beside them. A copy."""
    whole: Any = copy.deepcopy(model)
    found: nn.Module = whole.merge_and_unload()
    return found
