"""The cost formulas against torch's own counter and the models' own parameters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from internalize.measure.cost import answer_flops, parameters, token_flops, training_flops
from internalize.models.config import ModelConfig
from internalize.models.gpt2 import GPT2
from internalize.models.parameters import flatten_parameters
from internalize.models.path import PlainStep

V, CONTEXT = 9, 16
SHAPES = [ModelConfig(depth=1, width=8, heads=4), ModelConfig(depth=3, width=12, heads=2, mlp=20)]


def new_model(config: ModelConfig) -> GPT2:
    model = GPT2(config, V, CONTEXT)
    model.initialise(torch.Generator().manual_seed(0))
    return model


def counted(run: Any) -> int:
    """What torch counts; attention by plain products, which it counts over all pairs, causal or not."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


@pytest.mark.parametrize("positions", ["absolute", "none", "rotary"])
@pytest.mark.parametrize("config", SHAPES, ids=str)
def test_parameters_are_the_models(config: ModelConfig, positions: Any) -> None:
    config = ModelConfig(config.depth, config.width, config.heads, config.mlp, positions)
    model = new_model(config)
    assert parameters(config, V, CONTEXT) == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("config", SHAPES, ids=str)
@torch.no_grad()
def test_reading_and_writing_cost_what_torch_counts(config: ModelConfig) -> None:
    model, prompt = new_model(config), 7
    ids = torch.zeros(1, prompt, dtype=torch.int64)
    _, cache = model(ids)
    future_pairs = prompt * (prompt - 1) // 2
    wasted = config.depth * 2 * 2 * config.width * future_pairs
    first_token = answer_flops(config, V, prompt, written=1)
    assert counted(lambda: model(ids, first=prompt - 1)) == first_token + wasted

    one_more = answer_flops(config, V, prompt, written=2) - first_token
    assert counted(lambda: model(ids[:, :1], cache=cache)) == one_more
    assert one_more == token_flops(config, prompt + 1) + 2 * config.width * V


@pytest.mark.parametrize("config", SHAPES, ids=str)
def test_training_costs_what_torch_counts_less_what_need_not_be_done(config: ModelConfig) -> None:
    model, prompt, answer, batch = new_model(config), 6, 4, 5
    _, gradient = flatten_parameters(model)
    tokens = torch.zeros(batch, prompt + answer, dtype=torch.int64)
    total = counted(lambda: PlainStep(model, gradient)(tokens, prompt))
    d, m, length = config.width, config.mlp_width, prompt + answer - 1
    future_pairs = length * (length - 1) // 2
    earlier_layers = (config.depth - 1) * 2 * 2 * d * future_pairs
    silent = length - answer  # positions of the last layer that nothing is read from
    silent_pairs = silent * (silent + 1) // 2
    last_layer = silent * 2 * (2 * d * d + 2 * d * m) + 2 * 2 * d * (future_pairs + silent_pairs)
    needless = 3 * batch * (earlier_layers + last_layer)
    assert total - needless == training_flops(config, V, batch, prompt, answer)
