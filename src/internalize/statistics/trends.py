"""Whether one thing rises with another: rank correlations and a regression, each with a permutation test."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from internalize.statistics.groups import RESAMPLES
from internalize.statistics.intervals import Interval

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Trend:
    """Spearman's correlation and the one-sided p-values of a rise and of a fall."""

    correlation: float
    rising: float
    falling: float


def spearman_trend(x: Sequence[float], y: Sequence[float], strata: Sequence[Hashable] | None = None) -> Trend:
    """Does y rise with x? Values of y are permuted, within each stratum where strata are given.

    Ranks are taken within a stratum, so that a level shared by a stratum neither helps nor harms; the
    correlation is that of these ranks, centred. A constant x or y correlates with nothing: 0.
    """
    import numpy as np

    if not len(x) == len(y) or not x:
        raise ValueError(f"needs as many x as y, and some; got {len(x)} and {len(y)}")
    labels = list(strata) if strata is not None else [0] * len(x)
    parts = [[i for i, label in enumerate(labels) if label == wanted] for wanted in dict.fromkeys(labels)]
    generator = np.random.default_rng(0)  # a test gives the same answer every time
    observed, drawn, squares_x, squares_y = 0.0, np.zeros(RESAMPLES), 0.0, 0.0
    for part in parts:
        ranks_x, ranks_y = _centred_ranks([x[i] for i in part]), _centred_ranks([y[i] for i in part])
        observed += float(ranks_x @ ranks_y)
        squares_x += float(ranks_x @ ranks_x)
        squares_y += float(ranks_y @ ranks_y)
        drawn += generator.permuted(np.tile(ranks_y, (RESAMPLES, 1)), axis=1) @ ranks_x
    if squares_x == 0 or squares_y == 0:
        return Trend(0.0, 1.0, 1.0)
    slack = 1e-9 * (squares_x * squares_y) ** 0.5  # equal sums may differ in their last bit
    rising = (1 + int((drawn >= observed - slack).sum())) / (1 + RESAMPLES)
    falling = (1 + int((drawn <= observed + slack).sum())) / (1 + RESAMPLES)
    return Trend(observed / (squares_x * squares_y) ** 0.5, rising, falling)


@dataclass(frozen=True)
class Effect:
    """What one more of a cause adds to y, at equal x: a coefficient and the one-sided p-values of its sign."""

    coefficient: float
    interval: Interval | None
    """Student's, of least squares over the units; None where no unit is left to tell the spread."""
    rises: float
    falls: float


def effect_of(
    cause: Sequence[float],
    y: Sequence[float],
    x: Sequence[float] | Sequence[Sequence[float]] | None = None,
    strata: Sequence[Hashable] | None = None,
    level: float = 0.95,
) -> Effect:
    """Least squares of y on x, an intercept for each stratum, and the cause, which is permuted within strata.

    x: a number for each unit, or several. Without it the test is exact. With it the test is approximate: it
    assumes that y is linear in x and spreads equally wide everywhere.

    cause: a number, or an indicator such as being prime. One entry for each unit that the claim speaks of, such
    as the order of a counter: seeds are averaged before. All ways to deal out the cause are tried where there
    are at most RESAMPLES, else so many are drawn.
    """
    import numpy as np

    labels = list(strata) if strata is not None else [0] * len(y)
    beside = [] if x is None else [np.asarray(x, dtype=float)]
    if any(len(given) != len(y) for given in (cause, labels, *beside)):
        raise ValueError("needs as many causes, x and strata as y")
    values = np.asarray(y, dtype=float)
    known = np.column_stack(
        [
            *beside,
            *(np.array([own == label for own in labels], float) for label in dict.fromkeys(labels)),
        ]
    )
    projection = known @ np.linalg.pinv(known)
    rest = values - projection @ values  # y without what x and the strata explain

    def fit(dealt: np.ndarray) -> tuple[float, float]:
        """The coefficient, and how well the cause fits the rest, by which ways are compared."""
        alone = dealt - projection @ dealt
        size = float(np.linalg.norm(alone))
        return (float(alone @ rest) / size**2, float(alone @ rest) / size) if size > 1e-6 else (0.0, 0.0)

    own = np.asarray(cause, dtype=float)
    coefficient, observed = fit(own)
    drawn = np.array([fit(way)[1] for way in _all_or_drawn(own, labels)])
    slack = 1e-9 * (1 + abs(observed))
    rises, falls = ((side).mean() for side in (drawn >= observed - slack, drawn <= observed + slack))
    interval = _students(values, np.column_stack([known, own]), coefficient, level)
    return Effect(coefficient, interval, float(rises), float(falls))


def _students(y: np.ndarray, design: np.ndarray, coefficient: float, level: float) -> Interval | None:
    """Of the last column's coefficient in a regression of y on the columns of the design."""
    import numpy as np
    from scipy.stats import t

    free = len(y) - int(np.linalg.matrix_rank(design))
    if free < 1:
        return None
    inverse = np.linalg.pinv(design)
    error = y - design @ (inverse @ y)
    spread = math.sqrt(float(error @ error) / free) * float(np.linalg.norm(inverse[-1]))
    half = float(t.ppf(0.5 + level / 2, free)) * spread
    return Interval(coefficient - half, coefficient + half)


def ways_to_deal(values: Sequence[float], labels: Sequence[Hashable]) -> int:
    """In how many ways the values can be dealt out again within each stratum; equal ones are one."""
    parts = [
        [value for value, own in zip(values, labels, strict=True) if own == label] for label in set(labels)
    ]
    return math.prod(_number_of_orders(part) for part in parts)


def _number_of_orders(values: Sequence[float]) -> int:
    return math.factorial(len(values)) // math.prod(map(math.factorial, Counter(values).values()))


def _orders(values: Sequence[float]) -> Iterator[tuple[float, ...]]:
    """Every order of the values, each once."""
    if not values:
        yield ()
    for first in sorted(set(values)):
        rest = list(values)
        rest.remove(first)
        for others in _orders(rest):
            yield first, *others


def _all_or_drawn(own: np.ndarray, labels: Sequence[Hashable]) -> Iterator[np.ndarray]:
    """The cause in every order within each stratum, or in RESAMPLES drawn ones and its own."""
    import numpy as np

    parts = [[i for i, label in enumerate(labels) if label == wanted] for wanted in dict.fromkeys(labels)]
    if ways_to_deal(own.tolist(), labels) <= RESAMPLES:
        for dealt in product(*(list(_orders(own[part].tolist())) for part in parts)):
            way = np.empty(len(own))
            for part, values in zip(parts, dealt, strict=True):
                way[part] = values
            yield way
        return
    generator = np.random.default_rng(0)  # a test gives the same answer every time
    yield own
    for _ in range(RESAMPLES):
        way = own.copy()
        for part in parts:
            way[part] = generator.permutation(own[part])
        yield way


def correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's correlation alone; 0 where one of the two is constant."""
    ranks_x, ranks_y = _centred_ranks(x), _centred_ranks(y)
    scale = float(ranks_x @ ranks_x) * float(ranks_y @ ranks_y)
    return float(ranks_x @ ranks_y) / scale**0.5 if scale > 0 else 0.0


def _centred_ranks(values: Sequence[float]) -> np.ndarray:
    """Mean ranks for ties, minus their mean."""
    from scipy.stats import rankdata

    ranks: np.ndarray = rankdata(values)
    return ranks - ranks.mean()
