"""The tests between groups against SciPy, enumeration and cases worked out by hand."""

from __future__ import annotations

import itertools
from math import comb, factorial

import numpy as np
import pytest
from scipy import stats

from internalize.statistics import (
    Rate,
    binomial,
    difference_of_means,
    effect_of,
    fisher,
    holm,
    mean_against_zero,
    rates_differ_less,
    rates_differ_more,
    spearman_trend,
    stratified_difference,
)
from internalize.statistics.groups import EXACT, least_split, mcnemar
from internalize.statistics.trends import correlation


def test_fisher_is_the_hypergeometric_tail() -> None:
    """First 7 of 10, second 2 of 9: the chance of 7 or more of the 9 successes among the first ten."""
    tail = sum(comb(10, k) * comb(9, 9 - k) for k in range(7, 10)) / comb(19, 9)
    assert fisher(Rate(7, 10), Rate(2, 9)) == pytest.approx(tail)
    other = sum(comb(10, k) * comb(9, 9 - k) for k in range(8)) / comb(19, 9)
    assert fisher(Rate(7, 10), Rate(2, 9), "less") == pytest.approx(other)


def test_what_fisher_can_see() -> None:
    """Five of fifteen against none is the least that it sees at 5 % on both sides; three seeds see nothing."""
    assert 2 * fisher(Rate(5, 15), Rate(0, 15)) < 0.05 < 2 * fisher(Rate(4, 15), Rate(0, 15))
    assert 2 * fisher(Rate(3, 3), Rate(0, 3)) > 0.05


def test_binomial_by_hand() -> None:
    assert binomial(Rate(0, 15), 0.25, "less") == pytest.approx(0.75**15)
    assert binomial(Rate(14, 15), 0.75) == pytest.approx(0.75**15 + 15 * 0.75**14 * 0.25)


def test_difference_of_means_is_the_count_over_all_splits() -> None:
    first, second = [3.0, 5.0, 4.5], [1.0, 2.0, 4.0, 0.5]
    values = first + second
    observed = sum(first) / 3 - sum(second) / 4
    as_large = 0
    for chosen in itertools.combinations(range(7), 3):
        inside = sum(values[i] for i in chosen)
        as_large += inside / 3 - (sum(values) - inside) / 4 >= observed - 1e-12
    assert difference_of_means(first, second) == pytest.approx(as_large / comb(7, 3))
    assert difference_of_means([5.0], [1.0, 2.0, 7.0]) == 2 / 4
    assert difference_of_means([1.0, 2.0, 7.0], [0.5], "greater") == 1 / 4
    assert difference_of_means([9.0, 8.0, 7.0], [1.0, 2.0, 3.0, 4.0]) == pytest.approx(least_split((3, 4)))


@pytest.mark.parametrize("size", [8, 11])  # 12,870 splits are all counted, of 705,432 a part is drawn
def test_difference_of_means_against_scipy(size: int) -> None:
    generator = np.random.default_rng(7)
    first, second = generator.normal(0.8, size=size), generator.normal(size=size)
    many = comb(2 * size, size) > EXACT
    expected = stats.permutation_test(
        (first, second),
        lambda one, other, axis: one.mean(axis) - other.mean(axis),
        n_resamples=9_999 if many else np.inf,
        alternative="greater",
        random_state=np.random.default_rng(0),
    ).pvalue
    found = difference_of_means(first.tolist(), second.tolist())
    assert found == pytest.approx(expected, abs=0.005 if many else 1e-12)


def test_mean_against_zero_is_the_count_over_all_signs() -> None:
    values = [0.9, 0.4, -0.1, 0.7, 0.2]
    as_large = sum(
        sum(sign * abs(v) for sign, v in zip(signs, values, strict=True)) >= sum(values) - 1e-12
        for signs in itertools.product((-1, 1), repeat=5)
    )
    assert mean_against_zero(values) == pytest.approx(as_large / 2**5)
    assert mean_against_zero([-0.5, -0.2, -0.9], "less") == pytest.approx(1 / 8)
    assert mean_against_zero([-0.5], "less") == 0.5


def test_spearman_against_scipy() -> None:
    generator = np.random.default_rng(3)
    x = [1, 1, 4, 4, 8, 8, 16, 16, 32, 32]
    y = [float(v) for v in generator.normal(size=10) + np.log2(x) / 3]
    trend = spearman_trend(x, y)
    assert trend.correlation == pytest.approx(stats.spearmanr(x, y).statistic)
    assert correlation(x, y) == pytest.approx(trend.correlation)
    drawn = stats.permutation_test(
        (y,),
        lambda v: stats.spearmanr(x, v).statistic,
        permutation_type="pairings",
        n_resamples=4_999,
        alternative="greater",
        random_state=np.random.default_rng(0),
    )
    assert trend.rising == pytest.approx(drawn.pvalue, abs=0.02)
    assert trend.rising + trend.falling > 1


def test_spearman_is_the_count_over_all_orders() -> None:
    """Five values of which two are equal: 60 orders, each of which stands for two of the 120 permutations."""
    x, y = [3.0, 1.0, 4.0, 1.5, 9.0], [0.5, 0.1, 0.5, 0.2, 0.3]
    observed = stats.spearmanr(x, y).statistic
    orders = [stats.spearmanr(x, order).statistic for order in itertools.permutations(y)]
    trend = spearman_trend(x, y)
    assert trend.rising == pytest.approx(np.mean([one >= observed - 1e-12 for one in orders]))
    assert trend.falling == pytest.approx(np.mean([one <= observed + 1e-12 for one in orders]))


def test_spearman_by_enumeration_within_strata() -> None:
    """Two strata of three, y permuted in each: 36 arrangements, of which one is as good as the perfect one."""
    trend = spearman_trend([1, 2, 3, 1, 2, 3], [0.1, 0.2, 0.3, 7, 8, 9], ["a", "a", "a", "b", "b", "b"])
    assert trend.correlation == pytest.approx(1.0)
    assert trend.rising == pytest.approx(1 / factorial(3) ** 2)


def test_a_constant_has_no_trend() -> None:
    assert spearman_trend([1, 2, 3], [5, 5, 5]).rising == 1.0
    assert correlation([1, 2, 3], [5, 5, 5]) == 0.0


def test_holm_by_hand() -> None:
    """Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1, made to rise: 0.04, 0.06, 0.06, 0.06."""
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_mcnemar_on_one_side_is_the_sign_test() -> None:
    first = [True] * 6 + [False] * 1 + [True] * 3
    second = [False] * 6 + [True] * 1 + [True] * 3
    assert mcnemar(first, second, "greater") == pytest.approx(
        stats.binomtest(6, 7, alternative="greater").pvalue
    )
    assert mcnemar(first, second, "less") == pytest.approx(stats.binomtest(1, 7, alternative="greater").pvalue)
    assert mcnemar(first, second) == pytest.approx(stats.binomtest(6, 7).pvalue)


def test_strata_by_enumeration() -> None:
    """Yes and no within two tasks: the product of two hypergeometric distributions, summed by hand."""
    first, second = [1, 1, 0, 1], [0, 0, 1, 0]
    strata = ["a", "a", "b", "b"]
    ways = [
        sum([1, 1, 0, 0][i] for i in a) + sum([0, 1, 1, 0][i] for i in b)
        for a in itertools.combinations(range(4), 2)
        for b in itertools.combinations(range(4), 2)
    ]
    expected = sum(way >= 3 for way in ways) / 36
    assert stratified_difference(first, second, (strata, strata)) == pytest.approx(expected)
    one = ["a"] * 4
    pooled = fisher(Rate(3, 4), Rate(1, 4))
    assert stratified_difference(first, second, (one, one)) == pytest.approx(pooled)
    with pytest.raises(ValueError, match="no stratum"):
        stratified_difference([1], [0], (["a"], ["b"]))


def test_alike_rates_by_hand() -> None:
    """Ten of ten twice is the outcome that speaks most for rates less than 0.1 apart, together with none of ten
    twice: at rates of 1 and 0.9 it has a probability of 0.9^10, and nowhere a larger one."""
    assert rates_differ_less(Rate(10, 10), Rate(10, 10), 0.1) == pytest.approx(0.9**10, rel=1e-3)
    assert rates_differ_less(Rate(100, 100), Rate(100, 100), 0.1) < 0.001
    assert rates_differ_less(Rate(100, 100), Rate(50, 100), 0.1) > 0.999
    assert rates_differ_more(Rate(100, 100), Rate(50, 100), 0.1) < 0.001
    assert rates_differ_more(Rate(100, 100), Rate(88, 100), 0.1) > 0.05  # they differ, by little more than that
    assert rates_differ_less(Rate(3, 7), Rate(2, 9), 0.2) == rates_differ_less(Rate(2, 9), Rate(3, 7), 0.2)


def test_alike_rates_that_are_the_margin_apart_are_rarely_called_alike() -> None:
    """All outcomes of 12 and 15 runs, weighed by true rates that differ by just the margin."""
    margin = 0.3
    p_values = {
        (i, j): rates_differ_less(Rate(i, 12), Rate(j, 15), margin) for i in range(13) for j in range(16)
    }
    for low in (0.0, 0.2, 0.5, 0.7):
        wrong = sum(
            stats.binom.pmf(i, 12, low + margin) * stats.binom.pmf(j, 15, low)
            for (i, j), p in p_values.items()
            if p <= 0.05
        )
        assert wrong <= 0.05


def test_an_indicator_beside_a_trend() -> None:
    """log cost = log n + 0.5 for primes: the coefficient is 0.5, and only one of 56 ways to name three orders
    prime is as extreme. Without the trend in n the large primes would look costly by themselves."""
    orders = list(range(10, 18))
    primes = [n in (11, 13, 17) for n in orders]
    x = [float(np.log(n)) for n in orders]
    planted = effect_of(primes, [v + 0.5 * p for v, p in zip(x, primes, strict=True)], x)
    assert planted.coefficient == pytest.approx(0.5)
    assert planted.rises == pytest.approx(1 / 56)
    assert planted.falls == 1.0
    bumps = (0.02, -0.01, 0.01, 0.01, -0.02, 0.01, -0.01, 0.0)
    only_n = effect_of(primes, [v + bump for v, bump in zip(x, bumps, strict=True)], x)
    assert abs(only_n.coefficient) < 0.02
    assert min(only_n.rises, only_n.falls) > 0.05


def test_an_indicator_against_least_squares_within_strata() -> None:
    generator = np.random.default_rng(4)
    x, y = generator.normal(size=9), generator.normal(size=9)
    kind = [True, False, False, True, False, True, False, False, True]
    strata = ["a"] * 3 + ["b"] * 6
    design = np.column_stack([x, [s == "a" for s in strata], [s == "b" for s in strata], kind]).astype(float)
    found = effect_of(kind, list(y), list(x), strata)
    solution = np.linalg.lstsq(design, y, rcond=None)[0]
    assert found.coefficient == pytest.approx(solution[3])
    assert found.fitted == pytest.approx(design @ solution)
    assert found.rises + found.falls >= 1
    ways = comb(3, 1) * comb(6, 3)
    assert found.rises * ways == pytest.approx(round(found.rises * ways))


def test_the_interval_of_an_indicator_is_that_of_a_t_test() -> None:
    """Where nothing else explains y, the coefficient is a difference of means, and SciPy knows its interval."""
    kind = [True, False, False, True, False, True, False, False, True]
    y = list(np.random.default_rng(5).normal(size=9))
    found = effect_of(kind, y)
    groups = [[value for value, own in zip(y, kind, strict=True) if own == side] for side in (True, False)]
    expected = stats.ttest_ind(*groups).confidence_interval(0.95)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((expected.low, expected.high))
    assert effect_of([True, False, False], [0.0, 1.0, 3.0], [0.0, 1.0, 2.0]).interval is None
