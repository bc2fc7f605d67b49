"""Tree search guided by the network: many positions at once, leaves evaluated in one call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from internalize.kinds.selfplay.evaluations import Evaluations
from internalize.kinds.selfplay.trees import (
    NOTHING,
    Games,
    Table,
    Trees,
    add_roots,
    new_trees,
    simulate,
)

AT_ONCE = 1024
"""Searches that share one set of trees, at the most: more do not fit into the cache."""


@dataclass(frozen=True)
class Rule:
    """How a search goes about it."""

    simulations: int
    exploration: float
    """c of the PUCT rule."""


@dataclass(frozen=True)
class Noise:
    """Dirichlet noise at the roots, so that self-play tries what the network thinks little of."""

    share: float
    """Of the root's prior that is noise."""
    concentration: float
    rng: np.random.Generator


@dataclass(frozen=True)
class Searched:
    """What a search found, one row a position."""

    visits: NDArray[np.int64]
    """(batch, actions): how often each action was followed from the root."""
    value: NDArray[np.float64]
    """(batch,): the mean outcome of the simulations, for the player to move."""
    passes: NDArray[np.int64]
    """(batch,): evaluations by the network that the search asked for, answered from memory or not."""

    def best_actions(self) -> NDArray[np.int64]:
        """The most visited action, the first of equals."""
        return self.visits.argmax(1)

    def policy(self, temperature: float) -> NDArray[np.float64]:
        """(batch, actions): visits^(1/temperature), adding up to 1."""
        weights = (self.visits / self.visits.max(1, keepdims=True)) ** (1 / temperature)
        return weights / weights.sum(1, keepdims=True)


def search(said: Evaluations, numbers: NDArray[np.int64], rule: Rule, noise: Noise | None = None) -> Searched:
    """Search from each of the positions, none of which may be over.

    Without noise the result is a function of network, position and rule alone.
    """
    parts = [
        _search(said, numbers[start : start + AT_ONCE], rule, noise)
        for start in range(0, len(numbers), AT_ONCE)
    ]
    return Searched(
        np.concatenate([part.visits for part in parts]),
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.passes for part in parts]),
    )


def _search(said: Evaluations, numbers: NDArray[np.int64], rule: Rule, noise: Noise | None) -> Searched:
    positions, count = said.positions, len(numbers)
    said.require(numbers)
    trees = new_trees(count * (rule.simulations + 1), _moves_needed(said, count, rule.simulations + 1))
    table = _table(said)
    add_roots(table, trees, numbers)
    entries, rows = positions.entries(numbers)
    if noise is not None:
        trees.prior[: len(rows)] = _noisy(trees.prior[: len(rows)], rows, noise)
    games = Games(
        done=np.zeros(count, np.int32),
        passes=np.ones(count, np.int64),
        leaf_node=np.zeros(count, np.int32),
        leaf_move=np.zeros(count, np.int64),
        leaf_position=np.full(count, NOTHING, np.int64),
    )
    while simulate(table, trees, games, rule.simulations, rule.exploration):
        if not _number_leaves(said, trees, games):
            # only when all searches wait for the network: so what is asked in one call, and with it the last
            # bits of the answers, does not depend on which positions the table has met before
            leaves = games.leaf_position[games.leaf_position >= 0]
            said.require(leaves)
        trees = _with_room(said, trees, int((rule.simulations - games.done).sum()))
        table = _table(said)
    visits = np.zeros((count, positions.actions), np.int64)
    visits[rows, positions.action[entries]] = trees.visits[: len(rows)]
    total = np.bincount(rows, trees.total[: len(rows)], count)
    return Searched(visits, total / rule.simulations, games.passes)


def _number_leaves(said: Evaluations, trees: Trees, games: Games) -> bool:
    """Give the positions that are waited for their numbers; whether there were any without."""
    new = np.flatnonzero(games.leaf_position == -1)
    for game in new:
        above = int(trees.position[games.leaf_node[game]])
        games.leaf_position[game] = said.positions.after(above, int(games.leaf_move[game]))
    return len(new) > 0


def _moves_needed(said: Evaluations, count: int, nodes: int) -> int:
    return count * nodes * max(1, said.positions.most_moves)


def _with_room(said: Evaluations, trees: Trees, nodes: int) -> Trees:
    """The same trees with room for so many more nodes, each with as many moves as any position met so far."""
    needed = int(trees.used[1]) + _moves_needed(said, 1, nodes)
    if needed <= len(trees.visits):
        return trees
    wider = {}
    for name in ("visits", "total", "below", "prior"):
        old = getattr(trees, name)
        wider[name] = np.empty(2 * needed, old.dtype)
        wider[name][: len(old)] = old
    return trees._replace(**wider)


def _table(said: Evaluations) -> Table:
    said.fit_to_table()
    table = said.positions
    return Table(
        player=table.player,
        outcome=table.outcome,
        moves=table.moves,
        first_move=table.first_move,
        child=table.child,
        value=said.value,
        prior=said.prior,
        ready=said.known,
    )


def _noisy(prior: NDArray[np.float64], rows: NDArray[np.int64], noise: Noise) -> NDArray[np.float64]:
    """(moves,): priors mixed with a Dirichlet draw for each row."""
    drawn = noise.rng.gamma(noise.concentration, size=len(rows)) + 1e-12
    drawn /= np.bincount(rows, drawn)[rows]
    return (1 - noise.share) * prior + noise.share * drawn
