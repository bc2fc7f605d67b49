"""Exact values of positions, by looking at every continuation. For measuring: training never comes here."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

import internalize.models.kernels  # noqa: F401 - a place for what is compiled
from internalize.kinds.selfplay.positions import UNKNOWN, Positions

UNSOLVED = -1.0
BUDGET = 1_000
"""Positions looked at for one answer where a game cannot be enumerated; what needs more stays open."""
DEEPEST = 400
MOST_POSITIONS = 300_000


@njit(cache=True)  # type: ignore[untyped-decorator]
def _sweep(
    player: NDArray[np.int8],
    first_move: NDArray[np.int64],
    moves: NDArray[np.int32],
    child: NDArray[np.int32],
    value: NDArray[np.float64],
) -> int:
    """Settle what can be settled, from the last position to the first; how many were."""
    settled = 0
    for number in range(len(value) - 1, -1, -1):
        if value[number] != UNSOLVED:
            continue
        best, open_moves = -1.0, 0
        for move in range(moves[number]):
            after = child[first_move[number] + move]
            if value[after] == UNSOLVED:
                open_moves += 1
            else:
                mine = value[after] if player[number] == 0 else 1.0 - value[after]
                best = max(best, mine)
        if best == 1.0 or open_moves == 0:
            value[number] = best if player[number] == 0 else 1.0 - best
            settled += 1
    return settled


def solve_all(positions: Positions) -> NDArray[np.float64]:
    """(positions,): every position's value for player 0 (1, ½, 0); `UNSOLVED` where play may go in circles."""
    assert positions.complete
    player = positions.player[: positions.count]
    value = np.where(player == UNKNOWN, positions.outcome[: positions.count], UNSOLVED)
    while _sweep(player, positions.first_move, positions.moves, positions.child, value):
        pass
    return value


class Searcher:
    """Values of single positions of a game too large to enumerate: every line, each position once."""

    def __init__(self, name: str, budget: int = BUDGET) -> None:
        self.positions = Positions(name)
        self.budget = budget
        self._value: dict[int, float] = {}
        self._left = 0

    def move_values(self, state: object) -> list[float] | None:
        """For each legal move its value for the player who makes it; None if the budget does not suffice."""
        if self.positions.count > MOST_POSITIONS:
            self.positions.clear()
            self._value.clear()
        number, self._left = self.positions.number_of(state), self.budget
        player, found = self.positions.player[number], []
        for move in range(int(self.positions.moves[number])):
            value = self._solve(self.positions.after(number, move), 0)
            if value == UNSOLVED:
                return None
            found.append(value if player == 0 else 1.0 - value)
        return found

    def _solve(self, number: int, depth: int) -> float:
        """The value for player 0. A won move settles a position: the others need not be looked at."""
        table = self.positions
        if table.player[number] == UNKNOWN:
            return float(table.outcome[number])
        if number in self._value:
            return self._value[number]
        self._left -= 1
        if self._left < 0 or depth > DEEPEST:
            return UNSOLVED
        mine_is_first = table.player[number] == 0
        best = 0.0
        for move in range(int(table.moves[number])):
            value = self._solve(table.after(number, move), depth + 1)
            if value == UNSOLVED:
                return UNSOLVED
            best = max(best, value if mine_is_first else 1.0 - value)
            if best == 1.0:
                break
        self._value[number] = best if mine_is_first else 1.0 - best
        return self._value[number]
