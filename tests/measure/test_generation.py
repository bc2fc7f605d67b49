"""Generation with a cache against a naive loop that recomputes everything; one alone against many at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from internalize.measure.predictor import TransformerPredictor, generate
from internalize.models.config import ModelConfig
from internalize.models.gpt2 import GPT2
from internalize.models.language_model import LanguageModel
from internalize.models.path import PlainDecoder
from internalize.sequences import Renderer, vocabulary_of
from internalize.tasks import parse_task

EOS = 6


def talkative_model(positions: Any = "absolute") -> GPT2:
    """Random weights, large enough that answers differ from prompt to prompt and end at different places."""
    model = GPT2(ModelConfig(depth=2, width=16, heads=8, positions=positions), vocabulary=8, context=20)
    model.initialise(torch.Generator().manual_seed(5))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(15.0)
    return model


@torch.no_grad()
def naive(
    model: LanguageModel, prompt: Tensor, eos: int, limit: int, forced: int | None = None
) -> list[list[int]]:
    """One sequence after another, every token from the whole text before it."""
    answers = []
    for row in prompt.tolist():
        written: list[int] = []
        while len(written) < (limit if forced is None else forced + 1) and eos not in written:
            logits = model(torch.tensor([row + written]))[0][0, -1].tolist()
            if forced is not None:
                logits[eos] = float("inf") if len(written) == forced else float("-inf")
            written.append(logits.index(max(logits)))
        answers.append(written)
    return answers


def up_to_eos(tokens: Tensor) -> list[list[int]]:
    rows = []
    for row in tokens.tolist():
        end = row.index(EOS) + 1 if EOS in row else len(row)
        assert set(row[end:]) <= {EOS}  # a finished row repeats EOS
        rows.append(row[:end])
    return rows


@pytest.mark.parametrize("positions", ["absolute", "none", "rotary"])
def test_a_cache_changes_no_token(positions: Any, generator: torch.Generator) -> None:
    model = talkative_model(positions)
    prompt = torch.randint(8, (40, 7), generator=generator)
    found = generate(PlainDecoder(model), prompt, EOS, limit=12)
    expected = naive(model, prompt, EOS, limit=12)
    assert up_to_eos(found) == expected
    assert len({len(row) for row in expected}) > 3  # of many lengths
    assert any(EOS not in row for row in expected)
    assert found.shape[1] == 12


def test_alone_as_in_a_batch(generator: torch.Generator) -> None:
    model = talkative_model()
    prompt = torch.randint(8, (40, 7), generator=generator)
    together = up_to_eos(generate(PlainDecoder(model), prompt, EOS, limit=12))
    alone = [up_to_eos(generate(PlainDecoder(model), row[None], EOS, limit=12))[0] for row in prompt]
    assert alone == together


@pytest.mark.parametrize("forced", [0, 1, 5])
def test_a_forced_answer_has_exactly_that_many_tokens_and_eos(forced: int, generator: torch.Generator) -> None:
    model = talkative_model()
    prompt = torch.randint(8, (40, 7), generator=generator)
    found = generate(PlainDecoder(model), prompt, EOS, limit=3, forced_states=forced)
    assert found.shape == (40, forced + 1)
    assert found.tolist() == naive(model, prompt, EOS, 3, forced)
    assert (found[:, -1] == EOS).all()
    assert not (found[:, :-1] == EOS).any()


def test_generation_stops_when_all_have_ended() -> None:
    class Counting:
        """Says EOS at its third token, whatever it reads."""

        calls = 0

        def prefill(self, tokens: Tensor) -> Tensor:
            return self.append(tokens[:, -1])

        def go_on(self, tokens: Tensor) -> Tensor:
            raise AssertionError("generation never goes back")

        def append(self, tokens: Tensor) -> Tensor:
            self.calls += 1
            return torch.eye(8)[EOS if self.calls == 3 else 1].expand(tokens.shape[0], -1).clone()

    decoder = Counting()
    found = generate(decoder, torch.zeros(2, 4, dtype=torch.int64), EOS, limit=12)
    assert found.tolist() == [[1, 1, EOS]] * 2
    assert decoder.calls == 3  # forward passes as reported: one a written token


def make_predictor(
    budget: int | None = None, length_hint: bool = False, pauses: bool = False
) -> TransformerPredictor:
    vocabulary = vocabulary_of(parse_task("C3"), 5, length_hint, pauses)
    renderer = Renderer(vocabulary, 5, 0)
    model = GPT2(ModelConfig(depth=1, width=16, heads=8), vocabulary.size, renderer.context)
    model.initialise(torch.Generator().manual_seed(3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(20.0)
    return TransformerPredictor(model, renderer, budget)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch, generator: torch.Generator) -> None:
    symbols = torch.randint(3, (50, 5), generator=generator)
    predictor = make_predictor()
    whole = predictor.answer(symbols)
    monkeypatch.setattr(TransformerPredictor, "_chunk", lambda self: 7)
    parts = predictor.answer(symbols)
    for name in ("output", "forward_passes", "flops"):
        assert torch.equal(getattr(whole, name), getattr(parts, name))
    assert len(whole.forward_passes.unique()) > 1
    expected = [predictor.flops(int(n)) for n in whole.forward_passes]
    assert whole.flops.tolist() == expected


def test_budgets_are_forced_or_asked_for(generator: torch.Generator) -> None:
    symbols = torch.randint(3, (50, 5), generator=generator)
    assert make_predictor(budget=3).answer(symbols).forward_passes.tolist() == [3] * 50

    asked = make_predictor(budget=4, length_hint=True)
    direct, explicit = make_predictor(length_hint=True), make_predictor(2, length_hint=True)
    prompt = asked.renderer.prompt(symbols, 4)
    assert asked.renderer.text(prompt)[0].split()[-1] == "LEN_4"
    expected = generate(PlainDecoder(asked.model), prompt, asked.renderer.vocabulary.eos, 7)
    assert torch.equal(asked.generate(symbols), expected)
    assert torch.equal(direct.generate(symbols), explicit.generate(symbols))
    assert not torch.equal(direct.generate(symbols), asked.generate(symbols))


def test_digest_and_class_tell_models_apart() -> None:
    a, b = make_predictor(), make_predictor()
    assert a.weights_digest == b.weights_digest
    assert a.model_class == b.model_class != make_predictor(length_hint=True).model_class
    c = make_predictor()
    assert isinstance(c.model, GPT2)
    with torch.no_grad():
        c.model.transformer.ln_f.bias[3] += 1e-6
    assert c.weights_digest != a.weights_digest
