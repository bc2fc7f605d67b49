"""Intervals against published values and against what defines them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from internalize.statistics import (
    Interval,
    Rate,
    bootstrap,
    clopper_pearson,
    difference_within_strata,
    mean_interval,
    newcombe,
    wilson,
)
from internalize.statistics.intervals import percentage


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_newcombes_table(successes: int, trials: int, low: float, high: float) -> None:
    found = wilson(successes, trials)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (1, 10), (7, 10), (10, 10), (81, 263)])
def test_clopper_pearson_leaves_exactly_half_the_error_on_each_side(successes: int, trials: int) -> None:
    found = clopper_pearson(successes, trials)
    if successes == 0:
        assert found.low == 0.0
    else:
        assert binom.sf(successes - 1, trials, found.low) == pytest.approx(0.025)
    if successes == trials:
        assert found.high == 1.0
    else:
        assert binom.cdf(successes, trials, found.high) == pytest.approx(0.025)


@pytest.mark.parametrize("interval", [wilson, clopper_pearson])
def test_intervals_mirror_when_success_becomes_failure(
    interval: Callable[[int, int], Interval],
) -> None:
    for successes in range(13):
        a, b = interval(successes, 12), interval(12 - successes, 12)
        assert (a.low, a.high) == pytest.approx((1 - b.high, 1 - b.low), abs=1e-12)
        assert successes / 12 in a


def test_mean_interval_is_the_normal_one_with_the_unbiased_variance() -> None:
    values = [2.0, 2.0, 3.0, 7.0]
    found = mean_interval(sum(values), sum(v * v for v in values), len(values))
    variance = sum((v - 3.5) ** 2 for v in values) / 3
    assert found.low == pytest.approx(3.5 - 1.959964 * math.sqrt(variance / 4), abs=1e-6)
    assert found.high == pytest.approx(3.5 + 1.959964 * math.sqrt(variance / 4), abs=1e-6)
    assert mean_interval(2.0, 4.0, 1) == Interval(2.0, 2.0)


def test_rate_shows_value_and_interval() -> None:
    rate = Rate(81, 263)
    assert rate.value == 81 / 263
    assert rate.interval == wilson(81, 263)
    assert str(rate) == "30.8 % [25.5, 36.6]"


def test_only_nothing_and_all_are_told_as_such() -> None:
    """Of 10,000 in 10,000 Wilson's lower bound is 1 / (1 + 3.84 / 10,000) = 0.99962: not certainty."""
    assert str(Rate(10_000, 10_000)) == "100.0 % [99.96, 100.0]"
    assert str(Rate(0, 10_000)) == "0.0 % [0.0, 0.04]"
    told = {0.9994: "99.9", 0.9996: "99.96", 0.99996: "99.996", 0.0006: "0.1", 0.0004: "0.04", 1e-5: "0.001"}
    assert {share: percentage(share) for share in told} == told
    assert [percentage(share) for share in (0.0, 0.5, 1.0)] == ["0.0", "50.0", "100.0"]


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (3, 2), (-1, 4)])
def test_impossible_counts_are_refused(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match=f"got {successes} of {trials}"):
        wilson(successes, trials)


def test_newcombe_against_his_own_table() -> None:
    """Newcombe (1998), table II, method 10: 56/70 minus 48/80, 9/10 minus 3/10, 10/10 minus 0/10."""
    for first, second, low, high in (
        (Rate(56, 70), Rate(48, 80), 0.0524, 0.3339),
        (Rate(9, 10), Rate(3, 10), 0.1705, 0.8090),
        (Rate(10, 10), Rate(0, 10), 0.6075, 1.0),
    ):
        found = newcombe(first, second)
        assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


def test_strata_are_compared_within_themselves() -> None:
    """Both groups have 80 % at one task and 20 % at the other; pooled they have 32 % and 68 %."""
    easy, hard = (Rate(8, 10), Rate(32, 40)), (Rate(8, 40), Rate(2, 10))
    difference, interval = difference_within_strata([easy, hard])
    assert difference == pytest.approx(0.0)
    assert interval.low < -0.1 < 0.1 < interval.high


def test_ten_of_ten_against_none_by_hand() -> None:
    """At k tasks: variance (1 - d)/10k, so that (1 - d)² = z² (1 - d)/10k has the roots 1 and 1 - z²/10k."""
    for strata in (2, 7):
        difference, interval = difference_within_strata([(Rate(10, 10), Rate(0, 10))] * strata)
        assert difference == 1.0
        assert (interval.low, interval.high) == pytest.approx((1 - 1.959964**2 / (10 * strata), 1.0))


def test_strata_that_are_alike_say_what_they_say_together() -> None:
    """Four strata of ten and ten are nearly as sure as one of forty and forty."""
    difference, parted = difference_within_strata([(Rate(7, 10), Rate(3, 10))] * 4)
    together = newcombe(Rate(28, 40), Rate(12, 40))
    assert difference == pytest.approx(0.4)
    assert (parted.low, parted.high) == pytest.approx((together.low, together.high), abs=0.02)


@pytest.mark.parametrize(
    "truths",
    [[(0.3, 0.1), (0.6, 0.4), (0.98, 0.78)], [(0.99, 0.01)] * 7, [(0.5, 0.5)] * 3],
    ids=["rates that differ much", "nearly all against nearly none", "no difference"],
)
def test_an_interval_within_strata_holds_the_truth_as_often_as_it_says(
    truths: list[tuple[float, float]],
) -> None:
    """Ten and ten runs at each task; the truth is the mean of the tasks' differences."""
    generator = np.random.default_rng(0)
    truth = float(np.mean([one - other for one, other in truths]))
    held = [
        truth
        in difference_within_strata(
            [tuple(Rate(int(generator.binomial(10, rate)), 10) for rate in pair) for pair in truths]  # type: ignore[misc]
        )[1]
        for _ in range(1_000)
    ]
    assert 0.93 <= np.mean(held) <= 0.975


def test_the_bootstrap_of_a_mean() -> None:
    values = [float(i) for i in range(200)]
    found = bootstrap([values], lambda groups: sum(groups[0]) / len(groups[0]))
    exact = mean_interval(sum(values), sum(v * v for v in values), 200)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1.0)
