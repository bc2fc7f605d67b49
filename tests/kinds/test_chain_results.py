"""What the results of a chain run mean, on models that are told when to be right and how long to answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from internalize import ChainConfig, EvaluationConfig, ModelConfig
from internalize.curricula import Progress
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.chain.state import ChainState
from internalize.measure.predictor import TransformerPredictor
from internalize.runtime.kind import Streams

T, SAMPLES = 20, 2_000
CONFIG = ChainConfig(
    task="C2",
    horizon=T,
    model=ModelConfig(depth=1, width=8, heads=4),
    evaluation=EvaluationConfig(samples=SAMPLES, final_samples=SAMPLES),
    ood_inputs="binomial:0.8",
    kernel="plain",
)


@dataclass(frozen=True)
class Behaviour:
    """On which inputs the answer ends in the right state, and whether a chain stands before it."""

    right_on: range = range(T + 1)
    """Numbers of ones among the T symbols."""
    wrong_rows: int = 0
    """So many of the first inputs of a sample are answered wrongly besides."""
    at_once: bool = True

    def answer(self, symbols: Tensor) -> Tensor:
        """(batch, T) symbols to tokens: after the two symbols come q:0 = 2, q:1 = 3 and EOS = 4."""
        rows = []
        for row, bits in enumerate(symbols.tolist()):
            states = [sum(bits[: t + 1]) % 2 for t in range(T)]
            if row < self.wrong_rows or sum(bits) not in self.right_on:
                states[-1] = 1 - states[-1]
            rows.append([2 + state for state in (states[-1:] if self.at_once else states)] + [4])
        return torch.tensor(rows)


@dataclass(frozen=True)
class Told(TransformerPredictor):
    """Answers as it is told to, at every budget."""

    behaviours: dict[int | None, Behaviour] = field(default_factory=dict)
    """By budget."""

    def generate(self, symbols: Tensor) -> Tensor:
        return self.behaviours[self.budget].answer(symbols)


class ToldExperiment(ChainExperiment):
    """A chain experiment whose model is told what to answer."""

    behaviours: dict[int | None, Behaviour]

    def predictor(self, state: ChainState, budget: int | None) -> Told:
        model = super().predictor(state, budget)
        return Told(model.model, model.renderer, budget, model.kernel, self.behaviours)


def results(
    config: ChainConfig, behaviours: dict[int | None, Behaviour], stage: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The summary, and the row of an evaluation in that stage."""
    experiment, streams = ToldExperiment(config, torch.device("cpu"), {}), Streams(0)
    experiment.behaviours = behaviours
    state = experiment.init(streams)
    state.progress = Progress(iteration=7, stage=stage)
    return experiment.finish(state, streams).summary, experiment.evaluate(state, streams)


FEW_ONES, MANY_ONES = range(15), range(12, T + 1)
# P(at most 14 ones), P(at least 12 ones) of 20: uniform bits, and bits that are one with probability 0.8
FEW_ID, FEW_OOD, MANY_ID, MANY_OOD = 0.979, 0.196, 0.252, 0.990


@pytest.mark.parametrize(
    ("behaviour", "accuracies", "verdicts"),
    [  # accuracy ID and OOD; succeeded, succeeded OOD, internalized
        (Behaviour(FEW_ONES), (FEW_ID, FEW_OOD), (True, False, True)),
        (Behaviour(FEW_ONES, at_once=False), (FEW_ID, FEW_OOD), (True, False, False)),
        (Behaviour(MANY_ONES), (MANY_ID, MANY_OOD), (False, True, False)),
        (Behaviour(wrong_rows=100), (0.95, 0.95), (False, False, False)),  # the bar itself is not above it
        (Behaviour(wrong_rows=99), (0.9505, 0.9505), (True, True, True)),
    ],
)
def test_results_mean_what_they_say(
    behaviour: Behaviour, accuracies: tuple[float, float], verdicts: tuple[bool, bool, bool]
) -> None:
    summary, row = results(CONFIG, {None: behaviour}, stage=T)
    for found in (summary, row):
        for name, accuracy in zip(("id", "ood"), accuracies, strict=True):
            assert found[f"{name}_accuracy"] == pytest.approx(accuracy, abs=0.02)
            low, high = found[f"{name}_interval"]
            assert low < found[f"{name}_accuracy"] <= high
    assert tuple(summary[name] for name in ("succeeded", "ood_succeeded", "internalized")) == verdicts
    length = 2 if behaviour.at_once else T + 1
    assert summary["response_length"] == summary["forward_passes"] == row["ood_response_length"] == length
    # the last stage shows q_T alone: a chain before it is not the answer that was asked for
    assert row["ood_exact_chain"] == (row["ood_accuracy"] if behaviour.at_once else 0.0)


def test_the_right_chain_is_not_internalized_where_it_is_what_was_asked_for() -> None:
    summary, row = results(replace(CONFIG, method="cot"), {None: Behaviour(at_once=False)}, stage=1)
    assert (summary["succeeded"], summary["ood_succeeded"], summary["internalized"]) == (True, True, False)
    assert row["id_exact_chain"] == row["ood_exact_chain"] == 1.0


def test_a_mixture_is_judged_by_its_direct_answer() -> None:
    """Asked for two tokens it is right on few ones only; asked for the chain, always."""
    behaviours: dict[int | None, Behaviour] = {2: Behaviour(FEW_ONES), T + 1: Behaviour(at_once=False)}
    summary, row = results(replace(CONFIG, method="mixture"), behaviours, stage=1)
    assert (summary["response_length"], summary["chain_response_length"]) == (2, T + 1)
    assert (summary["succeeded"], summary["ood_succeeded"], summary["internalized"]) == (True, False, True)
    for found in (summary, row):
        assert found["ood_accuracy"] == pytest.approx(FEW_OOD, abs=0.02)
        assert found["chain_ood_accuracy"] == 1.0
    assert row["chain_ood_exact_chain"] == 1.0
