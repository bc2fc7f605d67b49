"""The two players that are compared: the raw network, and the network with search. Both are predictors.

Seconds that a move takes are by the clock of this machine: no part of a run's results.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from internalize.kinds.entrance import load_config
from internalize.kinds.selfplay.config import SelfPlayConfig
from internalize.kinds.selfplay.positions import Positions, draw_starts
from internalize.kinds.selfplay.search import Evaluations, Rule, search
from internalize.measure.predictor import Prediction
from internalize.models.parameters import digest_of
from internalize.models.policy_value import PolicyValue
from internalize.runs.folder import Run


@dataclass(frozen=True)
class Player:
    """Answers positions (by their numbers) with an action. No rule, or one of 0 simulations: at once."""

    said: Evaluations
    rule: Rule | None = None

    @property
    def searches(self) -> bool:
        return self.rule is not None and self.rule.simulations > 0

    @property
    def model_class(self) -> str:
        return class_of(self.said.network)

    @cached_property
    def weights_digest(self) -> str:
        return digest_of(self.said.network.named_parameters())

    def choose(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(batch,) actions, and the evaluations by the network that each took."""
        if not self.searches:
            return self.said.best_actions(numbers), np.ones(len(numbers), np.int64)
        assert self.rule is not None
        found = search(self.said, numbers, self.rule)
        return found.best_actions(), found.passes

    def answer(self, inputs: Tensor) -> Prediction:
        """(batch,) numbers of positions.

        Cost: of P_SP the search at x alone, and before it the call that the paper's algorithm makes first
        (π ← h(x)). What the program spends on the rest of the game comes on top.
        """
        actions, passes = self.choose(inputs.numpy())
        calls = torch.from_numpy(passes) + int(self.searches)
        return Prediction(torch.from_numpy(actions), calls, calls.double() * self.said.network.flops)


def class_of(network: PolicyValue) -> str:
    shape = " ".join(f"{name}{tuple(parameter.shape)}" for name, parameter in network.named_parameters())
    return f"a ReLU network with a policy and a value: {shape}"


POSITIONS = 50


def load_network(run: Run, stage: int | None = None) -> tuple[SelfPlayConfig, Positions, PolicyValue]:
    """The run's config, an empty table of its game, and its network: the final one, or a round's."""
    config = load_config(run)
    assert isinstance(config, SelfPlayConfig)
    positions = Positions(config.game)
    network = PolicyValue(positions.inputs, positions.actions, config.width, config.depth)
    network.load_state_dict(run.weights(stage))
    return config, positions, network


def seconds_per_move(run: Run) -> dict[str, float]:
    """Median seconds of the raw network and of search for one position alone, nothing remembered, in turn."""
    config, positions, network = load_network(run)
    numbers = draw_starts(positions, "random", POSITIONS, np.random.default_rng(0))
    rules = {"raw": None, "search": Rule(config.simulations, config.exploration)}
    samples: dict[str, list[float]] = {name: [] for name in rules}
    for number in numbers:
        for name, rule in rules.items():
            player = Player(Evaluations(positions, network), rule)
            player.choose(np.array([number]))  # once before: its positions are in the table then
            player = Player(Evaluations(positions, network), rule)
            start = time.perf_counter()
            player.choose(np.array([number]))
            samples[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in samples.items()}
