"""Tests between groups: exact ones for rates, permutations for anything else. Every p-value is one-sided.

`greater` asks whether the first is more than the second (or than the bar), `less` the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Literal

from internalize.statistics.intervals import Rate

Alternative = Literal["greater", "less"]
RESAMPLES = 9_999
"""Permutations drawn where there are more than these; fewer are all gone through."""


def fisher(first: Rate, second: Rate, alternative: Alternative = "greater") -> float:
    """Fisher's exact test (1922): that the first group succeeds more (less) often than the second."""
    from scipy.stats import fisher_exact

    table = [[rate.successes, rate.trials - rate.successes] for rate in (first, second)]
    return float(fisher_exact(table, alternative=alternative).pvalue)


def binomial(rate: Rate, bar: float, alternative: Alternative = "greater") -> float:
    """The exact test of one rate against a fixed bar: that the true rate is above (below) it."""
    from scipy.stats import binomtest

    return float(binomtest(rate.successes, rate.trials, bar, alternative=alternative).pvalue)


def difference_of_means(
    first: Sequence[float], second: Sequence[float], alternative: Alternative = "greater"
) -> float:
    """The permutation test: that the first group's mean is above (below) the second's."""
    if min(len(first), len(second)) == 1:
        return _one_among(first, second, alternative)
    return _permuted((list(first), list(second)), "independent", alternative)


def mean_against_zero(values: Sequence[float], alternative: Alternative = "greater") -> float:
    """The sign-flip test: that values, whose signs were a coin's if nothing were the matter, lie above 0."""
    return _permuted((list(values), [0.0] * len(values)), "samples", alternative)


def _permuted(groups: tuple[list[float], list[float]], kind: str, alternative: Alternative) -> float:
    import numpy as np
    from scipy.stats import permutation_test

    def difference(first: np.ndarray, second: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray(first.mean(axis) - second.mean(axis))

    if not groups[0] or not groups[1]:
        raise ValueError("needs at least one value in each group")
    if max(map(len, groups)) == 1 and kind == "samples":
        return 0.5 if _is_on_side(groups[0][0], alternative) else 1.0  # SciPy wants two pairs; one can flip
    generator = np.random.default_rng(0)  # a test gives the same answer every time
    found = permutation_test(
        groups,
        difference,
        permutation_type=kind,
        vectorized=True,
        n_resamples=RESAMPLES,
        alternative=alternative,
        random_state=generator,
    )
    return float(found.pvalue)


def _one_among(first: Sequence[float], second: Sequence[float], alternative: Alternative) -> float:
    """The same with a group of one, which SciPy refuses: that value's place among all of them."""
    alone = first[0] if len(first) == 1 else second[0]
    wants_large = (alternative == "greater") == (len(first) == 1)
    beyond = [value >= alone if wants_large else value <= alone for value in [*first, *second]]
    return sum(beyond) / len(beyond)


def _is_on_side(value: float, alternative: Alternative) -> bool:
    return value > 0 if alternative == "greater" else value < 0


def least_split(first: int, second: int) -> float:
    """The least p-value a permutation test between groups of these sizes can give."""
    return max(1 / comb(first + second, first), 1 / (RESAMPLES + 1))
