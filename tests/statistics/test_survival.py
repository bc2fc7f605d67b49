"""Waiting times against a table worked out by hand, SciPy, and enumeration."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy import stats

from internalize.statistics import Waiting, kaplan_meier, log_rank, restricted_mean, wilson
from internalize.statistics.survival import log_rank_scores

TREATED = [Waiting(t, t not in (9, 13, 28, 45, 161)) for t in (9, 13, 18, 23, 28, 31, 34, 45, 48, 161)]
"""Leukaemia, maintained (Miller 1981): here with 9 as a censored time and 13+ as in the book."""
SIX_MP = [(6, 1), (6, 1), (6, 1), (6, 0), (7, 1), (9, 0), (10, 1), (10, 0), (11, 0), (13, 1), (16, 1), (17, 0)]
SIX_MP += [(19, 0), (20, 0), (22, 1), (23, 1), (25, 0), (32, 0), (32, 0), (34, 0), (35, 0)]
PLACEBO = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]
"""Weeks to relapse of 42 children with leukaemia (Freireich et al. 1963), the usual textbook example."""
DRUG = [Waiting(t, bool(e)) for t, e in SIX_MP]
NONE = [Waiting(t, True) for t in PLACEBO]


def censored(waits: list[Waiting]) -> stats.CensoredData:
    return stats.CensoredData(
        uncensored=[wait.time for wait in waits if wait.happened],
        right=[wait.time for wait in waits if not wait.happened],
    )


def test_the_textbook_curve() -> None:
    """6-MP: 18/21 = 0.857 after week 6, then 0.807, 0.753, 0.690, 0.627, 0.538, 0.448."""
    points = kaplan_meier(DRUG)
    assert [point.time for point in points] == [0, 6, 7, 10, 13, 16, 22, 23]
    shares = [1, 0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448]
    assert [point.share for point in points] == pytest.approx(shares, abs=5e-4)
    at_six = points[1].interval  # log(-log): 0.6197 to 0.9516 in the textbooks
    assert (at_six.low, at_six.high) == pytest.approx((0.6197, 0.9516), abs=1e-4)


@pytest.mark.parametrize("waits", [DRUG, NONE, TREATED])
def test_the_curve_against_scipy(waits: list[Waiting]) -> None:
    curve = stats.ecdf(censored(waits)).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the interval where the share is 0
        intervals = curve.confidence_interval(0.95, method="log-log")
    points = kaplan_meier(waits)
    for point in points[1:]:
        assert point.share == pytest.approx(float(curve.evaluate(point.time)), abs=1e-12)
        if 0 < point.share < 1:
            assert point.interval.low == pytest.approx(float(intervals.low.evaluate(point.time)), abs=1e-9)
            assert point.interval.high == pytest.approx(float(intervals.high.evaluate(point.time)), abs=1e-9)


def test_where_all_have_seen_the_event_it_is_still_a_sample() -> None:
    """Ten of ten: with Wilson, up to 28 % of all such runs may not have."""
    last = kaplan_meier([Waiting(t, True) for t in range(1, 11)])[-1]
    assert (last.share, last.interval) == (0, wilson(0, 10))
    assert last.interval.high == pytest.approx(0.2775, abs=1e-4)


def test_the_log_rank_statistic_by_hand_and_against_scipy() -> None:
    """The textbook: 21 relapses expected to be 10.75 without the drug; chi-square 16.79."""
    found = log_rank(NONE, DRUG)
    assert found.excess == pytest.approx(21 - 10.75, abs=0.005)
    assert found.z**2 == pytest.approx(16.79, abs=0.005)
    assert found.z == pytest.approx(stats.logrank(censored(NONE), censored(DRUG)).statistic)
    assert found.sooner < 0.001
    assert found.later > 0.99


def test_permutations_within_strata_are_an_enumeration() -> None:
    """Two tasks of 2 + 2 runs: 36 ways to exchange within tasks; the one observed is the most extreme."""
    first = [Waiting(2, True), Waiting(3, True), Waiting(20, True), Waiting(30, True)]
    second = [Waiting(8, True), Waiting(9, False), Waiting(90, False), Waiting(80, True)]
    strata = ["a", "a", "b", "b"]
    found = log_rank(first, second, (strata, strata))
    sums = []
    parts = [[*first[i : i + 2], *second[i : i + 2]] for i in (0, 2)]
    scores = [log_rank_scores(part) for part in parts]
    for chosen in itertools.product(itertools.combinations(range(4), 2), repeat=2):
        sums.append(sum(float(scores[i][list(own)].sum()) for i, own in enumerate(chosen)))
    assert found.excess == pytest.approx(max(sums))
    assert (
        found.sooner == pytest.approx(sum(s >= found.excess - 1e-9 for s in sums) / 36) == pytest.approx(1 / 36)
    )


def test_a_task_that_is_slower_makes_no_difference_between_methods() -> None:
    """The first group has all runs of a slow task: pooled it looks slower, within tasks it is not."""
    generator = np.random.default_rng(5)
    fast = [Waiting(float(t), True) for t in generator.uniform(1, 2, size=20)]
    slow = [Waiting(float(t), True) for t in generator.uniform(10, 20, size=20)]
    first, second = fast[:4] + slow[:16], fast[4:] + slow[16:]
    strata = (["fast"] * 4 + ["slow"] * 16, ["fast"] * 16 + ["slow"] * 4)
    assert log_rank(first, second).later < 0.001
    assert log_rank(first, second, strata).later > 0.05


def test_drawn_permutations_agree_with_the_normal_approximation() -> None:
    generator = np.random.default_rng(1)
    first = [Waiting(float(t), t < 2) for t in np.minimum(generator.exponential(1.0, 40), 2)]
    second = [Waiting(float(t), t < 2) for t in np.minimum(generator.exponential(1.5, 40), 2)]
    found = log_rank(first, second)
    assert found.sooner == pytest.approx(stats.norm.sf(found.z), abs=0.02)


def test_nothing_happened_is_no_evidence() -> None:
    never = [Waiting(9.0, False)] * 3
    found = log_rank(never, never)
    assert (found.excess, found.z, found.sooner, found.later) == (0, 0, 1, 1)


def test_the_restricted_mean_is_the_area() -> None:
    waits = [Waiting(1, True), Waiting(3, True), Waiting(4, False)]
    assert restricted_mean(waits, 5) == pytest.approx(1 * 1 + 2 * (2 / 3) + 2 * (1 / 3))
    assert restricted_mean([Waiting(5, False)], 5) == 5
    assert math.isclose(restricted_mean(NONE, 23), np.mean(PLACEBO))
