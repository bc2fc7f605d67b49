"""How far a recipe gets: the largest horizon internalized within a budget, and how the cost grows with it.

Pure: a search over planted or real outcomes, and a fitted law. The command is in `frontier_commands.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2_000


@dataclass(frozen=True)
class Frontier:
    """What a search found."""

    largest: int | None
    """The largest horizon that was reached; None if not even the first was."""
    smallest_missed: int | None
    """The smallest horizon beyond it that was not reached; None if the search ended before it missed one."""
    tried: tuple[tuple[int, bool], ...]
    """Every horizon and whether it was reached, in the order tried."""


def search(reached: Callable[[int], bool], first: int, most: int) -> Frontier:
    """Double the horizon until it is missed, then halve the gap. Each horizon is tried once.

    Takes it that what is missed once is missed beyond, too: between outcomes that contradict this, the one
    that the halving meets decides.
    """
    tried: dict[int, bool] = {}

    def attempt(horizon: int) -> bool:
        if horizon not in tried:
            tried[horizon] = reached(horizon)
        return tried[horizon]

    low, high = None, None
    horizon = first
    while high is None:
        if attempt(horizon):
            low = horizon
            if horizon == most:
                break
            horizon = min(2 * horizon, most)
        else:
            high = horizon
    while low is not None and high is not None and high - low > 1:
        middle = (low + high) // 2
        if attempt(middle):
            low = middle
        else:
            high = middle
    return Frontier(low, high, tuple(tried.items()))


@dataclass(frozen=True)
class Law:
    """cost = factor · T^exponent, by least squares on logarithms."""

    factor: float
    exponent: float
    low: float
    high: float
    """95 % of the exponents from runs drawn again with replacement, horizon by horizon."""
    runs: int

    def __str__(self) -> str:
        return f"{self.factor:.3g} · T^{self.exponent:.2f} [{self.low:.2f}, {self.high:.2f}], {self.runs} runs"


def fit_law(costs: Sequence[tuple[int, float]], seed: int = 0) -> Law | None:
    """costs: (T, cost) of every run that internalized; None for fewer than two horizons.

    Runs that did not internalize are left out: the law says what success costs, not how likely it is.
    """
    horizons = sorted({horizon for horizon, _ in costs})
    if len(horizons) < 2:
        return None
    logs = {t: np.log([cost for horizon, cost in costs if horizon == t]) for t in horizons}
    slope, constant = _line(logs)
    random = np.random.default_rng(seed)
    slopes = [_line({t: random.choice(own, len(own)) for t, own in logs.items()})[0] for _ in range(RESAMPLES)]
    low, high = np.percentile(slopes, [2.5, 97.5])
    return Law(math.exp(constant), slope, float(low), float(high), len(costs))


def _line(logs: dict[int, np.ndarray]) -> tuple[float, float]:
    x = np.concatenate([np.full(len(own), math.log(t)) for t, own in logs.items()])
    slope, constant = np.polyfit(x, np.concatenate(list(logs.values())), 1)
    return float(slope), float(constant)
