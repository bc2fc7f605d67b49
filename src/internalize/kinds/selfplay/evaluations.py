"""What the network says of positions: asked once for each, many at a time, kept as long as the weights stay."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from internalize.kinds.selfplay.positions import Positions
from internalize.models.policy_value import PolicyValue

AT_ONCE = 8192
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
        for start in range(0, len(wanted), AT_ONCE):
            self._ask(wanted[start : start + AT_ONCE])

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
