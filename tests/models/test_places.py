"""Absolute positions other than 0, 1, 2, …: every path agrees with a model whose position weights moved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from internalize import ChainConfig, Execution, train
from internalize.models.config import ModelConfig
from internalize.models.fast import FastDecoder, FastStep
from internalize.models.gpt2 import GPT2
from internalize.models.parameters import flatten_parameters
from internalize.models.path import PlainStep
from internalize.sequences import Renderer, vocabulary_of
from internalize.tasks.names import parse_task
from tests.models.test_fast import assert_same, noisy_model, random_tokens

CONTEXT, PROMPT = 12, 5
PLACES = torch.tensor([0, 1, 2, 3, 7, 8, 9, 10, 11, 11, 11, 11])


def placed(config: ModelConfig) -> GPT2:
    model = noisy_model(config, 5, CONTEXT)
    model.places = PLACES
    return model


def moved(config: ModelConfig) -> GPT2:
    """The same function by other means: the weights of the positions stand where they are read."""
    model = noisy_model(config, 5, CONTEXT)
    with torch.no_grad():
        model.transformer.wpe.weight.copy_(model.transformer.wpe.weight[PLACES].clone())
    return model


@pytest.mark.parametrize("depth", [1, 2])
def test_steps_and_decoders_read_the_places(depth: int) -> None:
    config = ModelConfig(depth, 16, 4)
    tokens = random_tokens(5, 9, 9)
    models = [placed(config), placed(config), moved(config)]
    gradients = [flatten_parameters(model)[1] for model in models]
    plain, by_hand = (PlainStep(models[i], gradients[i])(tokens, PROMPT) for i in (0, 2))
    fast = FastStep(models[1], gradients[1])(tokens, PROMPT)
    assert_same(plain, by_hand)
    assert_same(fast, plain)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-6)
    read = {int(place) for place in PLACES[: tokens.shape[1] - 1]}
    gradient = models[0].transformer.wpe.weight.grad
    assert gradient is not None
    for place, row in enumerate(gradient):
        assert bool(row.abs().sum() > 0) == (place in read)
    decoders = [FastDecoder(models[1], len(tokens)), FastDecoder(models[2], len(tokens))]
    logits = [decoder.prefill(tokens[:, :PROMPT]) for decoder in decoders]
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-4, atol=1e-5)
    logits = [decoder.append(tokens[:, PROMPT]) for decoder in decoders]
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-4, atol=1e-5)


def test_the_last_state_stands_in_one_place_whatever_is_removed() -> None:
    horizon = 6
    renderer = Renderer(vocabulary_of(parse_task("C3"), horizon, False), horizon, 0)
    for states in range(1, horizon + 1):
        places = renderer.places(states).tolist()
        q_0 = renderer.prompt_length() - 1
        assert places[:q_0] == list(range(horizon))
        assert places[q_0 + states] == 2 * horizon
        assert places[q_0 : q_0 + states + 1] == list(range(2 * horizon - states, 2 * horizon + 1))
        assert len(places) == renderer.context
        assert max(places) < renderer.context
    assert renderer.places(horizon).tolist() == list(range(renderer.context))


def test_a_run_with_positions_from_the_end_learns_and_can_be_asked(tmp_path: Path) -> None:
    config = ChainConfig(
        task="C2", horizon=3, iterations=900, batch=32, method="right", answer_positions="end", log_every=100,
        model=ModelConfig(1, 32, 8, init_std=0.1),
    )  # fmt: skip
    config = replace(config, optimizer=replace(config.optimizer, lr=3e-3))
    run = train(config, Execution(out=tmp_path, quiet=True))
    summary = run.summary()
    assert summary["internalized"]
    assert not (run.path / "model" / "config.json").exists()  # Hugging Face's would read other positions
