"""The search's inner loop, compiled: many trees in shared arrays, each grown as far as known positions reach.

The rule is AlphaGo Zero's PUCT. In a node, the move with the largest

    Q + c · P · √(1 + Σ n) / (1 + n)

is followed: P its prior, n its visits, Q the mean outcome for the player to move there (for a move not visited
yet the network's own value of the node), Σ n the visits of all moves; of equals the first. A simulation ends at
a position without a node: the game's outcome if it is over, else the network's value, and a node is added.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

import internalize.models.kernels  # noqa: F401 - a place for what is compiled


class KernelTable(NamedTuple):
    """What the kernels read of `Positions` and `Evaluations`."""

    player: NDArray[np.int8]
    outcome: NDArray[np.float64]
    moves: NDArray[np.int32]
    first_move: NDArray[np.int64]
    child: NDArray[np.int32]
    value: NDArray[np.float64]
    prior: NDArray[np.float64]
    ready: NDArray[np.bool_]
    """Positions whose value may be used without asking."""


Table = KernelTable
"""Its earlier name, by which kernels that numba stored know it: it reads old ones before it replaces them."""


class Trees(NamedTuple):
    """Nodes and moves of all trees. The moves of a node are move_start … in the order of the table's."""

    position: NDArray[np.int32]
    parent: NDArray[np.int32]
    """The node above, -1 at a root; and the move that leads here."""
    parent_move: NDArray[np.int64]
    move_start: NDArray[np.int64]
    node_value: NDArray[np.float64]
    node_visits: NDArray[np.int32]
    visits: NDArray[np.int32]
    total: NDArray[np.float64]
    """Outcomes seen after a move, added up, for the player who makes it."""
    below: NDArray[np.int32]
    """The node that a move leads to, -1 if there is none yet."""
    prior: NDArray[np.float64]
    used: NDArray[np.int64]
    """(2,): nodes and moves in use."""


class Games(NamedTuple):
    """One entry a game: what its search has done and what it waits for."""

    done: NDArray[np.int32]
    """Simulations."""
    passes: NDArray[np.int64]
    """Evaluations by the network, the root's among them."""
    leaf_node: NDArray[np.int32]
    leaf_move: NDArray[np.int64]
    """The place of the leaf's move among its node's."""
    leaf_position: NDArray[np.int64]
    """The position that is waited for; -1 if its number is not known yet, -2 if nothing is waited for."""


NOTHING = -2


def new_trees(nodes: int, moves: int) -> Trees:
    """Room for so many; untouched memory costs nothing."""
    return Trees(
        position=np.empty(nodes, np.int32),
        parent=np.empty(nodes, np.int32),
        parent_move=np.empty(nodes, np.int64),
        move_start=np.empty(nodes, np.int64),
        node_value=np.empty(nodes),
        node_visits=np.empty(nodes, np.int32),
        visits=np.empty(moves, np.int32),
        total=np.empty(moves),
        below=np.empty(moves, np.int32),
        prior=np.empty(moves),
        used=np.zeros(2, np.int64),
    )


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def add_node(table: KernelTable, trees: Trees, position: int, parent: int, parent_move: int) -> int:
    node, start = trees.used[0], trees.used[1]
    first, count = table.first_move[position], table.moves[position]
    trees.position[node] = position
    trees.parent[node] = parent
    trees.parent_move[node] = parent_move
    trees.move_start[node] = start
    trees.node_value[node] = table.value[position]
    trees.node_visits[node] = 0
    for move in range(count):
        trees.visits[start + move] = 0
        trees.total[start + move] = 0.0
        trees.below[start + move] = -1
        trees.prior[start + move] = table.prior[first + move]
    trees.used[0] = node + 1
    trees.used[1] = start + count
    return node


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def add_roots(table: KernelTable, trees: Trees, numbers: NDArray[np.int64]) -> None:
    for number in numbers:
        add_node(table, trees, number, -1, -1)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def choose(table: KernelTable, trees: Trees, node: int, exploration: float) -> int:
    """The place of the move that PUCT follows."""
    start, count = trees.move_start[node], table.moves[trees.position[node]]
    scale = exploration * np.sqrt(1.0 + trees.node_visits[node])
    best, best_score = 0, -1.0
    for move in range(count):
        n = trees.visits[start + move]
        q = trees.total[start + move] / n if n > 0 else trees.node_value[node]
        score = q + scale * trees.prior[start + move] / (1.0 + n)
        if score > best_score:
            best, best_score = move, score
    return best


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def back_up(table: KernelTable, trees: Trees, node: int, move: int, outcome: float) -> None:
    """Count the outcome, which is player 0's, at every move from the leaf up to the root."""
    while node >= 0:
        mine = outcome if table.player[trees.position[node]] == 0 else 1.0 - outcome
        trees.visits[move] += 1
        trees.total[move] += mine
        trees.node_visits[node] += 1
        move = trees.parent_move[node]
        node = trees.parent[node]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def finish_simulation(table: KernelTable, trees: Trees, games: Games, game: int) -> None:
    """Take what the leaf is worth, add its node, and count it upwards."""
    node, position = games.leaf_node[game], games.leaf_position[game]
    move = trees.move_start[node] + games.leaf_move[game]
    if table.player[position] < 0:
        outcome = table.outcome[position]
    else:
        trees.below[move] = add_node(table, trees, position, node, move)
        games.passes[game] += 1
        value = table.value[position]
        outcome = value if table.player[position] == 0 else 1.0 - value
    back_up(table, trees, node, move, outcome)
    games.done[game] += 1
    games.leaf_position[game] = NOTHING


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def simulate(table: KernelTable, trees: Trees, games: Games, simulations: int, exploration: float) -> int:
    """Go on with every search until it is done or needs a position or a value; how many still need something.

    Game g's root is node g.
    """
    waiting = 0
    for game in range(len(games.done)):
        asked = games.leaf_position[game]
        if asked >= 0:
            if table.player[asked] >= 0 and not table.ready[asked]:
                waiting += 1
                continue
            finish_simulation(table, trees, games, game)
        while games.done[game] < simulations:
            node = game
            move = choose(table, trees, node, exploration)
            while trees.below[trees.move_start[node] + move] >= 0:
                node = trees.below[trees.move_start[node] + move]
                move = choose(table, trees, node, exploration)
            position = table.child[table.first_move[trees.position[node]] + move]
            games.leaf_node[game] = node
            games.leaf_move[game] = move
            games.leaf_position[game] = position
            if position < 0 or (table.player[position] >= 0 and not table.ready[position]):
                waiting += 1
                break
            finish_simulation(table, trees, games, game)
    return waiting
