"""Differences between two groups whose members belong together in pairs, such as runs of the same seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from internalize.statistics.intervals import Interval

Sided = Literal["two-sided", "greater", "less"]


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
