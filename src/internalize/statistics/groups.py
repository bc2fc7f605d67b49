"""Tests between groups: exact ones for rates, permutations for anything else; and between pairs.

Every p-value is one-sided, unless it says otherwise: `greater` asks whether the first is more than the second
(or than the bar), `less` the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal

from internalize.statistics.intervals import Interval, Rate

if TYPE_CHECKING:
    import numpy as np

Alternative = Literal["greater", "less"]
Sided = Literal["two-sided", "greater", "less"]
EXACT = 200_000
"""Permutations that are all gone through, so that the p-value is exact."""
RESAMPLES = 99_999
"""Permutations drawn where there are more than EXACT: a p-value of 0.01 is then off by 0.0003."""
MOST_FLIPPED = 20
"""Values whose signs are flipped in all ways: a million sums, which are quickly made."""


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
    if not first or not second:
        raise ValueError("needs at least one value in each group")
    sums = exchanged_sums([([*first, *second], len(first))])  # the group's size is fixed: its sum says its mean
    return share_beyond(sums, sum(first), alternative)


def mean_against_zero(values: Sequence[float], alternative: Alternative = "greater") -> float:
    """The sign-flip test: that values, whose signs were a coin's if nothing were the matter, lie above 0."""
    if not values:
        raise ValueError("needs at least one value")
    return share_beyond(_flipped_sums(values), sum(values), alternative)


def _flipped_sums(values: Sequence[float]) -> np.ndarray:
    """The sum of the values with every choice of their signs, or with so many drawn ones and their own."""
    import numpy as np

    if len(values) <= MOST_FLIPPED:
        sums = np.zeros(1)
        for value in values:
            sums = np.concatenate([sums + value, sums - value])
        return sums
    generator = np.random.default_rng(0)  # a test gives the same answer every time
    drawn = generator.choice([-1.0, 1.0], size=(RESAMPLES, len(values))) @ np.asarray(values, dtype=float)
    return np.append(drawn, sum(values))


def share_beyond(found: np.ndarray, observed: float, alternative: Alternative) -> float:
    """The p-value: the share of all that may come, the observed one among them, that is at least as far out."""
    slack = 1e-9 * (1 + abs(observed))  # equal sums may differ in their last bit
    beyond = found >= observed - slack if alternative == "greater" else found <= observed + slack
    return float(beyond.mean())


def least_split(*sizes: tuple[int, int]) -> float:
    """The least p-value of a permutation test between two groups; their sizes, within each stratum."""
    return least_share(math.prod(comb(first + second, first) for first, second in sizes))


def least_share(ways: int) -> float:
    """The least p-value where so many permutations are possible."""
    return 1 / ways if ways <= EXACT else 1 / (RESAMPLES + 1)


# Within strata -----------------------------------------------------------------------------------------------


def stratified_difference(
    first: Sequence[float],
    second: Sequence[float],
    strata: tuple[Sequence[Hashable], Sequence[Hashable]],
    alternative: Alternative = "greater",
) -> float:
    """The permutation test of a difference of means, values exchanged only within a stratum such as a task.

    For outcomes that are yes or no this is Mantel and Haenszel's test, exactly. A stratum in which one of the
    groups has nothing says nothing.
    """
    parts = []
    for label in dict.fromkeys([*strata[0], *strata[1]]):
        one, other = (
            [float(value) for value, own in zip(values, labels, strict=True) if own == label]
            for values, labels in zip((first, second), strata, strict=True)
        )
        if one and other:
            parts.append((one, other))
    if not parts:
        raise ValueError("no stratum has values in both groups")
    observed = sum(sum(one) for one, _ in parts)
    if all(value in (0.0, 1.0) for one, other in parts for value in (*one, *other)):
        return _tail_of_counts(
            [(len(one), len(other), sum(one) + sum(other)) for one, other in parts], observed, alternative
        )
    sums = exchanged_sums([([*one, *other], len(one)) for one, other in parts])
    return share_beyond(sums, observed, alternative)


def _tail_of_counts(
    tables: Sequence[tuple[int, int, float]], observed: float, alternative: Alternative
) -> float:
    """The first group's successes over all strata: a sum of hypergeometric numbers, its distribution in full.

    tables: runs of the first group, runs of the second, successes of both.
    """
    ways = [1]  # ways[k]: to give the first groups k successes
    for first, second, successes in tables:
        own = [
            comb(int(successes), k) * comb(first + second - int(successes), first - k) for k in range(first + 1)
        ]
        longer = [0] * (len(ways) + first)
        for i, count in enumerate(ways):
            for k, more in enumerate(own):
                longer[i + k] += count * more
        ways = longer
    least = round(observed)
    return sum(ways[least:] if alternative == "greater" else ways[: least + 1]) / sum(ways)


def exchanged_sums(parts: Sequence[tuple[Sequence[float], int]]) -> np.ndarray:
    """The sum over the first `size` values of each part, for every way to choose which values these are.

    Where there are more than EXACT ways, RESAMPLES are drawn; the one that was observed counts among them.
    """
    import numpy as np

    if math.prod(comb(len(values), size) for values, size in parts) <= EXACT:
        sums = np.zeros(1)
        for values, size in parts:
            sums = np.add.outer(sums, [sum(chosen) for chosen in combinations(values, size)]).ravel()
        return sums
    generator = np.random.default_rng(0)  # a test gives the same answer every time
    drawn, observed = np.zeros(RESAMPLES), 0.0
    for values, size in parts:
        tiled = np.tile(np.asarray(values, dtype=float), (RESAMPLES, 1))
        drawn += generator.permuted(tiled, axis=1)[:, :size].sum(axis=1)
        observed += sum(values[:size])
    return np.append(drawn, observed)


# No difference worth speaking of -----------------------------------------------------------------------------


NUISANCE = 1_000
"""Rates at which the tail of `rate_gap` is looked at, evenly over all that are possible."""


def rates_differ_less(first: Rate, second: Rate, margin: float) -> float:
    """Two one-sided exact tests: that two true rates differ by less than the margin.

    A test of means would not do: where all runs end alike it sees no spread, and takes ten runs for certainty.
    """
    return max(rate_gap(first, second, margin, "less"), rate_gap(second, first, margin, "less"))


def rates_differ_more(first: Rate, second: Rate, margin: float) -> float:
    """The contrary: that they differ by more than the margin, one way or the other."""
    sides = rate_gap(first, second, margin, "greater"), rate_gap(second, first, margin, "greater")
    return min(1.0, 2 * min(sides))


def rate_gap(first: Rate, second: Rate, gap: float, alternative: Alternative) -> float:
    """The exact test that the first true rate is above the second by more (less) than a gap.

    Unconditional, as Barnard's test (1945): the largest probability, over all true rates that lie the gap
    apart, of counts that speak as much for it. Counts are ordered by the difference beyond the gap over its
    standard error, with a success and a failure added to each group as Agresti and Caffo (2000) do, so that
    groups without any spread have an error too. SciPy has such a test for no gap alone.
    """
    import numpy as np
    from scipy.stats import binom

    counts = np.arange(first.trials + 1), np.arange(second.trials + 1)
    shares = [(of + 1) / (len(of) + 1) for of in counts]
    errors = [share * (1 - share) / (len(share) + 1) for share in shares]
    scores = (shares[0][:, None] - shares[1] - gap) / np.sqrt(errors[0][:, None] + errors[1])
    observed = scores[first.successes, second.successes]
    as_far = scores <= observed + 1e-12 if alternative == "less" else scores >= observed - 1e-12
    below = np.linspace(0.0, 1.0 - gap, NUISANCE)
    higher = binom.pmf(counts[0], first.trials, (below + gap)[:, None])
    lower = binom.pmf(counts[1], second.trials, below[:, None])
    return float(np.einsum("ri,ij,rj->r", higher, as_far.astype(float), lower).max())


# Pairs, such as runs of the same seed ------------------------------------------------------------------------


@dataclass(frozen=True)
class PairedDifference:
    """The mean of second minus first over pairs."""

    mean: float
    pairs: int
    interval: Interval | None
    """Student's, 95 %; None for a single pair, which says nothing of the spread."""


def paired_difference(first: Sequence[float], second: Sequence[float], level: float = 0.95) -> PairedDifference:
    """second[i] - first[i], averaged. Student's interval takes the differences as roughly normal."""
    if len(first) != len(second) or not first:
        raise ValueError(f"needs as many of the one as of the other, got {len(first)} and {len(second)}")
    differences = [b - a for a, b in zip(first, second, strict=True)]
    mean, count = fmean(differences), len(differences)
    if count < 2:
        return PairedDifference(mean, count, None)
    from scipy.stats import t

    spread = float(t.ppf(0.5 + level / 2, count - 1)) * stdev(differences) / math.sqrt(count)
    return PairedDifference(mean, count, Interval(mean - spread, mean + spread))


def mcnemar(first: Sequence[bool], second: Sequence[bool], alternative: Sided = "two-sided") -> float:
    """McNemar's exact test (1947): the p-value that successes of pairs change as often one way as the other.

    greater: that the first succeeds where the second does not more often than the other way round; less: less.
    """
    if len(first) != len(second):
        raise ValueError(f"needs as many of the one as of the other, got {len(first)} and {len(second)}")
    gained = sum(b and not a for a, b in zip(first, second, strict=True))
    lost = sum(a and not b for a, b in zip(first, second, strict=True))
    if gained + lost == 0:
        return 1.0
    rarer = {"two-sided": min(gained, lost), "greater": gained, "less": lost}[alternative]
    tail = sum(math.comb(gained + lost, k) for k in range(rarer + 1)) / 2 ** (gained + lost)
    return min(1.0, 2 * tail if alternative == "two-sided" else tail)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment (1979), in the order given: reject where the result is at most alpha.

    The chance of even one false rejection among them stays below alpha, however the tests depend on each other.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, running = [1.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        running = max(running, (len(p_values) - place) * p_values[index])
        adjusted[index] = min(1.0, running)
    return adjusted
