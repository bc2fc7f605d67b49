"""Times until something happens, where some have not seen it happen: Kaplan-Meier curves and log-rank tests.

A waiting time is a number and whether the event came at it. Without the event the time is *censored*: nobody
knows more than that it had not come by then.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from internalize.statistics.groups import exchanged_sums, share_beyond
from internalize.statistics.intervals import Interval, wilson

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Waiting:
    """How long one run was watched, and whether the event came at the end of that time."""

    time: float
    happened: bool


@dataclass(frozen=True)
class CurvePoint:
    """From this time on, this share has not yet seen the event."""

    time: float
    share: float
    interval: Interval


def kaplan_meier(waits: Sequence[Waiting], level: float = 0.95) -> list[CurvePoint]:
    """The estimate of Kaplan and Meier (1958) at 0 and at every time at which an event came.

    Intervals from Greenwood's variance on the scale of log(-log), which keeps them within 0 and 1.
    """
    if not waits:
        raise ValueError("needs at least one waiting time")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share, greenwood = 1.0, 0.0
    points = [CurvePoint(0.0, 1.0, Interval(1.0, 1.0))]
    for time in sorted({wait.time for wait in waits if wait.happened}):
        at_risk = sum(wait.time >= time for wait in waits)
        events = sum(wait.time == time and wait.happened for wait in waits)
        share *= 1 - events / at_risk
        if at_risk > events:
            greenwood += events / (at_risk * (at_risk - events))
        none_left = share == 0  # there that scale ends: as much as Wilson leaves of none among all
        found = wilson(0, len(waits), level) if none_left else _log_log_interval(share, greenwood, z)
        points.append(CurvePoint(time, share, found))
    return points


def _log_log_interval(share: float, greenwood: float, z: float) -> Interval:
    spread = z * math.sqrt(greenwood) / abs(math.log(share))
    return Interval(share ** math.exp(spread), share ** math.exp(-spread))


def restricted_mean(waits: Sequence[Waiting], until: float) -> float:
    """The mean waiting time, where longer times count as `until`: the area under the Kaplan-Meier curve."""
    points = [point for point in kaplan_meier(waits) if point.time < until]
    ends = [*(point.time for point in points[1:]), until]
    return sum(point.share * (end - point.time) for point, end in zip(points, ends, strict=True))


@dataclass(frozen=True)
class LogRank:
    """The log-rank test: events of the first group beyond what equal groups would have."""

    excess: float
    """Events observed in the first group minus those expected, over all strata."""
    variance: float
    sooner: float
    """One-sided p-value that the first group's events come sooner; permuted within strata."""
    later: float

    @property
    def z(self) -> float:
        """The usual statistic, roughly normal where the groups do not differ."""
        return self.excess / math.sqrt(self.variance) if self.variance > 0 else 0.0


def log_rank(
    first: Sequence[Waiting],
    second: Sequence[Waiting],
    strata: tuple[Sequence[Hashable], Sequence[Hashable]] | None = None,
) -> LogRank:
    """Mantel's test (1966), with runs exchanged between the groups only within a stratum such as a task.

    strata: of the first group's runs and of the second's.
    """
    if not first or not second:
        raise ValueError("needs at least one waiting time in each group")
    labels = [*strata[0], *strata[1]] if strata is not None else [0] * (len(first) + len(second))
    if len(labels) != len(first) + len(second):
        raise ValueError("needs one stratum for each run")
    waits = [*first, *second]
    excess, variance = 0.0, 0.0
    parts: list[tuple[list[float], int]] = []
    for label in dict.fromkeys(labels):
        inside = [i for i, own in enumerate(labels) if own == label]
        members = [i < len(first) for i in inside]
        scores = log_rank_scores([waits[i] for i in inside])
        excess += float(scores[members].sum())
        variance += _variance([waits[i] for i in inside], members)
        parts.append((scores.tolist(), sum(members)))
    sums = exchanged_sums(parts)
    sooner, later = share_beyond(sums, excess, "greater"), share_beyond(sums, excess, "less")
    return LogRank(excess, variance, sooner, later)


def log_rank_scores(waits: Sequence[Waiting]) -> np.ndarray:
    """Each run's events minus its risk, summed over time: the first group's sum is its excess of events."""
    import numpy as np

    scores = np.array([float(wait.happened) for wait in waits])
    for time in {wait.time for wait in waits if wait.happened}:
        at_risk = np.array([wait.time >= time for wait in waits])
        events = sum(wait.time == time and wait.happened for wait in waits)
        scores -= at_risk * (events / at_risk.sum())
    return scores


def _variance(waits: Sequence[Waiting], members: Sequence[bool]) -> float:
    """Of the excess, hypergeometric at every time of an event."""
    total = 0.0
    for time in {wait.time for wait in waits if wait.happened}:
        n = sum(wait.time >= time for wait in waits)
        own = sum(wait.time >= time and member for wait, member in zip(waits, members, strict=True))
        events = sum(wait.time == time and wait.happened for wait in waits)
        if n > 1:
            total += events * own / n * (1 - own / n) * (n - events) / (n - 1)
    return total
