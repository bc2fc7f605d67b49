"""Every cell against the slowest possible evaluation: one sequence, one token, no cache, no batch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from internalize.analysis.audit import audit
from internalize.analysis.matrix import budget_formats, forced_hits, matrix, teacher_hits
from internalize.analysis.open_run import OpenChain, TracedInputs
from internalize.curricula import METHODS, Shown
from internalize.measure.predictor import TransformerPredictor
from internalize.models.language_model import LanguageModel
from internalize.models.path import Kernel
from internalize.sequences import Renderer
from internalize.statistics import Rate
from tests.measure.test_generation import make_predictor, naive


@torch.no_grad()
def said_last(
    model: LanguageModel, renderer: Renderer, symbols: list[int], states: list[int], shown: Shown
) -> int:
    """The state the model says after the true states of the format but the last; EOS is not allowed."""
    first, eos = renderer.vocabulary.first_state, renderer.vocabulary.eos
    prompt = renderer.prompt(torch.tensor([symbols]), len(shown) + 1)[0].tolist()
    text = [*prompt, *(first + states[t] for t in shown[:-1])]
    logits = model(torch.tensor([text]))[0][0, -1].tolist()
    logits[eos] = float("-inf")
    return logits.index(max(logits)) - first


def brute_force(
    predictor: TransformerPredictor, examples: TracedInputs, formats: tuple[Shown, ...]
) -> list[list[int]]:
    """Hits for K = 1 … T: forced, and teacher-forced."""
    model, renderer = predictor.model, predictor.renderer
    eos, first, T = renderer.vocabulary.eos, renderer.vocabulary.first_state, renderer.horizon
    forced, teacher = [0] * T, [0] * T
    rows = list(zip(examples.symbols.tolist(), examples.states.tolist(), strict=True))
    for k in range(1, T + 1):
        prompt = renderer.prompt(examples.symbols, k + 1)
        limit = k + 2 if renderer.vocabulary.pauses else T + 2
        answers = naive(model, prompt, eos, limit, None if renderer.tells_length else k)
        for answer, (symbols, states) in zip(answers, rows, strict=True):
            complete = len(answer) >= 2 and answer[-1] == eos
            forced[k - 1] += complete and answer[-2] - first == states[-1]
            shown = formats[k - 1]
            teacher[k - 1] += said_last(model, renderer, symbols, states, shown) == states[shown[-1]]
    return [forced, teacher]


def test_every_cell_of_a_trained_run(chain: OpenChain) -> None:
    found = matrix(chain, samples=40, seed=3)
    assert found.stages == (1, 2, 3, 4)
    formats = budget_formats(chain.experiment.curriculum)
    seen = set()
    for name, inputs in chain.both_inputs().items():
        examples = chain.draw(inputs, 40, 3, "matrix")
        for stage in found.stages:
            expected = brute_force(chain.predictor(stage=stage), examples, formats)
            for reading, hits in zip(("forced", "teacher"), expected, strict=True):
                for k in range(1, 5):
                    cell = found.cell(stage, k, name, reading)
                    assert cell.right == Rate(hits[k - 1], 40)
                    assert (cell.supplied, cell.generated) == ((0, k) if reading == "forced" else (k - 1, 1))
                    assert cell.own == (k == 5 - stage)
                    seen.add(cell.right.successes)
    assert len(seen) > 5  # of all sorts, not only right and wrong
    assert len(found.cells) == 4 * 4 * 2 * 2


def test_the_matrix_tells_what_is_served_and_when_the_chain_is_forgotten(chain: OpenChain) -> None:
    found = matrix(chain, samples=300)
    assert 4 in found.served(1)
    assert 1 in found.served(4)
    assert 1 not in found.served(1)
    assert found.chain_forgotten() in (2, 3, 4)
    assert found.chance["id"] == 0.5
    row = found.to_json()["cells"]
    assert isinstance(row, list)
    assert {"n", "low", "high", "supplied", "generated", "format"} <= set(row[0])


@pytest.mark.parametrize("kernel", ["plain", "fast"])
@pytest.mark.parametrize("method", ["inductive", "mixture:right", "filler:left"])
def test_random_models_of_all_languages(method: str, kernel: Kernel, generator: torch.Generator) -> None:
    """Random weights make every kind of answer: EOS too soon, none at all, symbols for states."""
    curriculum = METHODS[method](5)
    made = make_predictor(length_hint=curriculum.length_hint, pauses=curriculum.pauses)
    predictor = replace(made, kernel=kernel)
    symbols = torch.randint(3, (60, 5), generator=generator)
    states = torch.cat([torch.zeros(60, 1, dtype=torch.int64), symbols.cumsum(1) % 3], dim=1)
    examples = TracedInputs("uniform", symbols, states, 1 / 3)
    formats = budget_formats(curriculum)
    expected = brute_force(predictor, examples, formats)
    assert forced_hits(predictor, examples)[0] == expected[0]
    assert teacher_hits(predictor, examples, formats) == expected[1]
    assert len({*expected[0], *expected[1]}) > 3


def test_formats_of_each_budget() -> None:
    assert budget_formats(METHODS["left"](4)) == ((4,), (3, 4), (2, 3, 4), (1, 2, 3, 4))
    assert budget_formats(METHODS["right"](4)) == ((4,), (1, 4), (1, 2, 4), (1, 2, 3, 4))
    # inductive ends in q_T only where the stage divides T; elsewhere left's format stands in
    assert budget_formats(METHODS["inductive"](4)) == ((4,), (2, 4), (2, 3, 4), (1, 2, 3, 4))
    assert budget_formats(METHODS["cot"](3)) == ((3,), (2, 3), (1, 2, 3))
    assert budget_formats(METHODS["mixture:right"](3)) == ((3,), (1, 3), (1, 2, 3))


def test_a_run_with_the_fast_kernel_is_reopened_with_its_decoder(
    mixture: OpenChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(model: object) -> None:
        raise AssertionError("the plain decoder was asked")

    assert mixture.predictor().kernel == "fast"
    monkeypatch.setattr("internalize.models.path.PlainDecoder", refuse)
    matrix(mixture, samples=20)
    audit(mixture, samples=20)


def test_mixture_has_both_modes_in_one_matrix(mixture: OpenChain) -> None:
    found = matrix(mixture, samples=300)
    assert found.stages == (1,)
    assert found.served(1) == [1, 2, 3]
    assert [found.cell(1, k, "id", "forced").generated for k in (1, 2, 3)] == pytest.approx([2, 3, 4], abs=0.05)
