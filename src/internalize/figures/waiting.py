"""Tests of what an internalization costs: time until it comes, and the price of a kind of task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean
from typing import Any

from internalize.figures.claims import UNDETECTABLE, TestOutcome
from internalize.figures.rows import FigureRow, Members, in_words, values_at
from internalize.statistics import (
    Interval,
    Waiting,
    bootstrap,
    difference_of_means,
    effect_of,
    log_rank,
    restricted_mean,
    ways_to_deal,
)
from internalize.statistics.groups import least_share, least_split
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
        if all(events):
            return f"{compared} [{interval.low:.2f}, {interval.high:.2f}] times the iterations"
        if any(events):
            lacking = self.later if events[0] else self.sooner
            return f"{compared} times the iterations, counting the whole budget for {lacking.label}"
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
        ways = 1
        sides = [members.planned(planned) for members in self.groups]
        for value in values_at(sides[0], self.strata):
            n, m = (sum(self.strata is None or row.get(self.strata) == value for row in side) for side in sides)
            ways *= comb(n + m, n)
        if not all(sides) or least_share(ways) > level:
            return UNDETECTABLE
        return f"every run of {self.sooner.label} before every run of {self.later.label}"


def _factor(found: Effect) -> str:
    """`1.15 [0.98, 1.36]`, of an effect on a logarithm."""
    within = found.interval
    told = f" [{math.exp(within.low):.2f}, {math.exp(within.high):.2f}]" if within else ""
    return f"{math.exp(found.coefficient):.2f}{told}"


def _effect_data(found: Effect) -> dict[str, Any]:
    ends = [found.interval.low, found.interval.high] if found.interval else []
    return {"coefficient": found.coefficient, "interval": ends}


def _log_costs(rows: Sequence[FigureRow], cost: str, *fields: str) -> dict[tuple[Any, ...], float]:
    """The mean log cost of the runs that are alike in these fields, of those whose cost is known."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        if row.get(cost) is not None:
            found.setdefault(tuple(row.get(field) for field in fields), []).append(math.log(row[cost]))
    return {key: fmean(costs) for key, costs in found.items()}


def _ways_to_name(kinds: Sequence[Members], planned: Sequence[FigureRow], strata: str, unit: str) -> int:
    """In how many ways so many units of a stratum can be called one of the first kind; 1 if a kind has none."""
    units = {
        (row.get(strata), row.get(unit)): kind
        for kind, members in enumerate(kinds)
        for row in members.planned(planned)
    }
    return ways_to_deal(list(units.values()), [stratum for stratum, _ in units])


@dataclass(frozen=True)
class CostsMore:
    """A kind of task costs more than another at equal size: log cost on log size and an indicator of the kind.

    The unit is the task, such as the order of a counter: the log costs of its runs are averaged (a run that
    never internalized counts with its whole budget), and the kinds are permuted over tasks within each stratum.
    """

    costly: Members
    others: Members
    unit: str = "order"
    strata: str = "horizon"
    cost: str = "iterations_until"

    @property
    def groups(self) -> tuple[Members, ...]:
        return self.costly, self.others

    @property
    def method(self) -> str:
        return (
            f"regression of log {in_words(self.cost)} on log {self.unit} and on being one of the "
            f"{self.costly.label} rather than the {self.others.label}, permuted over {self.unit}s within each "
            f"{in_words(self.strata)}"
        )

    def _regression(self, rows: Sequence[FigureRow]) -> tuple[list[tuple[Any, ...]], Effect] | None:
        """The units (stratum, size, whether it is of the costly kind), and the effect of being so."""
        units = {
            (*key, costly): cost
            for members, costly in ((self.costly, True), (self.others, False))
            for key, cost in _log_costs(members.of(rows), self.cost, self.strata, self.unit).items()
        }
        kinds, strata = [costly for *_, costly in units], [stratum for stratum, *_ in units]
        if set(kinds) != {True, False}:
            return None
        sizes = [math.log(unit) for _, unit, _ in units]
        return list(units), effect_of(kinds, list(units.values()), sizes, strata)

    def fit(self, rows: Sequence[FigureRow]) -> dict[bool, dict[Any, float]]:
        """What the regression says that a unit costs: of the costly kind (True) and of the others.

        By the unit alone, so rows in which it stands in two strata have no such lines.
        """
        units, found = self._regression(rows) or ([], None)
        lines: dict[bool, dict[Any, float]] = {True: {}, False: {}}
        for (_, unit, costly), cost in zip(units, found.fitted if found else (), strict=True):
            lines[costly][unit] = math.exp(cost)
        return lines

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        regression = self._regression(rows)
        if regression is None:
            return None
        units, found = regression
        kinds = [costly for *_, costly in units]
        counts = f"{sum(kinds)} {self.costly.label}, {len(kinds) - sum(kinds)} {self.others.label}"
        return TestOutcome(
            claimed=found.rises,
            opposite=found.falls,
            numbers=f"{self.costly.label} take {_factor(found)} times the iterations of {self.others.label} "
            f"of their size ({counts})",
            data=_effect_data(found),
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        ways = _ways_to_name(self.groups, planned, self.strata, self.unit)
        if least_share(ways) > level:
            return UNDETECTABLE
        return f"the highest of {ways} ways to name so many {self.unit}s {self.costly.label}"


@dataclass(frozen=True)
class CostsWith:
    """Tasks cost more, the larger a number of theirs is: log cost on the log of that number, within strata.

    The unit is the task: the log costs of its runs are averaged (a run that never internalized counts with its
    whole budget), and the numbers are permuted over the tasks of a stratum, such as all of one size.
    """

    group: Members
    number: str
    strata: str
    unit: str = "task"
    cost: str = "iterations_until"
    beside: str | None = None
    """Another number of the tasks whose log is in the regression too: cost that it explains does not count."""

    @property
    def groups(self) -> tuple[Members, ...]:
        return (self.group,)

    @property
    def method(self) -> str:
        beside = "" if self.beside is None else f" and on log {in_words(self.beside)}"
        return (
            f"regression of log {in_words(self.cost)} on the log of {in_words(self.number)}{beside}, over "
            f"{self.group.label}, permuted over {self.unit}s within each {in_words(self.strata)}: rises"
        )

    def _regression(self, rows: Sequence[FigureRow]) -> tuple[list[Any], Effect] | None:
        """The units, and the effect of their number."""
        beside = self.beside or self.number
        units = _log_costs(self.group.of(rows), self.cost, self.strata, self.unit, self.number, beside)
        strata, numbers = [stratum for stratum, *_ in units], [number for _, _, number, _ in units]
        if ways_to_deal(numbers, strata) < 2:
            return None
        sizes = None if self.beside is None else [math.log2(size) for *_, size in units]
        found = effect_of(list(map(math.log2, numbers)), list(units.values()), sizes, strata)
        return [unit for _, unit, *_ in units], found

    def fit(self, rows: Sequence[FigureRow]) -> dict[Any, float]:
        """What the regression says that each unit costs."""
        units, found = self._regression(rows) or ([], None)
        costs = map(math.exp, found.fitted if found else ())
        return dict(zip(units, costs, strict=True))

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        regression = self._regression(rows)
        if regression is None:
            return None
        units, found = regression
        return TestOutcome(
            claimed=found.rises,
            opposite=found.falls,
            numbers=f"{_factor(found)} times the iterations where {in_words(self.number)} is twice as large "
            f"({len(units)} {self.unit}s)",
            data=_effect_data(found),
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        members = self.group.planned(planned)
        units = {(row.get(self.strata), row[self.unit], row[self.number]) for row in members}
        ways = ways_to_deal([number for _, _, number in units], [stratum for stratum, _, _ in units])
        if least_share(ways) > level:
            return UNDETECTABLE
        return f"the steepest of {ways} ways to deal out {in_words(self.number)}"


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
            numbers=f"{self.one.label} against {self.other.label}: {_factor(found)} times the iterations "
            f"({len(one)} and {len(other)} runs)",
            data={self.one.label: one, self.other.label: other},
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        sizes = [len(members.planned(planned)) for members in self.groups]
        if not all(sizes) or least_split(*sizes) > level:
            return UNDETECTABLE
        return f"times that spread by less than a factor of {self.factor:g}"


@dataclass(frozen=True)
class GainsMore:
    """What a change of a field brings is more for one group of units than for another.

    Units are the values of the field `by` (orders, say); each has one gain, the mean of log cost before minus
    after, and the kinds are permuted over the units of a stratum.
    """

    more: Members
    less: Members
    by: str
    after: Members
    before: Members
    strata: str = "horizon"
    cost: str = "iterations_until"

    @property
    def groups(self) -> tuple[Members, ...]:
        return self.more, self.less

    @property
    def method(self) -> str:
        return (
            f"permutation test over {in_words(self.by)}s, within each {in_words(self.strata)}, of the gain in "
            f"log {in_words(self.cost)} from {self.before.label} to {self.after.label}: more for "
            f"{self.more.label} than for {self.less.label}"
        )

    def _gains(self, rows: Sequence[FigureRow]) -> dict[tuple[Any, ...], float]:
        """Of each stratum and unit that has runs before the change and after it."""
        before, after = (
            _log_costs(members.of(rows), self.cost, self.strata, self.by)
            for members in (self.before, self.after)
        )
        return {unit: before[unit] - after[unit] for unit in before if unit in after}

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        more, less = self._gains(self.more.of(rows)), self._gains(self.less.of(rows))
        if not more or not less:
            return None
        gains = [*more.values(), *less.values()]
        found = effect_of(
            [True] * len(more) + [False] * len(less), gains, strata=[stratum for stratum, _ in (*more, *less)]
        )
        within = found.interval
        told = f" [{within.low:+.2f}, {within.high:+.2f}]" if within else ""
        return TestOutcome(
            claimed=found.rises,
            opposite=found.falls,
            numbers=f"mean gain {self.more.label} {fmean(more.values()):+.2f} ({len(more)} of them), "
            f"{self.less.label} {fmean(less.values()):+.2f} ({len(less)}); difference at equal "
            f"{in_words(self.strata)} {found.coefficient:+.2f}{told}",
            data={**_effect_data(found), "more": list(more.values()), "less": list(less.values())},
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        ways = _ways_to_name(self.groups, planned, self.strata, self.by)
        if least_share(ways) > level:
            return UNDETECTABLE
        return f"the largest of {ways} ways to deal out the gains"
