"""Whether one thing rises with another: rank correlations and a regression, each with a permutation test."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from internalize.statistics.groups import EXACT, RESAMPLES, share_beyond
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
    if not len(x) == len(y) or not x:
        raise ValueError(f"needs as many x as y, and some; got {len(x)} and {len(y)}")
    labels = list(strata) if strata is not None else [0] * len(x)
    ranks_x, ranks_y = (_ranks_within(values, labels) for values in (x, y))
    scale = _scale(ranks_x, ranks_y)
    if scale == 0:
        return Trend(0.0, 1.0, 1.0)
    observed, found = float(ranks_x @ ranks_y) / scale, _dealt(ranks_y, labels) @ ranks_x / scale
    return Trend(observed, share_beyond(found, observed, "greater"), share_beyond(found, observed, "less"))


@dataclass(frozen=True)
class Effect:
    """What one more of a cause adds to y, at equal x: a coefficient and the one-sided p-values of its sign."""

    coefficient: float
    interval: Interval | None
    """Student's, of least squares over the units; None where no unit is left to tell the spread."""
    rises: float
    falls: float
    fitted: tuple[float, ...] = ()
    """What the least squares say of each unit's y."""


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
    are at most EXACT, else RESAMPLES are drawn.
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

    own = np.asarray(cause, dtype=float)
    ways = np.vstack([own, _dealt(own, labels)])  # its own first
    alone = ways - ways @ projection  # each without what x and the strata explain; the projection is symmetric
    sizes = np.linalg.norm(alone, axis=1)
    # how well each fits the rest: where nothing is left of it, not at all
    fits = np.divide(alone @ rest, sizes, out=np.zeros(len(ways)), where=sizes > 1e-6)
    observed, found = float(fits[0]), fits[1:]
    coefficient = observed / float(sizes[0]) if sizes[0] > 1e-6 else 0.0
    interval = _students(values, np.column_stack([known, own]), coefficient, level)
    rises, falls = share_beyond(found, observed, "greater"), share_beyond(found, observed, "less")
    fitted = values - rest + coefficient * alone[0]
    return Effect(coefficient, interval, rises, falls, tuple(fitted.tolist()))


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


def _members_of_strata(labels: Sequence[Hashable]) -> list[list[int]]:
    return [[i for i, label in enumerate(labels) if label == wanted] for wanted in dict.fromkeys(labels)]


def _dealt(own: np.ndarray, labels: Sequence[Hashable]) -> np.ndarray:
    """(ways, units): the values in every order within each stratum, or their own and RESAMPLES drawn ones."""
    import numpy as np

    parts = _members_of_strata(labels)
    ways = ways_to_deal(own.tolist(), labels)
    if ways > EXACT:
        generator = np.random.default_rng(0)  # a test gives the same answer every time
        drawn = np.tile(own, (RESAMPLES + 1, 1))
        for part in parts:
            drawn[1:, part] = generator.permuted(drawn[1:, part], axis=1)
        return drawn
    found, before = np.empty((ways, len(own))), 1
    for part in parts:  # as in a table of all combinations: the first stratum changes slowest
        orders = _orders(own[part].tolist())
        before *= len(orders)
        found[:, part] = np.tile(np.repeat(orders, ways // before, axis=0), (before // len(orders), 1))
    return found


def _orders(values: Sequence[float]) -> np.ndarray:
    """(orders, values): every order of the values, each once."""
    import numpy as np

    known: dict[tuple[float, ...], np.ndarray] = {(): np.empty((1, 0))}

    def orders(rest: tuple[float, ...]) -> np.ndarray:
        if rest not in known:
            parts = []
            for i in (i for i, value in enumerate(rest) if value not in rest[:i]):
                after = orders(rest[:i] + rest[i + 1 :])
                parts.append(np.column_stack([np.full(len(after), rest[i]), after]))
            known[rest] = np.concatenate(parts)
        return known[rest]

    return orders(tuple(values))


def correlation(x: Sequence[float], y: Sequence[float], strata: Sequence[Hashable] | None = None) -> float:
    """The correlation of `spearman_trend` alone; 0 where one of the two is constant."""
    labels = list(strata) if strata is not None else [0] * len(x)
    ranks_x, ranks_y = (_ranks_within(values, labels) for values in (x, y))
    scale = _scale(ranks_x, ranks_y)
    return float(ranks_x @ ranks_y) / scale if scale > 0 else 0.0


def _scale(ranks_x: np.ndarray, ranks_y: np.ndarray) -> float:
    return math.sqrt(float(ranks_x @ ranks_x) * float(ranks_y @ ranks_y))


def _ranks_within(values: Sequence[float], labels: Sequence[Hashable]) -> np.ndarray:
    """Centred ranks, each within its stratum."""
    import numpy as np

    found = np.zeros(len(values))
    for part in _members_of_strata(labels):
        found[part] = _centred_ranks([values[i] for i in part])
    return found


def _centred_ranks(values: Sequence[float]) -> np.ndarray:
    """Mean ranks for ties, minus their mean."""
    from scipy.stats import rankdata

    ranks: np.ndarray = rankdata(values)
    return ranks - ranks.mean()
