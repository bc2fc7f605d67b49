"""Whether one thing rises with another: Spearman's rank correlation with a permutation test."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from internalize.statistics.groups import RESAMPLES

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
