"""A round's learning by hand: what the search says, what the examples are, how fast they are learned, and θ."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

pytest.importorskip("pyspiel", reason='needs OpenSpiel: pip install "internalize[selfplay]"')

from internalize.kinds.selfplay import SelfPlayConfig, rounds
from internalize.kinds.selfplay.experiment import SelfPlayExperiment
from internalize.kinds.selfplay.positions import Positions
from internalize.kinds.selfplay.rounds import Played, SelfPlayState, examples_of, learning_rate, self_play
from internalize.kinds.selfplay.search import Evaluations, Noise, Player, Rule, Searched, _noisy
from internalize.models.mlp import PolicyValue
from internalize.models.parameters import AdamW
from internalize.runtime.kind import Streams

TINY = SelfPlayConfig(
    rounds=2, games=3, simulations=4, updates=5, batch=8, width=8, depth=1, lr=0.01, measured=50, matches=2
)


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of `TINY` in two parts of self-play (2 and 1 games) and three of training (2, 2, 1 updates)."""
    monkeypatch.setattr(rounds, "GAMES_AT_ONCE", 2)
    monkeypatch.setattr(rounds, "UPDATES_AT_ONCE", 2)


def start(config: SelfPlayConfig) -> tuple[SelfPlayExperiment, SelfPlayState, Streams]:
    experiment, streams = config.build(torch.device("cpu"), {}), Streams(config.seed)
    return experiment, experiment.init(streams), streams


# What the search says ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("temperature", "first", "second"),
    [  # of the visits 1, 4, 0, 9 and 25, 0, 0, 0
        (1.0, [1 / 14, 4 / 14, 0, 9 / 14], [1, 0, 0, 0]),
        (2.0, [1 / 6, 2 / 6, 0, 3 / 6], [1, 0, 0, 0]),
        (0.5, [1 / 98, 16 / 98, 0, 81 / 98], [1, 0, 0, 0]),
    ],
)
def test_the_searched_policy_is_visits_to_the_power_of_one_over_the_temperature(
    temperature: float, first: list[float], second: list[float]
) -> None:
    found = Searched(np.array([[1, 4, 0, 9], [25, 0, 0, 0]]), np.zeros(2), np.zeros(2, np.int64))
    assert found.policy(temperature) == pytest.approx(np.array([first, second]))


class Drawn(np.random.Generator):
    """Whose gamma variables are told."""

    def gamma(self, shape: float, *, size: int) -> NDArray[np.float64]:  # type: ignore[override]
        assert (shape, size) == (0.5, 5)
        return np.array([1.0, 3.0, 2.0, 2.0, 4.0])


def test_a_quarter_of_the_roots_prior_is_noise() -> None:
    """Two roots, of two and three moves. Gamma variables over their sum in a root are a Dirichlet draw."""
    prior, rows = np.array([0.6, 0.4, 0.2, 0.3, 0.5]), np.array([0, 0, 1, 1, 1])
    dirichlet = [1 / 4, 3 / 4, 2 / 8, 2 / 8, 4 / 8]
    noise = Noise(SelfPlayConfig().noise, SelfPlayConfig().concentration, Drawn(np.random.PCG64()))
    expected = [0.75 * p + 0.25 * n for p, n in zip(prior.tolist(), dirichlet, strict=True)]
    assert _noisy(prior, rows, noise).tolist() == pytest.approx(expected)


# What is learned from it ---------------------------------------------------------------------------------


def test_an_example_is_position_policy_and_a_mixture_of_outcome_and_value() -> None:
    positions = Positions("tic_tac_toe")
    corner = positions.play(np.array([0]), np.array([0]))[0]
    policy = np.eye(9)[[4, 8, 4]]
    played = Played(
        numbers=np.array([0, corner, 0]),
        game=np.array([0, 0, 1]),
        policy=policy,
        outcome=np.array([1.0, 0.0, 0.5]),
        value=np.array([0.6, 0.9, 0.2]),
        passes=np.ones(3, np.int64),
    )
    examples = examples_of(positions, played, outcome_share=0.25)
    assert examples.outcome.tolist() == pytest.approx([0.25 + 0.45, 0.675, 0.125 + 0.15])
    assert examples.policy.tolist() == policy.tolist()
    assert examples.legal.tolist() == [[True] * 9, [False] + [True] * 8, [True] * 9]
    assert examples.features[:, -1].tolist() == [0, 1, 0]  # the player to move


def test_self_play_goes_by_the_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of it is its own, so that none can stand in for another."""
    config = replace(
        TINY, simulations=5, exploration=1.1, temperature=0.6, noise=0.3, concentration=0.7, outcome_share=0.2
    )
    asked: list[tuple[Any, ...]] = []
    answered: list[Played] = []

    def watched(said: Evaluations, *arguments: Any) -> Played:
        asked.append(arguments)
        answered.append(self_play(said, *arguments))
        return answered[0]

    monkeypatch.setattr(rounds, "self_play", watched)
    experiment, state, streams = start(config)
    experiment.advance(state, streams)
    ((starts, rule, rng, temperature, noise),) = asked
    assert len(starts) == 3
    assert (rule, temperature, noise) == (Rule(5, 1.1), 0.6, Noise(0.3, 0.7, rng))
    mixed = 0.2 * answered[0].outcome + 0.8 * answered[0].value
    assert state.examples.outcome.tolist() == pytest.approx(mixed.tolist())


# How fast ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "share"),
    [
        (0, 1.0),
        (3, (1 + math.sqrt(0.5)) / 2),
        (4, 0.75),
        (6, 0.5),
        (8, 0.25),
        (9, (1 - math.sqrt(0.5)) / 2),
        (12, 0.0),
    ],
)
def test_the_learning_rate_falls_to_zero_along_half_a_cosine(update: int, share: float) -> None:
    config = replace(TINY, rounds=3, updates=4, lr=0.02)
    assert learning_rate(config, update) == pytest.approx(0.02 * share, abs=1e-12)


@pytest.mark.usefixtures("in_parts")
def test_every_update_has_its_own_place_on_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten updates, wherever a round or a part of it ends."""
    used: list[float] = []
    step = AdamW.step

    def watched(self: AdamW) -> None:
        used.append(self.lr)
        step(self)

    monkeypatch.setattr(AdamW, "step", watched)
    experiment, state, streams = start(TINY)
    while not experiment.done(state):
        experiment.advance(state, streams)
    assert used == pytest.approx([0.005 * (1 + math.cos(math.pi * update / 10)) for update in range(10)])


# θ of the definition -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_parts")
def test_the_definition_compares_with_the_weights_at_the_end_of_the_round_before() -> None:
    experiment, state, streams = start(TINY)
    ends: list[Tensor] = [state.flat.clone()]
    while not experiment.done(state):
        experiment.advance(state, streams)
        if experiment.stage(state).just_ended:
            assert torch.equal(state.before, ends[-1])
            ends.append(state.flat.clone())
    assert len(ends) == 3
    assert not any(torch.equal(one, other) for one, other in pairwise(ends))

    found: Any = experiment.finish(state, streams).summary["definition"]
    table, on = experiment.positions, experiment.yardstick(streams)
    network = PolicyValue(table.inputs, table.actions, TINY.width, TINY.depth)
    torch.nn.utils.vector_to_parameters(ends[1], network.parameters())
    searching = Player(Evaluations(table, network), Rule(TINY.simulations, TINY.exploration))
    right = on.optimal[np.arange(len(on.numbers)), searching.choose(on.numbers)[0]]
    assert found["slow_risk"] == pytest.approx(1 - right.mean())
    assert found["clauses"]["different_weights"] is True
    now = Player(Evaluations(table, state.network), searching.rule)
    assert on.optimal[np.arange(len(on.numbers)), now.choose(on.numbers)[0]].mean() != right.mean()
