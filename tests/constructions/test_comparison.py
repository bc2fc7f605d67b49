"""A construction beside a trained model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from internalize.constructions import build_counter, build_general
from internalize.constructions.comparison import TrainedModel, compare, moduli_read
from internalize.constructions.exactness import random_inputs
from internalize.errors import BadInput
from internalize.models.config import ModelConfig
from internalize.models.gpt2 import GPT2, run_with_attention
from internalize.sequences import Renderer, vocabulary_of
from internalize.tasks import parse_task


def untrained(task: str, horizon: int, length_hint: bool = False, positions: str = "absolute") -> TrainedModel:
    renderer = Renderer(vocabulary_of(parse_task(task), horizon, length_hint), horizon, 0)
    config = ModelConfig(depth=2, width=16, heads=4, positions=positions)  # type: ignore[arg-type]
    model = GPT2(config, renderer.vocabulary.size, renderer.context)
    model.initialise(torch.Generator().manual_seed(0))
    return TrainedModel("a run", parse_task(task), model, renderer)


@torch.no_grad()
@pytest.mark.parametrize("positions", ["absolute", "none", "rotary"])
def test_attention_is_taken_from_the_models_own_pass(positions: str) -> None:
    trained = untrained("C4", 5, positions=positions)
    tokens = trained.renderer.prompt(random_inputs(4, 5, 7, seed=0))
    patterns, stream, logits = run_with_attention(trained.model, tokens)
    torch.testing.assert_close(logits, trained.model(tokens)[0][:, -1])
    assert [pattern.shape for pattern in patterns] == [(4, 6, 6)] * 2
    assert len(stream) == 3
    for pattern in patterns:
        torch.testing.assert_close(pattern.sum(dim=-1), torch.ones(4, 6))
        assert not pattern.triu(1).any()


def test_windows_double_in_the_construction_and_one_symbol_is_readable_in_any_model() -> None:
    comparison = compare(build_counter(12, 7), untrained("C12", 7), random_inputs(12, 7, 400, seed=0))
    assert list(comparison.construction.readable) == [2, 4, 3] == list(comparison.trained.readable)
    assert comparison.construction.accuracy == 1.0
    for share in comparison.construction.readable.values():
        assert share.shape == (4, 8)
        for layer in range(4):
            assert (share[layer, : 2**layer] == 1.0).all()
            assert (share[layer, 2**layer :] < 0.8).all()
    for modulus, share in comparison.trained.readable.items():
        assert share.shape == (3, 8)
        assert share[0, 0] > 0.99  # the first state is the first symbol
        assert share[0, -1] < 1 / modulus + 0.2
    json.dumps(comparison.to_json(), allow_nan=False)


def test_any_semiautomaton_can_be_compared_and_length_tokens_are_understood() -> None:
    construction = build_general(parse_task("S3"), 5)
    comparison = compare(construction, untrained("S3", 5, length_hint=True), random_inputs(4, 5, 200, seed=0))
    assert comparison.trained.positions[-1] == "LEN"
    assert comparison.construction.positions[0] == "q0"
    assert (comparison.construction.readable[6][-1] == 1.0).all()


def test_prime_powers_are_read() -> None:
    assert moduli_read(build_counter(360, 2)) == (2, 4, 8, 3, 9, 5)


@pytest.mark.parametrize(("task", "horizon"), [("C5", 7), ("C12", 6)])
def test_another_task_is_refused(task: str, horizon: int) -> None:
    with pytest.raises(BadInput, match="against: a run has"):
        compare(build_counter(12, 7), untrained(task, horizon), random_inputs(12, 7, 10, seed=0))


def test_a_task_is_known_by_its_table_not_by_its_name(tmp_path: Path) -> None:
    """A file C4.json may hold Klein's group, of as many states and symbols as the counter C_4."""
    rows = [[q ^ s for s in range(4)] for q in range(4)]
    (tmp_path / "C4.json").write_text(json.dumps({"transitions": rows}))
    klein = replace(untrained("C4", 5), task=parse_task(str(tmp_path / "C4.json")))
    with pytest.raises(BadInput, match=r"against: a run \(C4\) moves by another table"):
        compare(build_counter(4, 5), klein, random_inputs(4, 5, 10, seed=0))
    assert (
        compare(build_general(klein.task, 5), klein, random_inputs(4, 5, 10, seed=0)).construction.accuracy == 1
    )
