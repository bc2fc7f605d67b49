"""What a self-play run will cost: products, bytes on disk and in memory.

Updates are counted. What the searches ask of the network depends on how games go, so it is bounded from above:
one evaluation for the root and one for every simulation (one that ends with the game needs none), each position
once for as long as the weights stay. How many moves a game takes is estimated from random games.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from internalize.kinds.selfplay.config import SelfPlayConfig, Starts
from internalize.kinds.selfplay.positions import ENUMERABLE, Positions
from internalize.kinds.selfplay.schedule import GAMES_AT_ONCE, parts_of, share_of
from internalize.kinds.selfplay.starts import all_going, draw_starts
from internalize.models.policy_value import PolicyValue
from internalize.runtime.counted import Counted, disk_bytes
from internalize.runtime.execution import KeepStages

BYTES = 4
"""Of a number in fp32, which weights and examples are."""
QUICKLY_MET = 20_000
"""Games with at most so many positions are looked at as a whole here; larger ones would take too long."""
RANDOM_GAMES = 256
NODE_BYTES, MOVE_BYTES = 36, 24
"""Of a node of the search's trees, and of each move of it (`trees.py`)."""


@dataclass(frozen=True)
class GameFacts:
    """What a game is like, as far as costs go."""

    inputs: int
    actions: int
    most_moves: int
    """Legal moves of one position, at the most met."""
    moves: float
    """Of a random game from the positions where games begin, the mean."""
    going: int | None
    """Positions in which the game is not over; None if there are too many to look at here."""

    def evaluations(self, asked: float) -> float:
        """How many the network really makes if searches with the same weights ask for so many."""
        return asked if self.going is None else min(asked, self.going)


@cache
def facts_of(game: str, starts: Starts) -> GameFacts:
    positions = Positions(game)
    whole = positions.enumerate(QUICKLY_MET)
    rng = np.random.default_rng(0)
    begin: Starts = starts if whole or starts == "empty" else "random"
    current = draw_starts(positions, begin, RANDOM_GAMES, rng)
    moves = 0
    while len(current):
        moves += len(current)
        drawn = [int(rng.integers(positions.moves[number])) for number in current]
        reached = np.array([positions.after(int(n), move) for n, move in zip(current, drawn, strict=True)])
        current = reached[~positions.is_over(reached)]
    return GameFacts(
        positions.inputs,
        positions.actions,
        positions.most_moves,
        moves / RANDOM_GAMES,
        len(all_going(positions)) if whole else None,
    )


def count(config: SelfPlayConfig, keep_stages: KeepStages = "all") -> Counted:
    facts = facts_of(config.game, config.starts)
    with torch.device("meta"):
        network = PolicyValue(facts.inputs, facts.actions, config.width, config.depth)
    weights = BYTES * sum(parameter.numel() for parameter in network.parameters())
    playing = config.rounds * evaluations_of_round(config, facts) * network.flops
    updates = config.rounds * config.updates * update_flops(network, config.batch)
    examples = _examples_bytes(config, facts)
    checkpoint = 4 * weights + examples  # now, at the beginning of the round, and two moments
    return Counted(
        playing + updates,
        measured_evaluations(config, facts) * network.flops,
        disk_bytes(keep_stages, config.rounds, weights, checkpoint, weights),
        float(checkpoint + weights + _search_bytes(config, facts)),
    )


def evaluations_of_round(config: SelfPlayConfig, facts: GameFacts) -> float:
    """Of the network in self-play; every part of it asks anew."""
    games = (share_of(config.games, GAMES_AT_ONCE, part) for part in range(parts_of(config)[0]))
    return sum(facts.evaluations(count * facts.moves * (1 + config.simulations)) for count in games)


def update_flops(network: PolicyValue, batch: int) -> float:
    """Forward, the weights' gradient, and what is handed down, which the first layer has no use for."""
    first = next(network.parameters())
    return batch * (3 * network.flops - 2.0 * first.numel())


def measured_evaluations(config: SelfPlayConfig, facts: GameFacts) -> float:
    """After every round, in the first one also before any training, and at the end.

    Where it is not known whether the game can be enumerated, as many as if it just could.
    """
    everywhere = ENUMERABLE if facts.going is None else facts.going
    positions = config.measured if facts.going is None else min(config.measured, everywhere)
    turns = config.matches * facts.moves / 2  # in a match each of the two moves every other time
    a_search = 1 + config.simulations
    raw = max(everywhere, facts.evaluations(positions + turns))  # it follows all lines of an enumerated game
    searching = facts.evaluations((positions + turns) * a_search)
    before = facts.evaluations(positions * a_search)  # with the weights that a round began with
    each = raw + searching + before
    final = max(each, 3.0 * everywhere)  # over all positions of an enumerated game
    return raw + searching + config.rounds * each + final


def _examples_bytes(config: SelfPlayConfig, facts: GameFacts) -> int:
    """Of the window's games: what the network reads, legal moves, the searched policy and the outcome."""
    visited = round(config.games * facts.moves * min(config.window, config.rounds))
    return visited * (BYTES * (facts.inputs + facts.actions + 1) + facts.actions)


def _search_bytes(config: SelfPlayConfig, facts: GameFacts) -> int:
    """The trees of the games that are played at once."""
    nodes = min(config.games, GAMES_AT_ONCE) * (1 + config.simulations)
    return nodes * (NODE_BYTES + MOVE_BYTES * facts.most_moves)
