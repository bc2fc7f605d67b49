"""What was internalized: the raw network beside the same network with search, and both beside the truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from internalize.contract import Json
from internalize.kinds.selfplay.positions import UNKNOWN, Positions, all_going, draw_starts
from internalize.kinds.selfplay.search import Player
from internalize.kinds.selfplay.solver import UNSOLVED, Searcher, solve_all
from internalize.measure.internalization import DistributionalInternalization, check_distributional
from internalize.measure.predictor import Prediction

AT_ONCE = 8192
"""Positions that are measured together."""
DRAWN = 1_000
"""Positions drawn from a game too large to enumerate, at the most: each has to be solved by itself."""


@dataclass(frozen=True)
class Yardstick:
    """Positions to measure on, and which actions are optimal in each: at least one is, at least one is not."""

    numbers: NDArray[np.int64]
    optimal: NDArray[np.bool_]
    """(positions, actions)."""
    exhaustive: bool
    """Whether these are all such positions that can be reached."""
    asked: int
    """Positions from which these were chosen; `unsolved` of them could not be solved."""
    unsolved: int
    states: tuple[Any, ...] = ()
    """Of a game too large to enumerate: the positions themselves, since its table may forget their numbers."""

    def chance(self, positions: Positions) -> float:
        """The rate of optimal moves when all legal moves are equally likely."""
        return float((self.optimal.sum(1) / positions.moves[self.numbers]).mean())

    def sample(self, count: int, rng: np.random.Generator) -> Yardstick:
        """At most so many of them."""
        if len(self.numbers) <= count:
            return self
        chosen = np.sort(rng.choice(len(self.numbers), count, replace=False))
        states = tuple(self.states[place] for place in chosen) if self.states else ()
        part = self.numbers[chosen], self.optimal[chosen]
        return Yardstick(*part, False, self.asked, self.unsolved, states)

    def numbered(self, positions: Positions) -> Yardstick:
        """The same positions by the numbers that the table gives them now."""
        if not self.states:
            return self
        numbers = np.array([positions.number_of(state) for state in self.states], np.int64)
        return replace(self, numbers=numbers)


def yardstick(positions: Positions, count: int, rng: np.random.Generator) -> Yardstick:
    """All positions that offer optimal and worse moves; of a game too large, those among `count` drawn ones."""
    if positions.complete:
        return _all_positions(positions)
    # in a table of its own, whose numbers do not depend on what was met before
    return _drawn_positions(Positions(positions.name), count, rng).numbered(positions)


def _all_positions(positions: Positions) -> Yardstick:
    value = solve_all(positions)
    going = all_going(positions)
    entries, rows = positions.entries(going)
    after = value[positions.child[entries]]
    mine = np.where(positions.player[going][rows] == 0, after, 1.0 - after)
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    open_ = np.logical_or.reduceat(after == UNSOLVED, starts)
    optimal = mine == np.maximum.reduceat(mine, starts)[rows]
    deciding = ~np.logical_and.reduceat(optimal, starts) & ~open_
    mask = np.zeros((len(going), positions.actions), np.bool_)
    mask[rows[optimal], positions.action[entries[optimal]]] = True
    return Yardstick(going[deciding], mask[deciding], True, len(going), int(open_.sum()))


def _drawn_positions(positions: Positions, count: int, rng: np.random.Generator) -> Yardstick:
    searcher = Searcher(positions.name)
    drawn = np.unique(draw_starts(positions, "random", min(count, DRAWN), rng))
    drawn = drawn[positions.moves[drawn] > 1]
    numbers, masks, unsolved = [], [], 0
    for number in drawn:
        values = searcher.move_values(positions.state(int(number)))
        unsolved += values is None
        if values is None or min(values) == max(values):
            continue
        mask = np.zeros(positions.actions, np.bool_)
        first = int(positions.first_move[number])
        mask[positions.action[first : first + len(values)]] = np.array(values) == max(values)
        numbers.append(int(number))
        masks.append(mask)
    optimal = np.stack(masks) if masks else np.zeros((0, positions.actions), np.bool_)
    states = tuple(positions.state(number) for number in numbers)
    return Yardstick(np.array(numbers, np.int64), optimal, False, len(drawn), unsolved, states)


@dataclass(frozen=True)
class Rates:
    """Raw network and search on the same positions."""

    raw: float
    """Share of positions in which the move is optimal."""
    search: float
    agreement: float
    """Share of positions in which both choose the same move."""
    search_passes: float
    """The network's evaluations a move, with search."""


def rates(raw: Player, searching: Player, on: Yardstick) -> Rates:
    """on: at least one position."""
    right_raw = right_search = agree = passes = 0
    for start in range(0, len(on.numbers), AT_ONCE):
        numbers = on.numbers[start : start + AT_ONCE]
        optimal, rows = on.optimal[start : start + AT_ONCE], np.arange(len(numbers))
        quick, _ = raw.choose(numbers)
        thorough, spent = searching.choose(numbers)
        right_raw += int(optimal[rows, quick].sum())
        right_search += int(optimal[rows, thorough].sum())
        agree += int((quick == thorough).sum())
        passes += int(spent.sum())
    n = len(on.numbers)
    return Rates(right_raw / n, right_search / n, agree / n, passes / n)


def match_score(raw: Player, searching: Player, starts: NDArray[np.int64]) -> float:
    """The raw network's mean outcome against search, from each start on either side; ½ is a level match."""
    table = raw.said.positions
    current = np.concatenate([starts, starts])
    raw_side = np.repeat([0, 1], len(starts))
    while True:
        going = np.flatnonzero(~table.is_over(current))
        if len(going) == 0:
            break
        mine = table.player[current[going]] == raw_side[going]
        for player, who in ((raw, going[mine]), (searching, going[~mine])):
            if len(who):
                current[who] = table.play(current[who], player.choose(current[who])[0])
    outcome = table.outcome[current]
    return float(np.where(raw_side == 0, outcome, 1.0 - outcome).mean())


def lost_lines(raw: Player) -> tuple[int, int]:
    """Of all lines of opponent's replies, the raw network on either side: how many it loses, and how many.

    A line is a whole game from the first position, in which the network makes its move and the opponent any.
    """
    table = raw.said.positions
    going = all_going(table)
    chosen = np.full(table.count, UNKNOWN, np.int64)
    chosen[going] = table.play(going, raw.choose(going)[0])
    totals = [_lines(table, chosen, side) for side in (0, 1)]
    return totals[0][0] + totals[1][0], totals[0][1] + totals[1][1]


def _lines(table: Positions, chosen: NDArray[np.int64], side: int) -> tuple[int, int]:
    """Lines lost and lines in all from the first position, each position looked at once."""
    known: dict[int, tuple[int, int]] = {}
    stack = [0]
    while stack:
        here = stack[-1]
        if table.player[here] == UNKNOWN:
            mine = table.outcome[here] if side == 0 else 1.0 - table.outcome[here]
            known[here] = (int(mine == 0.0), 1)
        if here in known:
            stack.pop()
            continue
        first = int(table.first_move[here])
        following = table.child[first : first + int(table.moves[here])].tolist()
        if table.player[here] == side:
            following = [int(chosen[here])]
        missing = [number for number in following if number not in known]
        if missing:
            stack.extend(missing)
            continue
        lost, lines = zip(*(known[number] for number in following), strict=True)
        known[here] = (sum(lost), sum(lines))
    return known[0]


@dataclass(frozen=True)
class OneRightAnswer:
    """A player all of whose optimal moves count as one answer, the first of them: the definition wants one."""

    player: Player
    on: Yardstick

    @property
    def model_class(self) -> str:
        return self.player.model_class

    @property
    def weights_digest(self) -> str:
        return self.player.weights_digest

    def answer(self, inputs: Tensor) -> Prediction:
        """(batch,) places in the yardstick."""
        places = inputs.numpy()
        given = self.player.answer(torch.from_numpy(self.on.numbers[places]))
        optimal = self.on.optimal[places]
        right = optimal[np.arange(len(places)), given.output.numpy()]
        output = np.where(right, optimal.argmax(1), given.output.numpy())
        return Prediction(torch.from_numpy(output), given.forward_passes, given.flops)


def internalization(fast: Player, slow: Player, on: Yardstick, epsilon: float) -> DistributionalInternalization:
    """Whether the raw θ' (ε, D)-internalizes P_SP with θ: D uniform on the yardstick, a worse move costs 1."""
    count = len(on.numbers)

    def places() -> Iterator[Tensor]:
        yield from torch.arange(count).split(AT_ONCE)

    def truth(inputs: Tensor) -> Tensor:
        return torch.from_numpy(on.optimal[inputs.numpy()].argmax(1))

    def alike(inputs: Tensor) -> Tensor:
        return torch.full((len(inputs),), 1 / count, dtype=torch.float64)

    players = OneRightAnswer(fast, on), OneRightAnswer(slow, on)
    return check_distributional(*players, places(), truth, epsilon, alike if on.exhaustive else None)


def verdict_row(verdict: DistributionalInternalization) -> Json:
    """The verdict in a few numbers; the costs are forward passes an answer."""
    return {
        "epsilon": verdict.epsilon,
        "fast_risk": verdict.fast_risk,
        "slow_risk": verdict.slow_risk,
        "gap_interval": [verdict.gap_interval.low, verdict.gap_interval.high],
        "exact": verdict.exact,
        "inputs": verdict.inputs,
        "clauses": {clause.name: clause.holds for clause in verdict.clauses},
        "evidence": {clause.name: clause.evidence for clause in verdict.clauses},
        "fast_passes": verdict.fast_cost.forward_passes,
        "slow_passes": verdict.slow_cost.forward_passes,
    }
