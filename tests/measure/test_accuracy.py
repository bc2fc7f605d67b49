"""A measurement against a naive loop, on a trained model and on one that errs in every way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor

from internalize import Run
from internalize.curricula import Shown
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.entrance import load_experiment
from internalize.measure.cost import answer_flops
from internalize.measure.predictor import TransformerPredictor, measure
from internalize.statistics import Rate, mean_interval
from internalize.tasks import parse_inputs, parse_task
from tests.measure.test_generation import naive


@pytest.fixture(scope="module")
def experiment(internalized: Run) -> ChainExperiment:
    _, found = load_experiment(internalized, "cpu")
    assert isinstance(found, ChainExperiment)
    return found


def random_predictor(experiment: ChainExperiment) -> TransformerPredictor:
    """Random weights, large enough to err in every way."""
    model = experiment.new_model()
    model.initialise(torch.Generator().manual_seed(27))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8.0)
    return TransformerPredictor(model, experiment.renderer)


@pytest.mark.parametrize("inputs", ["uniform", "binomial:0.8"])
@pytest.mark.parametrize("shown", [(2, 3, 4), (1, 2), (4,)])
@pytest.mark.parametrize("which", ["trained", "random"])
def test_measure_equals_a_naive_loop(
    internalized: Run, experiment: ChainExperiment, which: str, shown: Shown, inputs: str
) -> None:
    if which == "trained":  # to the end of stage 2, which shows q_2 q_3 q_4
        predictor = experiment.load_predictor(internalized.weights(2), budget=None)
    else:
        predictor = random_predictor(experiment)
    task, distribution = parse_task("C2"), parse_inputs(inputs, 2)
    found = measure(predictor, task, distribution, shown, 200, torch.Generator().manual_seed(9))

    renderer, model = predictor.renderer, predictor.model
    symbols = distribution.sample((200, 4), torch.Generator().manual_seed(9))
    eos, first_state = renderer.vocabulary.eos, renderer.vocabulary.first_state
    right = on_target = exact = direct = 0
    lengths: list[int] = []
    flops = 0
    for row, answer in zip(symbols.tolist(), naive(model, renderer.prompt(symbols), eos, 6), strict=True):
        states = [sum(row[:t]) % 2 for t in range(5)]
        said = answer[-2] - first_state if answer[-1] == eos and len(answer) >= 2 else None
        right += said == states[4]
        on_target += said == states[shown[-1]]
        exact += answer == [*(first_state + states[t] for t in shown), eos]
        direct += answer == [first_state + states[4], eos]
        lengths.append(len(answer))
        flops += answer_flops(model.config, model.vocabulary, 5, len(answer))
    assert found.inputs == inputs
    assert found.samples == 200
    assert found.accuracy == Rate(right, 200)
    assert found.target_accuracy == Rate(on_target, 200)
    assert found.exact_chain == Rate(exact, 200)
    assert found.direct_accuracy == Rate(direct, 200)
    assert found.response_length == found.forward_passes == pytest.approx(sum(lengths) / 200)
    assert found.flops == pytest.approx(flops / 200)
    expected = mean_interval(sum(lengths), sum(n * n for n in lengths), 200)
    assert found.response_length_interval.low == pytest.approx(expected.low)
    if which == "random":
        assert 0 < right < 200
        assert len(set(lengths)) > 2
    else:
        assert exact == (200 if shown == (2, 3, 4) else 0)


@dataclass(frozen=True)
class Scripted(TransformerPredictor):
    """Writes what it is told, whatever it reads."""

    answers: Tensor = field(default_factory=lambda: torch.empty(0))

    def generate(self, symbols: Tensor) -> Tensor:
        return self.answers.expand(symbols.shape[0], -1)


@pytest.mark.parametrize(
    ("answer", "accuracy", "target", "exact", "direct", "length"),
    [
        # from q_0 = 1 the input 0,0,0,0 never leaves the state 1; ids: state 0 is 2, state 1 is 3, EOS is 4
        ([3, 3, 4], 1, 1, 1, 0, 3),
        ([3, 4, 4], 1, 1, 0, 1, 2),
        ([2, 3, 4], 1, 1, 0, 0, 3),
        ([3, 2, 4], 0, 0, 0, 0, 3),
        ([3, 3, 3, 3, 3, 3], 0, 0, 0, 0, 6),  # no EOS counts as wrong
        ([4, 4, 4], 0, 0, 0, 0, 1),
        ([3, 3, 4, 4, 4, 4], 1, 1, 1, 0, 3),
    ],
)
def test_each_kind_of_answer(
    experiment: ChainExperiment,
    answer: list[int],
    accuracy: int,
    target: int,
    exact: int,
    direct: int,
    length: int,
) -> None:
    renderer = replace(experiment.renderer, initial_state=1)
    predictor = Scripted(experiment.new_model(), renderer, answers=torch.tensor([answer]))
    zeros = parse_inputs("weights:1,0", 2)
    found = measure(predictor, experiment.task, zeros, (3, 4), 5, torch.Generator())
    rates = (found.accuracy, found.target_accuracy, found.exact_chain, found.direct_accuracy)
    assert [rate.successes for rate in rates] == [5 * accuracy, 5 * target, 5 * exact, 5 * direct]
    assert found.response_length == length
