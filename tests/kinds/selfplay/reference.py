"""The same rules written as naively as possible, on OpenSpiel's own states, to compare the fast code with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from internalize.models.mlp import PolicyValue

Evaluate = Callable[[Any], tuple[dict[int, float], float]]
"""A state to the prior of each legal action, and the value for the player to move."""


def random_network(inputs: int, actions: int, seed: int = 0, width: int = 16) -> PolicyValue:
    """A network with strong opinions, none of them learned."""
    generator = torch.Generator().manual_seed(seed)
    network = PolicyValue(inputs, actions, width, 2).initialise(generator)
    with torch.no_grad():
        for head in (network.policy, network.value):
            head.weight.copy_(torch.randn(head.weight.shape, generator=generator) * 0.5)
    return network


def naive_evaluation(network: PolicyValue) -> Evaluate:
    def evaluate(state: Any) -> tuple[dict[int, float], float]:
        player = state.current_player()
        features = torch.tensor([*state.observation_tensor(player), player], dtype=torch.float32)
        with torch.no_grad():
            logits, value = network(features[None])
        legal = state.legal_actions()
        weights = np.exp(logits[0].double().numpy()[legal])
        return dict(zip(legal, weights / weights.sum(), strict=True)), float(torch.sigmoid(value.double())[0])

    return evaluate


class Node:
    def __init__(self, state: Any, evaluate: Evaluate) -> None:
        self.state = state
        self.prior, self.value = evaluate(state)
        self.visits = dict.fromkeys(self.prior, 0)
        self.total = dict.fromkeys(self.prior, 0.0)
        self.children: dict[int, Node] = {}


def naive_search(state: Any, evaluate: Evaluate, simulations: int, c: float) -> tuple[dict[int, int], int]:
    """Visits of each legal action at the root, and how often the network was asked."""
    root, asked = Node(state, evaluate), 1
    for _ in range(simulations):
        path: list[tuple[Node, int]] = []
        node = root
        while True:
            action = max(node.prior, key=lambda a: (puct(node, a, c), -a))
            path.append((node, action))
            if action not in node.children:
                break
            node = node.children[action]
        after = node.state.child(action)
        if after.is_terminal():
            first = (1 + np.sign(after.returns()[0])) / 2
        else:
            node.children[action] = Node(after, evaluate)
            asked += 1
            value = node.children[action].value
            first = value if after.current_player() == 0 else 1 - value
        for passed, move in path:
            passed.visits[move] += 1
            passed.total[move] += first if passed.state.current_player() == 0 else 1 - first
    return root.visits, asked


def puct(node: Node, action: int, c: float) -> float:
    n = node.visits[action]
    q = node.total[action] / n if n else node.value
    return q + c * math.sqrt(1 + sum(node.visits.values())) * node.prior[action] / (1 + n)


def minimax(state: Any, known: dict[str, float]) -> float:
    """The value for player 0 under best play: 1, ½ or 0."""
    key = str(state)
    if key not in known:
        if state.is_terminal():
            known[key] = (1 + float(np.sign(state.returns()[0]))) / 2
        else:
            best = max if state.current_player() == 0 else min
            known[key] = best(minimax(state.child(action), known) for action in state.legal_actions())
    return known[key]
