"""Tests of the time until an internalization comes: sooner than another group, or as soon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from internalize.figures.claims import UNDETECTABLE, TestOutcome
from internalize.figures.each import all_pass
from internalize.figures.rows import FigureRow, Members, in_words, sizes_within
from internalize.statistics import (
    Interval,
    Waiting,
    bootstrap,
    difference_of_means,
    effect_of,
    log_rank,
    restricted_mean,
)
from internalize.statistics.groups import least_split
from internalize.statistics.trends import Effect


def waits_of(rows: Sequence[FigureRow], time: str = "iterations_until") -> list[Waiting]:
    """The waiting times of the rows that have one."""
    return [Waiting(float(row[time]), bool(row["happened"])) for row in rows if row.get(time) is not None]


@dataclass(frozen=True)
class Sooner:
    """One group internalizes sooner than another; compared within each stratum such as a task."""

    sooner: Members
    later: Members
    strata: str | None = "task"
    time: str = "iterations_until"

    @property
    def groups(self) -> tuple[Members, ...]:
        return self.sooner, self.later

    @property
    def method(self) -> str:
        within = "" if self.strata is None else f" within each {in_words(self.strata)}"
        return (
            f"log-rank test of {in_words(self.time)}, permuted{within}: {self.sooner.label} "
            f"sooner than "
            f"{self.later.label}"
        )

    def _stratum(self, row: FigureRow) -> Any:
        return None if self.strata is None else row.get(self.strata)

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        sides = [[row for row in members.of(rows) if row.get(self.time) is not None] for members in self.groups]
        common = set(map(self._stratum, sides[0])) & set(map(self._stratum, sides[1]))
        if not common:
            return None
        first, second = ([row for row in side if self._stratum(row) in common] for side in sides)
        strata = [self._stratum(row) for row in first], [self._stratum(row) for row in second]
        found = log_rank(waits_of(first, self.time), waits_of(second, self.time), strata)
        ratio, interval = self._ratio(first, second)
        events = [sum(bool(row["happened"]) for row in side) for side in (first, second)]
        sizes = len(first), len(second)
        told = "; ".join(
            f"{members.label}: {n} of {size}"
            for members, n, size in zip(self.groups, events, sizes, strict=True)
        )
        return TestOutcome(
            claimed=found.sooner,
            opposite=found.later,
            numbers=f"{told} internalized{self._told(ratio, interval, events)}",
            data={"ratio": ratio, "interval": [interval.low, interval.high], "z": found.z, "events": events},
        )

    def _told(self, ratio: float, interval: Interval, events: Sequence[int]) -> str:
        """Where no run of a group came through, its time is the budget, and there is no interval to tell.

        Nor is the ratio a bound: these runs would have come later than the budget, or, given up, before it.
        """
        compared = f"; {self.sooner.label} against {self.later.label}: {ratio:.2f}"
        unit = unit_of(self.time)
        if all(events):
            return f"{compared} [{interval.low:.2f}, {interval.high:.2f}] times the {unit}"
        if any(events):
            lacking = self.later if events[0] else self.sooner
            return f"{compared} times the {unit}, counting the whole budget for {lacking.label}"
        return ""

    def _ratio(self, first: list[FigureRow], second: list[FigureRow]) -> tuple[float, Interval]:
        """Mean time of the first over that of the second, up to the budget; the geometric mean over strata."""
        groups, budgets = [], []
        for label in dict.fromkeys(map(self._stratum, first)):
            sides = [
                waits_of([row for row in side if self._stratum(row) == label], self.time)
                for side in (first, second)
            ]
            groups += sides
            budgets.append(max(wait.time for side in sides for wait in side))

        def ratio(drawn: Sequence[Sequence[Waiting]]) -> float:
            logs = [
                math.log(restricted_mean(one, budget) / restricted_mean(other, budget))
                for one, other, budget in zip(drawn[::2], drawn[1::2], budgets, strict=True)
            ]
            return math.exp(fmean(logs))

        return ratio(groups), bootstrap(groups, ratio)

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        sizes = sizes_within(self.sooner.planned(planned), self.later.planned(planned), self.strata)
        if not sizes or least_split(*sizes) > level:
            return UNDETECTABLE
        return f"every run of {self.sooner.label} before every run of {self.later.label}"


@dataclass(frozen=True)
class EachSooner:
    """Each of some groups internalizes sooner than each of others: all pairs must pass.

    For claims that name tasks. Pooled, the runs of one task would speak for those of another.
    """

    sooner: tuple[Members, ...]
    later: tuple[Members, ...]
    strata: str | None = None

    @property
    def groups(self) -> tuple[Members, ...]:
        return (*self.sooner, *self.later)

    @property
    def _pairs(self) -> list[Sooner]:
        return [Sooner(one, other, self.strata) for one in self.sooner for other in self.later]

    @property
    def _labels(self) -> tuple[str, str]:
        return _all_of(self.sooner), _all_of(self.later)

    @property
    def method(self) -> str:
        sooner, later = self._labels
        each = self._pairs[0].method.partition(":")[0]
        return f"{each}, of every two: each of {sooner} sooner than each of {later}"

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        """Of the pairs that have runs."""
        found = [(pair, one) for pair in self._pairs if (one := pair.outcome_of(rows))]
        if not found:
            return None
        told = dict.fromkeys(part for _, one in found for part in one.numbers.split("; "))
        return all_pass(
            {f"{pair.sooner.label} and {pair.later.label}": one for pair, one in found}, "; ".join(told)
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        there = [pair for pair in self._pairs if all(members.planned(planned) for members in pair.groups)]
        if not there or any(pair.detects(planned, level) == UNDETECTABLE for pair in there):
            return UNDETECTABLE
        sooner, later = self._labels
        return f"every run of {sooner} before every run of {later}"


def _all_of(groups: Sequence[Members]) -> str:
    """`C_14, C_15 and C_16`."""
    *first, last = [one.label for one in groups]
    return f"{', '.join(first)} and {last}" if first else last


def unit_of(time: str) -> str:
    """In what a column of waiting times or of costs counts: `iterations`, `operations`."""
    return time.removesuffix("_until")


def factor_told(found: Effect) -> str:
    """`1.15 [0.98, 1.36]`, of an effect on a logarithm."""
    within = found.interval
    told = f" [{math.exp(within.low):.2f}, {math.exp(within.high):.2f}]" if within else ""
    return f"{math.exp(found.coefficient):.2f}{told}"


@dataclass(frozen=True)
class AsSoon:
    """Two groups internalize at the same time: mean log times differ by less than a factor fixed beforehand.

    Where a run never internalizes, nothing is said: nobody knows when it would have.
    """

    one: Members
    other: Members
    factor: float
    time: str = "iterations_until"

    @property
    def groups(self) -> tuple[Members, ...]:
        return self.one, self.other

    @property
    def method(self) -> str:
        return (
            f"two one-sided permutation tests of log {in_words(self.time)}: {self.one.label} and "
            f"{self.other.label} differ by less than a factor of {self.factor:g}"
        )

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        waits = [waits_of(side.of(rows), self.time) for side in self.groups]
        if not all(waits) or not all(wait.happened for side in waits for wait in side):
            return None
        one, other = ([math.log(wait.time) for wait in side] for side in waits)
        margin = math.log(self.factor)
        faster, slower = ([time + shift for time in one] for shift in (-margin, margin))
        found = effect_of([True] * len(one) + [False] * len(other), [*one, *other])
        return TestOutcome(
            claimed=max(
                difference_of_means(faster, other, "less"), difference_of_means(slower, other, "greater")
            ),
            opposite=min(
                1.0,
                2
                * min(
                    difference_of_means(faster, other, "greater"), difference_of_means(slower, other, "less")
                ),
            ),
            numbers=f"{self.one.label} against {self.other.label}: {factor_told(found)} times the "
            f"{unit_of(self.time)} ({len(one)} and {len(other)} runs)",
            data={self.one.label: one, self.other.label: other},
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        sizes = [len(members.planned(planned)) for members in self.groups]
        if not all(sizes) or least_split((sizes[0], sizes[1])) > level:
            return UNDETECTABLE
        return f"times that spread by less than a factor of {self.factor:g}"
