"""OpenSpiel's own Python MCTS on our network, to compare with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from internalize.kinds.selfplay.positions import load_game, spiel
from internalize.kinds.selfplay.search import Rule
from internalize.models.policy_value import PolicyValue

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
