"""Confidence intervals for rates, means and what else is computed from groups of values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeVar

SUCCESS = 0.95
"""The paper's bar: a run succeeds with more than this accuracy."""


BOOTSTRAPS = 1_999
T = TypeVar("T")


@dataclass(frozen=True)
class Interval:
    """A closed interval [low, high]."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Rate:
    """So many successes of so many trials."""

    successes: int
    trials: int

    @property
    def value(self) -> float:
        return self.successes / self.trials

    @property
    def interval(self) -> Interval:
        """Wilson's, 95 %."""
        return wilson(self.successes, self.trials)

    def to_json(self) -> dict[str, int | list[float]]:
        """As commands print it with --json."""
        interval = [self.interval.low, self.interval.high]
        return {"count": self.successes, "of": self.trials, "interval": interval}

    def __str__(self) -> str:
        return f"{percentage(self.value)} % [{percentage(self.interval.low)}, {percentage(self.interval.high)}]"


def rates_of(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Rate]:
    """Of each result, how often it is yes among the rows that say yes or no; results of which none does are
    left out."""
    said = {name: [row[name] for row in rows if isinstance(row.get(name), bool)] for name in names}
    return {name: Rate(sum(values), len(values)) for name, values in said.items() if values}


def percentage(share: float) -> str:
    """`98.3` for 0.983; more digits where one would make 0.0 or 100.0 of what is neither."""
    digits = next((n for n in range(1, 6) if 0 < float(f"{100 * share:.{n}f}") < 100), 1)
    return f"{100 * share:.{digits}f}"


def wilson(successes: int, trials: int, level: float = 0.95) -> Interval:
    """Wilson's score interval for a rate (E. B. Wilson, JASA 1927): good coverage at every rate."""
    _check(successes, trials)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    rate = successes / trials
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    spread = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials**2)) / (1 + z * z / trials)
    low = 0.0 if successes == 0 else max(0.0, centre - spread)
    high = 1.0 if successes == trials else min(1.0, centre + spread)
    return Interval(low, high)


def clopper_pearson(successes: int, trials: int, level: float = 0.95) -> Interval:
    """The exact (conservative) interval for a rate (Clopper and Pearson, Biometrika 1934)."""
    _check(successes, trials)
    from scipy.stats import beta

    tail = (1 - level) / 2
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, trials - successes + 1))
    high = 1.0 if successes == trials else float(beta.ppf(1 - tail, successes + 1, trials - successes))
    return Interval(low, high)


def newcombe(first: Rate, second: Rate, level: float = 0.95) -> Interval:
    """For the difference of two rates, first minus second (Newcombe 1998, from Wilson's intervals)."""
    one, other = (wilson(rate.successes, rate.trials, level) for rate in (first, second))
    difference = first.value - second.value
    below = math.hypot(first.value - one.low, other.high - second.value)
    above = math.hypot(one.high - first.value, second.value - other.low)
    return Interval(max(-1.0, difference - below), min(1.0, difference + above))


def difference_within_strata(
    strata: Sequence[tuple[Rate, Rate]], level: float = 0.95
) -> tuple[float, Interval]:
    """First minus second in each stratum, averaged with Mantel and Haenszel's weights; and its interval.

    Sato's variance (1989) is a line in the true difference, so the differences that the normal test does not
    reject are those between the roots of a quadratic (Klingenberg, Statistics in Medicine 2014). It stays
    honest where all runs of a stratum end alike, and needs no stratum to be large. One stratum has Newcombe's.
    """
    if len(strata) == 1:
        first, second = strata[0]
        return first.value - second.value, newcombe(first, second, level)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    weight = difference = slope = at_zero = 0.0
    for first, second in strata:
        n, m, total = first.trials, second.trials, first.trials + second.trials
        x, y = first.successes, second.successes
        weight += n * m / total
        difference += (x * m - y * n) / total
        slope += (n * n * y - m * m * x + n * m * (m - n) / 2) / total**2
        at_zero += (x * (m - y) + y * (n - x)) / (2 * total)
    difference, slope, at_zero = difference / weight, slope / weight**2, at_zero / weight**2
    middle = difference + z * z * slope / 2
    half = math.sqrt(max(0.0, middle**2 - difference**2 + z * z * at_zero))
    return difference, Interval(max(-1.0, middle - half), min(1.0, middle + half))


def bootstrap(
    groups: Sequence[Sequence[T]], statistic: Callable[[Sequence[Sequence[T]]], float], level: float = 0.95
) -> Interval:
    """The percentile interval (Efron 1979) of a number computed from groups, each of which is drawn again.

    Draws come from a fixed seed, so that the same values always give the same interval.
    """
    import numpy as np

    generator = np.random.default_rng(0)
    found = [
        statistic([[group[i] for i in generator.integers(len(group), size=len(group))] for group in groups])
        for _ in range(BOOTSTRAPS)
    ]
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(found, [tail, 100 - tail])
    return Interval(float(low), float(high))


def mean_interval(total: float, total_of_squares: float, count: int, level: float = 0.95) -> Interval:
    """Normal interval for a mean, from sums over many samples."""
    if count < 1:
        raise ValueError("an interval needs at least one sample")
    mean = total / count
    variance = max(0.0, total_of_squares / count - mean**2) * (count / (count - 1) if count > 1 else 1.0)
    spread = NormalDist().inv_cdf(0.5 + level / 2) * math.sqrt(variance / count)
    return Interval(mean - spread, mean + spread)


def _check(successes: int, trials: int) -> None:
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"needs 0 <= successes <= trials and trials >= 1, got {successes} of {trials}")
