"""Differences between pairs against SciPy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_rel

from internalize.statistics.groups import mcnemar, paired_difference


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=2, max_size=30))
def test_the_mean_difference_and_its_interval(pairs: list[tuple[int, int]]) -> None:
    first, second = [a / 1000 for a, _ in pairs], [b / 1000 for _, b in pairs]
    found = paired_difference(first, second)
    assert found.pairs == len(pairs)
    assert found.interval is not None
    if len({b - a for a, b in pairs}) > 1:  # SciPy has no interval for differences that are all the same
        theirs = ttest_rel(second, first).confidence_interval(0.95)
        assert (found.interval.low, found.interval.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert found.mean in found.interval


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40))
def test_mcnemar_is_the_binomial_test_on_pairs_that_changed(pairs: list[tuple[bool, bool]]) -> None:
    p = mcnemar([a for a, _ in pairs], [b for _, b in pairs])
    gained, lost = pairs.count((False, True)), pairs.count((True, False))
    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert p == pytest.approx(expected)


def test_one_pair_has_no_interval_and_none_no_difference() -> None:
    assert paired_difference([0.5], [0.75]).interval is None
    with pytest.raises(ValueError, match="as many"):
        paired_difference([], [])
    with pytest.raises(ValueError, match="as many"):
        mcnemar([True], [])
