"""The paper's slow program P_SP: search, move, and so on to the end of the game (appendix B, its algorithm)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from internalize.kinds.selfplay.evaluations import Evaluations
from internalize.kinds.selfplay.search import Noise, Rule, search

LONGEST = 10_000
"""Moves after which a game that never ends is given up."""


@dataclass(frozen=True)
class Played:
    """Every position visited by some self-played games. Row i < starts is the first position of game i."""

    numbers: NDArray[np.int64]
    """(visited,): positions, by their numbers in the table."""
    game: NDArray[np.int64]
    """(visited,): the game in which it was visited."""
    policy: NDArray[np.float64]
    """(visited, actions): the searched policy there."""
    outcome: NDArray[np.float64]
    """(visited,): how the game ended for the player to move there: 1 won, ½ drawn, 0 lost."""
    value: NDArray[np.float64]
    """(visited,): the search's own estimate of that outcome."""
    passes: NDArray[np.int64]
    """(visited,): the network's evaluations in this search."""


def self_play(
    said: Evaluations,
    starts: NDArray[np.int64],
    rule: Rule,
    rng: np.random.Generator,
    temperature: float = 1.0,
    noise: Noise | None = None,
) -> Played:
    """P_SP from each start, all games side by side.

    Moves are drawn from the searched policy with `rng`: the paper's ρ. The first len(starts) rows are the
    program's answers, (π(· | x), z(x)); every later position of a game is a start of its own rest, and its row
    is what P_SP answers there with the rest of the same ρ.
    """
    positions = said.positions
    visited, games, policies, values, passes = [], [], [], [], []
    current, playing = starts.astype(np.int64), np.arange(len(starts))
    final = np.full(len(starts), -1, np.int64)
    for _ in range(LONGEST):
        if len(current) == 0:
            break
        found = search(said, current, rule, noise)
        policy = found.policy(temperature)
        visited.append(current)
        games.append(playing)
        policies.append(policy)
        values.append(found.value)
        passes.append(found.passes)
        reached = positions.play(current, _draw(policy, rng))
        over = positions.is_over(reached)
        final[playing[over]] = reached[over]
        current, playing = reached[~over], playing[~over]
    numbers, game = np.concatenate(visited), np.concatenate(games)
    return Played(
        numbers,
        game,
        np.concatenate(policies),
        outcome_for(said, numbers, final[game]),
        np.concatenate(values),
        np.concatenate(passes),
    )


def outcome_for(said: Evaluations, numbers: NDArray[np.int64], final: NDArray[np.int64]) -> NDArray[np.float64]:
    """(batch,): what the final position means for the player to move at the other; ½ if there is none."""
    table = said.positions
    outcome = np.where(final >= 0, table.outcome[final], 0.5)
    return np.where(table.player[numbers] == 0, outcome, 1.0 - outcome)


def _draw(policy: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """One action a row."""
    below = np.cumsum(policy, axis=1)
    drawn = rng.random(len(policy))[:, None] * below[:, -1:]
    return np.asarray((below <= drawn).sum(1))
