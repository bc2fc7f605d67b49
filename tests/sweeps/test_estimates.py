"""How long runs are said to take, against how long they take by a clock that only certain work moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from internalize import ChainConfig, EvaluationConfig, Execution, ModelConfig, train
from internalize.kinds import prepare
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.chain.forecast import measured_answers
from internalize.kinds.hints import HintsConfig
from internalize.kinds.hints.config import HintsEvaluation
from internalize.kinds.parity import ParityConfig
from internalize.kinds.parity.descent import PhaseBatch
from internalize.kinds.parity.evaluation import LayerPredictor
from internalize.kinds.parity.experiment import ParityExperiment
from internalize.models.mlp import MLP, SGD
from internalize.runtime.kind import ExperimentConfig
from internalize.sweeps.plan import expected_seconds


class Clock:
    """Stands still unless something is done that was given a price."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self._patch = monkeypatch
        monkeypatch.setattr("internalize.runtime.forecast.perf_counter", lambda: self.now)

    def price(self, owner: Any, name: str, seconds: Callable[..., float]) -> None:
        """Every call of owner.name takes as long as the function says, given the same arguments."""
        real = getattr(owner, name)

        def priced(*arguments: Any, **named: Any) -> Any:
            self.now += float(seconds(*arguments, **named))
            return real(*arguments, **named)

        self._patch.setattr(owner, name, priced)

    def compare(self, config: ExperimentConfig, out: Path) -> tuple[float, float]:
        """What is expected of the run, and what it takes."""
        (expected,) = expected_seconds([prepare(config)], Execution())
        before = self.now
        train(config, Execution(out=out))
        return expected, self.now - before


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_hints_with_every_measurement(clock: Clock, tmp_path: Path) -> None:
    """A step takes a second, an answer as long as it has weights; 600 inputs are more than are tried out."""

    def answer(self: MLP, x: Tensor) -> float:
        return 1e-3 * len(x) * sum(W.numel() for W in self.weights)

    clock.price(SGD, "__call__", lambda *_: 1.0)
    clock.price(MLP, "__call__", answer)
    evaluation = HintsEvaluation(every=7, samples=600, final_samples=900)
    config = HintsConfig(d=5, k=3, width=6, steps=40, batch=4, lr=0.01, evaluation=evaluation)
    expected, taken = clock.compare(config, tmp_path)
    assert taken > 10 * 40  # nearly all of it is measuring
    assert expected == pytest.approx(taken)


@pytest.mark.parametrize(
    "config",
    [
        ParityConfig(d=6, k=5, batch=60, steps=25_000, watch=False, contrast=False),
        ParityConfig(d=8, k=4, batch=60, steps=300, watch=False),
        ParityConfig(d=6, k=5, batch=60, steps=300, contrast=False),
    ],
    ids=["several calls", "contrast", "watched"],
)
def test_parity_with_a_first_phase_unlike_the_others(
    config: ParityConfig, clock: Clock, tmp_path: Path
) -> None:
    """A step takes as long as it has products, k rows of them in phase 1; measuring weighs as much."""
    from internalize.kinds.parity import evaluation as baseline
    from internalize.kinds.parity import experiment
    from internalize.kinds.parity import kind as estimate

    def descent(batch: PhaseBatch, start: Any, steps: int, *_: Any) -> float:
        widths = batch.widths.astype(np.float64)
        return float((2 * widths * batch.size + (steps + 1) * 2 * widths**2).sum())

    for module in (baseline, estimate, experiment):
        clock.price(module, "descend", descent)
    # of the watch the estimate knows how many products there are: 2 of (steps + 1, width) and (width, B), and u
    clock.price(
        experiment,
        "update_extremes",
        lambda extremes, batch, found, *_: sum(
            len(found.path) * (4 * width * batch.size + 2 * width**2) for width in batch.widths.tolist()
        ),
    )
    clock.price(ParityExperiment, "evaluate", lambda *_: 1e6)
    if not config.contrast:  # whose last test is short, and left out of the estimate
        clock.price(LayerPredictor, "outputs", lambda self, x: 1e4 * len(x) * self.steps)
    expected, taken = clock.compare(config, tmp_path)
    assert expected == pytest.approx(taken, rel=0.01)


def test_self_play_with_its_two_kinds_of_parts(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A game takes two seconds, an update three, a position measured a tenth; 50 are measured on the way."""
    pytest.importorskip("pyspiel", reason='needs OpenSpiel: pip install "internalize[selfplay]"')
    from internalize.kinds.selfplay import SelfPlayConfig, evaluation, rounds
    from internalize.kinds.selfplay import kind as estimate
    from internalize.kinds.selfplay.positions import Positions
    from internalize.models.parameters import AdamW

    for module in (rounds, estimate):
        monkeypatch.setattr(module, "GAMES_AT_ONCE", 2)
    estimate._table.cache_clear()
    clock.price(Positions, "enumerate", lambda *_: 70.0)
    clock.price(rounds, "self_play", lambda said, starts, *_: 2.0 * len(starts))
    clock.price(AdamW, "step", lambda self: 3.0)
    clock.price(evaluation, "rates", lambda raw, searching, on: 0.1 * len(on.numbers))
    config = SelfPlayConfig(
        rounds=3, games=5, simulations=2, updates=30, batch=8, width=8, depth=1, measured=50, matches=2
    )
    expected, taken = clock.compare(config, tmp_path)
    assert taken == pytest.approx(70 + 3 * (5 * 2 + 30 * 3) + 4 * 50 * 0.1 + 3_191 * 0.1)
    assert expected == pytest.approx(taken)


@pytest.mark.parametrize("method", ["left", "mixture"])
def test_chains_with_every_measurement(method: str, clock: Clock, tmp_path: Path) -> None:
    """Only answers take time, as much as they are to write: what the stage shows, whatever the model would."""
    from internalize.kinds.chain import evaluation
    from internalize.kinds.chain import forecast as estimate

    clock.price(
        estimate, "generate", lambda decoder, prompt, *_, forced_states: len(prompt) * (forced_states + 1)
    )
    clock.price(
        evaluation, "measure", lambda predictor, task, inputs, shown, samples, *_: samples * (len(shown) + 1)
    )
    model, evaluated = ModelConfig(depth=1, width=8, heads=2), EvaluationConfig(4, 20, 50)
    config = ChainConfig("C2", 5, method, 33, 0, model, batch=4, kernel="plain", evaluation=evaluated)
    expected, taken = clock.compare(config, tmp_path)
    counted = measured_answers(ChainExperiment(config, torch.device("cpu"), {}))
    assert taken == sum(float(asked.answers * asked.written) for asked in counted)
    assert expected == pytest.approx(taken)
