"""Seconds that a move takes, by the clock of this machine: no part of a run's results."""

from __future__ import annotations

import statistics
import time

import numpy as np

from internalize.kinds.entrance import load_config
from internalize.kinds.selfplay.config import SelfPlayConfig
from internalize.kinds.selfplay.evaluations import Evaluations
from internalize.kinds.selfplay.players import Player
from internalize.kinds.selfplay.positions import Positions
from internalize.kinds.selfplay.search import Rule
from internalize.kinds.selfplay.starts import draw_starts
from internalize.models.policy_value import PolicyValue
from internalize.runs.folder import Run

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
