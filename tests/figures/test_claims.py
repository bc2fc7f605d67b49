"""Planted effects get the right verdict, noise is not confirmed, few runs are called underpowered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from internalize.figures.claims import Claim, ClaimTest
from internalize.figures.comparison_tests import GainsMore, MeanBelowZero, MoreOften, OftenWithout
from internalize.figures.rate_tests import Always, OnItsSide, RateAbove, RateBelow, RateBetween
from internalize.figures.rows import group
from internalize.figures.trend_tests import WithField
from internalize.figures.verdicts import judge, strictest_level

Rows = list[dict[str, Any]]
A, B, ALL = group("A", method="a"), group("B", method="b"), group("all")
HEADS = (1, 4, 8, 16, 32)


def counts(a: int, b: int, n: int = 15) -> Rows:
    """n runs of each of two methods, of which so many succeed."""
    return [
        {"method": method, "succeeded": i < k, "seed": i}
        for method, k in (("a", a), ("b", b))
        for i in range(n)
    ]


def verdict(test: ClaimTest, rows: Sequence[dict[str, Any]], others: int = 0) -> str:
    """The word for one claim, among others of which nothing is known."""
    claims = [Claim("one", "", test)]
    claims += [
        Claim(f"other {i}", "", RateAbove(group("none", method="none"), "x", 0.5)) for i in range(others)
    ]
    return judge(claims, rows)[0].word


def test_more_often() -> None:
    test = MoreOften(A, B, "succeeded")
    assert verdict(test, counts(5, 0)) == "confirmed"
    assert verdict(test, counts(4, 0)) == "not confirmed"
    assert verdict(test, counts(5, 0), others=4) == "not confirmed"
    assert verdict(test, counts(0, 9)) == "contradicted"
    assert verdict(test, counts(3, 0, n=3)) == "underpowered"
    assert verdict(test, counts(4, 0, n=4), others=1) == "underpowered"
    assert verdict(test, counts(15, 0)[:20]) == "confirmed"
    assert verdict(test, []) == "underpowered"
    assert test.detects(counts(0, 0), strictest_level([Claim("", "", test)])) == "5 of 15 against 0 of 15"
    assert test.detects(counts(0, 0, n=3), 0.025) == "nothing by itself: too few runs"


def test_the_strictest_level_is_what_holm_asks_of_the_first() -> None:
    """With five claims in all, the least that the plan promises is confirmed and one less is not."""
    test = MoreOften(A, B, "succeeded")
    promised = test.detects(counts(0, 0), 0.025 / 5)
    least = int(promised.split()[0])
    assert verdict(test, counts(least, 0), others=4) == "confirmed"
    assert verdict(test, counts(least - 1, 0), others=4) != "confirmed"


def test_rates_against_bars() -> None:
    assert verdict(RateBelow(B, "succeeded", 1 / 3), counts(0, 0)) == "confirmed"
    assert verdict(RateBelow(B, "succeeded", 1 / 3), counts(0, 3)) == "not confirmed"
    assert verdict(RateBelow(B, "succeeded", 1 / 3), counts(0, 12)) == "contradicted"
    assert verdict(RateBelow(B, "succeeded", 1 / 3), counts(0, 0, n=4)) == "underpowered"
    assert verdict(RateAbove(A, "succeeded", 2 / 3), counts(15, 0)) == "confirmed"
    assert verdict(RateAbove(A, "succeeded", 2 / 3), counts(3, 0)) == "contradicted"
    assert RateBelow(B, "succeeded", 1 / 3).detects(counts(0, 0), 0.025) == "1 of 15 or fewer"
    assert RateAbove(A, "succeeded", 2 / 3).detects(counts(0, 0), 0.025) == "14 of 15 or more"


def test_a_rate_between_two_bars() -> None:
    third = RateBetween(A, "succeeded", 1 / 3 - 0.2, 1 / 3 + 0.2)
    assert verdict(third, counts(30, 0, n=90)) == "confirmed"
    assert verdict(third, counts(85, 0, n=90)) == "contradicted"
    assert verdict(third, counts(5, 0)) == "underpowered"


def test_a_field_does_not_matter() -> None:
    test = OnItsSide(A, B, "succeeded", "task")
    rows = [{**row, "task": task} for task in ("C2", "C7") for row in counts(15, 0)]
    assert verdict(test, rows) == "confirmed"
    assert verdict(test, [row for row in rows if row["task"] == "C2"]) == "underpowered"
    differs = [{**row, "succeeded": row["succeeded"] and row["task"] == "C2"} for row in rows]
    assert verdict(test, differs) == "contradicted"
    assert "13 of 15" in test.detects(rows, 0.025 / 2)


def test_one_outcome_without_the_other() -> None:
    test = OftenWithout(ALL, "succeeded", "ood_succeeded")

    def rows(only: int, both: int, only_other: int = 0) -> Rows:
        pairs = [(True, False)] * only + [(True, True)] * both + [(False, True)] * only_other
        return [{"succeeded": a, "ood_succeeded": b} for a, b in pairs]

    assert verdict(test, rows(6, 9)) == "confirmed"
    assert verdict(test, rows(5, 10)) == "not confirmed"
    assert verdict(test, rows(0, 5, only_other=10)) == "contradicted"
    assert verdict(test, rows(4, 0)) == "underpowered"
    assert test.detects(rows(0, 15), 0.025) == "6 of 15 one way and none the other"


def test_values_below_zero() -> None:
    test = MeanBelowZero(ALL, "trend")
    assert verdict(test, [{"trend": -0.5 - 0.01 * i} for i in range(12)]) == "confirmed"
    assert verdict(test, [{"trend": 0.5 + 0.01 * i} for i in range(12)]) == "contradicted"
    assert verdict(test, [{"trend": (-1) ** i * 0.5} for i in range(12)]) == "not confirmed"
    assert verdict(test, [{"trend": -0.9}, {"trend": None}]) == "underpowered"


def heads(successes: Sequence[int], n: int = 15, width: int = 64) -> Rows:
    return [
        {"model.heads": count, "model.width": width, "succeeded": i < k}
        for count, k in zip(HEADS, successes, strict=True)
        for i in range(n)
    ]


def test_a_trend() -> None:
    test = WithField(ALL, "model.heads", "succeeded", "rises", ("model.width",))
    assert verdict(test, heads([0, 1, 3, 6, 9])) == "confirmed"
    assert verdict(test, heads([9, 6, 3, 1, 0])) == "contradicted"
    assert verdict(test, heads([5, 5, 5, 5, 5])) == "not confirmed"
    assert verdict(test, heads([0, 0, 0, 0, 1], n=1)) == "underpowered"
    assert verdict(WithField(ALL, "model.heads", "succeeded", "falls"), heads([9, 6, 3, 1, 0])) == "confirmed"


def test_a_stratum_of_its_own_level_makes_no_trend() -> None:
    """All of width 128 succeed and have many heads, none of width 64: no trend within either."""
    rows = heads([0] * 5) + [
        {**row, "model.heads": row["model.heads"] + 64} for row in heads([15] * 5, width=128)
    ]
    assert (
        verdict(WithField(ALL, "model.heads", "succeeded", "rises", ("model.width",)), rows) == "not confirmed"
    )
    assert verdict(WithField(ALL, "model.heads", "succeeded"), rows) == "confirmed"


def test_what_a_trend_detects_it_does_detect() -> None:
    test = WithField(ALL, "model.heads", "succeeded")
    plan = [{key: value for key, value in row.items() if key != "succeeded"} for row in heads([0] * 5)]
    told = test.detects(plan, 0.025)
    percent = int(told.split(" to ")[1].split()[0])
    planted = [round(15 * percent / 100 * i / 4) for i in range(5)]
    assert verdict(test, heads(planted)) == "confirmed"


def orders(gain: Callable[[bool], int]) -> Rows:
    """Fifteen runs of every order and of two widths; the wide ones succeed `gain` times more."""
    return [
        {
            "order": n,
            "prime": n in (3, 5, 7, 11, 13),
            "wide": wide,
            "succeeded": i < 2 + wide * gain(n in (3, 5, 7, 11, 13)),
        }
        for n in range(3, 15)
        for wide in (False, True)
        for i in range(15)
    ]


def test_a_gain_that_differs_between_kinds() -> None:
    test = GainsMore(
        group("others", prime=False), group("primes", prime=True), "succeeded", "order",
        after=group("wide", wide=True), before=group("narrow", wide=False),
    )  # fmt: skip
    assert verdict(test, orders(lambda prime: 1 if prime else 9)) == "confirmed"
    assert verdict(test, orders(lambda prime: 9 if prime else 1)) == "contradicted"
    assert verdict(test, orders(lambda prime: 5)) == "not confirmed"
    assert verdict(test, [row for row in orders(lambda prime: 5) if row["order"] < 6]) == "underpowered"


def test_a_fact_needs_no_statistics() -> None:
    assert verdict(Always(A, "succeeded"), counts(15, 0)) == "confirmed"
    assert verdict(Always(A, "succeeded"), counts(14, 0)) == "contradicted"


@pytest.mark.parametrize(
    "test",
    [
        MoreOften(A, B, "succeeded"),
        OftenWithout(ALL, "succeeded", "ood_succeeded"),
        WithField(ALL, "model.heads", "succeeded"),
        MeanBelowZero(ALL, "trend"),
    ],
    ids=lambda test: type(test).__name__,
)
def test_noise_is_rarely_confirmed(test: ClaimTest) -> None:
    """At most 5 % of verdicts on noise may say confirmed or contradicted: of 60, more than 9 would be a chance
    of one in a thousand."""
    generator = np.random.default_rng(1)
    wrong = 0
    for _ in range(60):
        rows = [
            {
                "method": "ab"[i % 2],
                "model.heads": HEADS[i % 5],
                "succeeded": bool(generator.random() < 0.4),
                "ood_succeeded": bool(generator.random() < 0.4),
                "trend": float(generator.normal()),
            }
            for i in range(30)
        ]
        wrong += verdict(test, rows) in ("confirmed", "contradicted")
    assert wrong <= 9


def test_noise_in_a_family_of_claims() -> None:
    """Ten claims on noise: without a correction a third of the figures would have a false verdict."""
    generator = np.random.default_rng(2)
    pairs = [(group(f"A{i}", part=i, method="a"), group(f"B{i}", part=i, method="b")) for i in range(10)]
    claims = [Claim(f"claim {i}", "", MoreOften(a, b, "succeeded")) for i, (a, b) in enumerate(pairs)]
    wrong = 0
    for _ in range(30):
        rows = [
            {"part": part, "method": method, "succeeded": bool(generator.random() < 0.5)}
            for part in range(10)
            for method in "ab"
            for _ in range(15)
        ]
        wrong += any(verdict.word in ("confirmed", "contradicted") for verdict in judge(claims, rows))
    assert wrong <= 5
