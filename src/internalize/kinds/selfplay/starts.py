"""Where games begin: the definition speaks of every x, not of the empty board alone."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from internalize.kinds.selfplay.config import Starts
from internalize.kinds.selfplay.positions import Positions


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
