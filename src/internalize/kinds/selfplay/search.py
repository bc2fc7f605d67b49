"""Tree search guided by the network: many positions at once, leaves evaluated in one call.

What the network says of positions is asked once for each, many at a time, and kept as long as the weights stay.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from internalize.kinds.entrance import load_config
from internalize.kinds.selfplay.config import SelfPlayConfig
from internalize.kinds.selfplay.positions import Positions, draw_starts, load_game, spiel
from internalize.kinds.selfplay.trees import (
    NOTHING,
    Games,
    KernelTable,
    Trees,
    add_roots,
    new_trees,
    simulate,
)
from internalize.measure.predictor import Prediction
from internalize.models.mlp import PolicyValue
from internalize.models.parameters import digest_of
from internalize.runs.folder import Run

POSITIONS_AT_ONCE = 8192
"""Positions in one call of the network, at the most."""


class Evaluations:
    """Priors and values of positions under fixed weights."""

    def __init__(self, positions: Positions, network: PolicyValue, keep: bool = True) -> None:
        """keep: remember what was said. Without, every leaf of every search asks the network again."""
        self.positions = positions
        self.network = network
        self.keep = keep
        self.calls = 0
        """Calls of the network so far, each of many positions."""
        self.known = np.zeros(0, np.bool_)
        self.value = np.zeros(0)
        """(positions,): the outcome expected for the player to move."""
        self.prior = np.zeros(0)
        """One for each move of the table; those of a position add up to 1."""

    def fit_to_table(self) -> None:
        """Make the arrays as long as the table's."""
        table = self.positions
        if len(self.known) < len(table.player):
            more = len(table.player) - len(self.known)
            self.known = np.concatenate([self.known, np.zeros(more, np.bool_)])
            self.value = np.concatenate([self.value, np.zeros(more)])
        if len(self.prior) < len(table.action):
            self.prior = np.concatenate([self.prior, np.zeros(len(table.action) - len(self.prior))])

    def require(self, numbers: NDArray[np.int64]) -> None:
        """Ask for all of these positions that are not known yet, in the order in which they come first."""
        self.fit_to_table()
        if not self.keep:
            self.known[:] = False
        wanted = numbers[~self.known[numbers]]
        if len(wanted) == 0:
            return
        _, first = np.unique(wanted, return_index=True)
        wanted = wanted[np.sort(first)]
        for start in range(0, len(wanted), POSITIONS_AT_ONCE):
            self._ask(wanted[start : start + POSITIONS_AT_ONCE])

    def _ask(self, numbers: NDArray[np.int64]) -> None:
        table = self.positions
        self.calls += 1
        with torch.no_grad():
            logits, value = self.network(torch.from_numpy(table.features[numbers]))
        entries, rows = table.entries(numbers)
        scores = logits.numpy()[rows, table.action[entries]].astype(np.float64)
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        scores = np.exp(scores - np.maximum.reduceat(scores, starts)[rows])
        self.prior[entries] = scores / np.add.reduceat(scores, starts)[rows]
        self.value[numbers] = torch.sigmoid(value.double()).numpy()
        self.known[numbers] = True

    def best_actions(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The raw network's move in each position: its most probable legal action, the first of equals."""
        self.require(numbers)
        table = self.positions
        entries, rows = table.entries(numbers)
        dense = np.full((len(numbers), table.actions), -1.0)
        dense[rows, table.action[entries]] = self.prior[entries]
        return dense.argmax(1)


SEARCHES_AT_ONCE = 1024
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
    """What a search found, one row for each position."""

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
        _search(said, numbers[start : start + SEARCHES_AT_ONCE], rule, noise)
        for start in range(0, len(numbers), SEARCHES_AT_ONCE)
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


def _table(said: Evaluations) -> KernelTable:
    said.fit_to_table()
    table = said.positions
    return KernelTable(
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


REMEMBERED = 2**16
"""Positions whose evaluation is remembered, as many as OpenSpiel's own AlphaZero evaluator does."""


def openspiel_search(name: str, network: PolicyValue, rule: Rule) -> Callable[[Any], int]:
    """A function that searches from a state as OpenSpiel does, and returns the action.

    Its values lie in [-1, 1], twice as wide as ours: the same rule has twice our c. Nothing is remembered from
    one call to the next.
    """
    spiel()
    from open_spiel.python.algorithms import mcts

    def search(state: Any) -> int:
        bot = mcts.MCTSBot(
            load_game(name),
            2 * rule.exploration,
            rule.simulations,
            NetworkEvaluator(network),
            solve=False,
            random_state=np.random.RandomState(0),
            child_selection_fn=mcts.SearchNode.puct_value,
        )
        return int(bot.step(state))

    return search


class NetworkEvaluator:
    """What OpenSpiel's search asks of an evaluator, answered by our network and remembered."""

    def __init__(self, network: PolicyValue) -> None:
        self.network = network
        self._remembered: dict[bytes, tuple[float, np.ndarray[Any, np.dtype[np.float32]]]] = {}

    def _ask(self, state: Any) -> tuple[float, np.ndarray[Any, np.dtype[np.float32]]]:
        player = state.current_player()
        features = np.array([*state.observation_tensor(player), player], np.float32)
        key = features.tobytes()
        found = self._remembered.get(key)
        if found is None:
            with torch.no_grad():
                logits, value = self.network(torch.from_numpy(features)[None])
                mask = torch.tensor(state.legal_actions_mask(), dtype=torch.bool)
                policy = torch.softmax(logits[0].masked_fill(~mask, float("-inf")), 0).numpy()
                mine = 2 * float(torch.sigmoid(value)) - 1
            found = (mine if player == 0 else -mine, policy)
            if len(self._remembered) < REMEMBERED:
                self._remembered[key] = found
        return found

    def evaluate(self, state: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
        value, _ = self._ask(state)
        return np.array([value, -value])

    def prior(self, state: Any) -> list[tuple[int, float]]:
        _, policy = self._ask(state)
        return [(action, float(policy[action])) for action in state.legal_actions()]
