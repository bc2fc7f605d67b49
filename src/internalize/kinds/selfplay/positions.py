"""Positions as numbers: every position met is given one, and its facts become arrays that kernels can read.

Games go by their OpenSpiel name; what is no two-player game of skill alone is refused. The definition speaks of
every x, not of the empty board alone: games begin at any of these positions.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from internalize.errors import BadInput, closest, require
from internalize.kinds.selfplay.config import Starts

BOARD_TELLS_ALL = {
    "breakthrough",
    "clobber",
    "connect_four",
    "hex",
    "mnk",
    "nim",
    "pentago",
    "tic_tac_toe",
    "y",
}
"""Games in which the printed board and the player to move decide all that can follow. Positions of these that
are reached in several ways are one position; of every other game (repetitions, castling) the history is."""


def spiel() -> Any:
    """OpenSpiel, or a line that says how to get it."""
    try:
        import pyspiel
    except ImportError:
        raise BadInput("game", 'OpenSpiel is missing: pip install "internalize[selfplay]"') from None
    return pyspiel


@cache
def load_game(name: str) -> Any:
    """The game with this OpenSpiel name, for example `tic_tac_toe` or `connect_four(rows=4,columns=4)`."""
    pyspiel = spiel()
    short = name.partition("(")[0].strip()
    known = [game.short_name for game in pyspiel.registered_games()]
    hint = closest(short, known)
    require(short in known, "game", f"OpenSpiel has no game {short!r}{hint}")
    try:
        game = pyspiel.load_game(name)
    except (pyspiel.SpielError, RuntimeError) as error:
        raise BadInput("game", f"OpenSpiel refuses {name!r}: {error}") from None
    _refuse_others(name, game, pyspiel.GameType)
    return game


def _refuse_others(name: str, game: Any, kinds: Any) -> None:
    kind = game.get_type()
    for good, wanted in (
        (game.num_players() == 2, "for two players"),
        (kind.dynamics == kinds.Dynamics.SEQUENTIAL, "played in turns"),
        (kind.chance_mode == kinds.ChanceMode.DETERMINISTIC, "without chance"),
        (kind.information == kinds.Information.PERFECT_INFORMATION, "of perfect information"),
        (kind.utility == kinds.Utility.ZERO_SUM, "zero-sum"),
        (kind.reward_model == kinds.RewardModel.TERMINAL, "decided at its end"),
    ):
        require(good, "game", f"must be {wanted}, which {name} is not")
    moves = game.num_distinct_actions()
    text = f"{name} has {moves:,} kinds of moves, at most {MOST_ACTIONS} are searched: take a smaller board"
    require(moves <= MOST_ACTIONS, "game", text)
    good = kind.provides_observation_tensor
    require(good, "game", f"must show its positions as numbers (an observation tensor), which {name} does not")


def position_key(name: str, state: Any) -> Any:
    """What tells two positions of the game apart."""
    if name.partition("(")[0].strip() in BOARD_TELLS_ALL:
        return state.current_player(), str(state)
    return tuple(state.history())


MOST_ACTIONS = 300
"""Kinds of moves of a game that the batched search can take: Go on the full board has 362."""
ENUMERABLE = 250_000
"""Games with at most so many reachable positions are looked at as a whole; others by sampling."""
MOST_POSITIONS = 600_000
"""Positions kept of a game that cannot be looked at as a whole; beyond, the table is begun anew."""
UNKNOWN = -1
"""In place of a child that has not been met; and the player to move where the game is over."""


class Positions:
    """A growing table of the positions of one game. Its numbers mean nothing: no result depends on them.

    The moves of position p are the entries first_move[p] … first_move[p] + moves[p] - 1 of `action` and of
    `child`, in the order of the actions. Arrays are longer than what is used, `count` and `move_count`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.game = load_game(name)
        self.actions = int(self.game.num_distinct_actions())
        self.inputs = int(np.prod(self.game.observation_tensor_shape())) + 1
        self.complete = False
        """Whether all reachable positions are here."""
        self.clear()

    def clear(self) -> None:
        """Forget every position but the first, number 0: the table is a cache."""
        self.count = self.move_count = self.most_moves = 0
        self._numbers: dict[Any, int] = {}
        self._states: list[Any] = []
        self.player = np.zeros(1024, np.int8)
        self.outcome = np.zeros(1024, np.float64)
        """Of a game that is over, for player 0: 1 won, ½ drawn, 0 lost."""
        self.moves = np.zeros(1024, np.int32)
        self.first_move = np.zeros(1024, np.int64)
        self.features = np.zeros((1024, self.inputs), np.float32)
        """What the network reads: OpenSpiel's observation, then the player to move, last as in the paper."""
        self.action = np.zeros(4096, np.int32)
        self.child = np.full(4096, UNKNOWN, np.int32)
        self.number_of(self.game.new_initial_state())

    def clear_if_large(self) -> None:
        """For whoever holds no numbers: forget, where the table of a large game has grown too long."""
        if self.count > MOST_POSITIONS and not self.complete:
            self.clear()

    def number_of(self, state: Any) -> int:
        """The position's number; a new one if it has not been met."""
        key = position_key(self.name, state)
        found = self._numbers.get(key)
        return self._add(key, state) if found is None else found

    def _add(self, key: Any, state: Any) -> int:
        number = self.count
        if number == len(self.player):
            self._grow()
        self._numbers[key] = number
        self._states.append(state)
        self.count += 1
        self.first_move[number] = self.move_count
        if state.is_terminal():
            gain = state.player_return(0)
            self.player[number] = UNKNOWN
            self.outcome[number] = 0.5 * (1 + (gain > 0) - (gain < 0))
            return number
        player, legal = state.current_player(), state.legal_actions()
        self.player[number] = player
        self.features[number, :-1] = state.observation_tensor(player)
        self.features[number, -1] = player
        self._add_moves(number, legal)
        return number

    def _add_moves(self, number: int, legal: list[int]) -> None:
        end = self.move_count + len(legal)
        while end > len(self.action):
            self.action = np.concatenate([self.action, np.zeros_like(self.action)])
            self.child = np.concatenate([self.child, np.full_like(self.child, UNKNOWN)])
        self.action[self.move_count : end] = legal
        self.moves[number] = len(legal)
        self.move_count = end
        self.most_moves = max(self.most_moves, len(legal))

    def _grow(self) -> None:
        for name in ("player", "outcome", "moves", "first_move", "features"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros_like(array)]))

    # Looking ---------------------------------------------------------------------------------------------

    def state(self, number: int) -> Any:
        """The position as an OpenSpiel state; not to be changed."""
        return self._states[number]

    def after(self, number: int, move: int) -> int:
        """The position after the move with this place among the position's moves."""
        entry = int(self.first_move[number]) + move
        if self.child[entry] == UNKNOWN:
            child = self.number_of(self._states[number].child(int(self.action[entry])))
            self.child[entry] = child  # only now: adding a position may have replaced the array
        return int(self.child[entry])

    def is_over(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(self.player[numbers] == UNKNOWN)

    def entries(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The moves of several positions: entries of `action` and `child`, and the row of each."""
        counts = self.moves[numbers].astype(np.int64)
        rows = np.repeat(np.arange(len(numbers)), counts)
        before = np.cumsum(counts) - counts
        return self.first_move[numbers][rows] + np.arange(len(rows)) - before[rows], rows

    def legal(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(batch, actions)."""
        entries, rows = self.entries(numbers)
        mask = np.zeros((len(numbers), self.actions), np.bool_)
        mask[rows, self.action[entries]] = True
        return mask

    def play(self, numbers: NDArray[np.int64], actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions after these actions, one for each position."""
        entries, rows = self.entries(numbers)
        chosen = np.flatnonzero(self.action[entries] == actions[rows])
        taken = entries[chosen]
        reached = self.child[taken].astype(np.int64)
        for row in np.flatnonzero(reached == UNKNOWN):
            number = int(numbers[row])
            reached[row] = self.after(number, int(taken[row] - self.first_move[number]))
        return reached

    def enumerate(self, at_most: int | None = None) -> bool:
        """Meet every reachable position, breadth first; false, and nothing met, if there are more than that."""
        at_most = ENUMERABLE if at_most is None else at_most
        if not self.complete and not has_more_positions(self.name, at_most):
            number = 0
            while number < self.count:
                for move in range(int(self.moves[number])):
                    self.after(number, move)
                number += 1
            self.complete = True
        return self.complete


@cache
def has_more_positions(name: str, at_most: int) -> bool:
    """Whether more positions can be reached than that. Only counts, which is quicker than meeting them."""
    first = load_game(name).new_initial_state()
    seen, frontier = {position_key(name, first)}, deque([first])  # shallow ones first: they are cheap
    while frontier and len(seen) <= at_most:
        state = frontier.popleft()
        for action in state.legal_actions():
            child = state.child(action)
            key = position_key(name, child)
            if key not in seen:
                seen.add(key)
                frontier.append(child)
    return len(seen) > at_most


def numpy_generator(generator: torch.Generator) -> np.random.Generator:
    """A numpy generator that continues a stream; consumes one number of it."""
    return np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))


def draw_starts(positions: Positions, kind: Starts, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """(count,): positions in which the game is not over."""
    if kind == "auto":
        kind = "reachable" if positions.complete else "random"
    if kind == "empty":
        return np.zeros(count, np.int64)
    if kind == "reachable":
        why = "reachable needs a game whose positions can all be listed: use random"
        require(positions.complete, "starts", why)
        return rng.choice(all_going(positions), count)
    return np.array([_random_position(positions, rng) for _ in range(count)], np.int64)


def all_going(positions: Positions) -> NDArray[np.int64]:
    """Every position in the table in which the game goes on."""
    return np.flatnonzero(positions.player[: positions.count] >= 0)


def _random_position(positions: Positions, rng: np.random.Generator) -> int:
    """Play at random to the end, then take one of the positions passed, all alike."""
    passed = [0]
    while True:
        here = passed[-1]
        following = positions.after(here, int(rng.integers(positions.moves[here])))
        if positions.player[following] < 0:
            return passed[int(rng.integers(len(passed)))]
        passed.append(following)
